//! The condition of a data folder: free space, permissions, the integrity of its database, and other
//! processes.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;

use super::connection::{first_altered_object, open_for_reading};
use super::{DATABASE_FILE, Database, PROCESSES_FOLDER, process_lock};

/// Steps of SQLite's virtual machine between two checks of the clock: some tenths of a millisecond.
const STEPS: i32 = 10_000;

/// Free space and permissions of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolderCondition {
    /// The space on its filesystem that is available to its owner.
    pub free_bytes: u64,
    /// The size of its filesystem.
    pub total_bytes: u64,
    /// The permissions, as `chmod` uses them.
    pub mode: u32,
}

impl FolderCondition {
    /// Whether other users than its owner may enter the folder or list it.
    #[must_use]
    pub fn is_accessible_to_others(self) -> bool {
        self.mode & 0o077 != 0
    }
}

/// The result of an integrity check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Integrity {
    /// Every page is correct.
    Sound,
    /// SQLite's first error.
    Damaged(String),
    /// The schema is not that of this version; the first object that differs.
    Altered(String),
    /// The time limit ended before the whole database was checked.
    Unfinished,
}

/// Returns free space and permissions of a folder.
///
/// # Errors
/// The system's, also if the folder does not exist.
#[cfg(unix)]
pub fn folder(path: &Path) -> io::Result<FolderCondition> {
    use std::os::unix::fs::PermissionsExt;

    let space = rustix::fs::statvfs(path)?;
    Ok(FolderCondition {
        free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        total_bytes: space.f_blocks.saturating_mul(space.f_frsize),
        mode: std::fs::metadata(path)?.permissions().mode() & 0o777,
    })
}

/// Returns free space and permissions of a folder.
///
/// # Errors
/// Always: only Unix is supported.
#[cfg(not(unix))]
pub fn folder(_: &Path) -> io::Result<FolderCondition> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Database {
    /// Whether another process has the folder open.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn is_used_by_others(&self) -> io::Result<bool> {
        Ok(process_lock::find_others(&self.data.join(PROCESSES_FOLDER), self.owner)?.alive)
    }

    /// Checks the database for at most `time_limit`: a few gigabytes take minutes, and meanwhile the log
    /// cannot be checkpointed completely.
    ///
    /// # Errors
    /// If the database cannot be read at all.
    pub async fn integrity(&self, time_limit: Duration) -> Result<Integrity, String> {
        let file = self.data.join(DATABASE_FILE);
        let checked = tokio::task::spawn_blocking(move || check_integrity(&file, time_limit)).await;
        checked.map_err(|panic| panic.to_string())?.map_err(|error| error.to_string())
    }
}

fn check_integrity(file: &Path, time_limit: Duration) -> rusqlite::Result<Integrity> {
    let connection = open_for_reading(file)?;
    let until = Instant::now() + time_limit;
    connection.progress_handler(STEPS, Some(move || Instant::now() >= until))?;
    // Checked first, because it takes no time; reported last, because damage is worse.
    let altered = first_altered_object(&connection);
    let or_altered = |otherwise| Ok(altered?.map_or(otherwise, Integrity::Altered));
    match connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)) {
        Ok(result) if result == "ok" => or_altered(Integrity::Sound),
        Ok(error) => Ok(Integrity::Damaged(error)),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => or_altered(Integrity::Unfinished),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Ok(Integrity::Damaged(error.to_string()))
            }
            Some(_) | None => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use rusqlite::Connection;

    use super::super::connection::open_for_writing;
    use super::*;
    use ports::clock::SystemClock;

    #[test]
    fn a_folder_has_free_space_and_permissions() {
        use std::os::unix::fs::PermissionsExt;

        let path = tempfile::tempdir().unwrap();
        std::fs::set_permissions(path.path(), std::fs::Permissions::from_mode(0o750)).unwrap();
        let found = folder(path.path()).unwrap();
        assert_eq!(found.mode, 0o750);
        assert!(found.free_bytes > 0 && found.free_bytes <= found.total_bytes, "{found:?}");
        assert!(folder(&path.path().join("nowhere")).is_err());
    }

    #[tokio::test]
    async fn other_processes_are_detected_and_this_process_is_not_counted() {
        let path = tempfile::tempdir().unwrap();
        let database = Database::open(path.path(), SystemClock::shared()).unwrap();
        assert!(!database.is_used_by_others().unwrap());
        let other = Database::open(path.path(), SystemClock::shared()).unwrap();
        assert!(database.is_used_by_others().unwrap());
        other.close().await;
        drop(other);
        assert!(!database.is_used_by_others().unwrap());
    }

    #[tokio::test]
    async fn an_integrity_check_reports_altered_damaged_and_unfinished_databases() {
        let path = tempfile::tempdir().unwrap();
        let database = Database::open(path.path(), SystemClock::shared()).unwrap();
        assert_eq!(database.integrity(Duration::from_secs(30)).await.unwrap(), Integrity::Sound);
        let other = Connection::open(path.path().join(DATABASE_FILE)).unwrap();
        for (change, differs) in [
            ("ANALYZE; CREATE INDEX mine ON items (timestamp)", "mine"),
            ("DROP INDEX mine; DROP VIEW users", "users"),
        ] {
            other.execute_batch(change).unwrap();
            let found = database.integrity(Duration::from_secs(30)).await.unwrap();
            assert_eq!(found, Integrity::Altered(differs.to_owned()));
        }

        let file = path.path().join("many.db");
        let many = open_for_writing(&file).unwrap();
        many.execute_batch(
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 50000)
             INSERT INTO items SELECT 'message#T1#C1', x, NULL, '{}' FROM n; PRAGMA wal_checkpoint(TRUNCATE)",
        )
        .unwrap();
        drop(many);
        assert_eq!(check_integrity(&file, Duration::ZERO).unwrap(), Integrity::Unfinished);
        assert_eq!(check_integrity(&file, Duration::from_secs(30)).unwrap(), Integrity::Sound);

        let mut raw = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
        raw.seek(SeekFrom::Start(40 * 8192)).unwrap();
        raw.write_all(&[0xff; 8192]).unwrap();
        drop(raw);
        let damaged = check_integrity(&file, Duration::from_secs(30)).unwrap();
        assert!(matches!(damaged, Integrity::Damaged(_)), "{damaged:?}");
    }
}
