//! Rewrites the database, so that its file contains no removed data.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::changes::renew_epoch;
use super::connection::{COMPACT_RETRY, open_for_compacting, sleep};

/// How long to wait for a checkpoint of another process, which is usually short.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a compaction failed.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// SQLite's reason.
    #[error("cannot compact the database: {0}; it is unchanged, so run the same command again")]
    Database(#[from] rusqlite::Error),
    /// The log may still contain earlier content.
    #[error(
        "the log of the database is in use and may still hold what was erased: run the same command again"
    )]
    LogInUse,
    /// The compacting thread ended.
    #[error("cannot compact the database: {0}")]
    Stopped(String),
}

/// Rewrites a database and empties its log. While it runs, this needs the disk space of the database once
/// more, in its folder, and other processes cannot write.
pub(super) fn compact(file: &Path) -> Result<(), CompactError> {
    let connection = open_for_compacting(file)?;
    // Rows may have other rowids afterwards. Twice, so that even if this process is killed in between, no
    // follower continues from an old position.
    renew_epoch(&connection)?;
    connection.execute_batch("VACUUM")?;
    renew_epoch(&connection)?;
    empty_log(&connection)
}

/// Empties the log. While another process checkpoints it, SQLite reports that it is busy without calling the
/// busy handler. <https://www.sqlite.org/c3ref/wal_checkpoint_v2.html>
fn empty_log(connection: &Connection) -> Result<(), CompactError> {
    let began = Instant::now();
    loop {
        let is_busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if !is_busy {
            return Ok(());
        }
        if began.elapsed() > CHECKPOINT_TIMEOUT {
            return Err(CompactError::LogInUse);
        }
        sleep(COMPACT_RETRY);
    }
}

#[cfg(test)]
mod tests {
    use ports::archive::{ArchiveExt, Attributes, ItemKey, Update};
    use ports::changes::ChangeBatch;
    use ports::clock::SystemClock;

    use crate::{DATABASE_FILE, Database};

    const SECRET: &str = "topsecret";

    fn message(second: usize, text: &str) -> Update {
        let set = Attributes::from_iter([("text".to_owned(), text.repeat(40).into())]);
        Update { set, ..Update::new(ItemKey::new("message#T1#C1", format!("{second:010}.000000"))) }
    }

    #[tokio::test]
    async fn compacting_removes_erased_content_from_the_file_and_makes_followers_rebuild() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), SystemClock::shared()).unwrap();
        let archive = database.archive();
        let messages: Vec<Update> = (0..200).map(|second| message(second, SECRET)).collect();
        for written in archive.write_all(&messages.iter().collect::<Vec<_>>()).await {
            written.unwrap();
        }
        archive.write(&message(999, "stays")).await.unwrap();
        let ChangeBatch::Items { next, .. } = database.changes().since(None, 1_000).await.unwrap() else {
            panic!("no items")
        };
        for update in &messages {
            archive.erase(&update.key).await.unwrap();
        }
        // Another process that uses the folder sees the same rows afterwards and continues to write.
        let other = Database::open(folder.path(), SystemClock::shared()).unwrap();
        database.compact().await.unwrap();
        for file in [DATABASE_FILE, "annalist.db-wal"] {
            let bytes = std::fs::read(folder.path().join(file)).unwrap();
            assert!(!bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()), "{file}");
        }
        assert_eq!(database.changes().since(Some(&next), 10).await.unwrap(), ChangeBatch::Rebuild);
        assert!(other.archive().get(&messages[0].key).await.unwrap().unwrap().is_erased());
        other.archive().write(&message(1_000, "later")).await.unwrap();
        assert!(archive.get(&message(1_000, "").key).await.unwrap().is_some());
        other.close().await;
        database.close().await;
    }
}
