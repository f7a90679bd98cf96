//! A database that is removed or replaced while a process uses it.

use std::path::Path;

use embedded::{DATABASE_FILE, Database};
use ports::archive::{ArchiveError, ArchiveExt, ItemKey, Update};
use ports::clock::SystemClock;

fn open(folder: &Path) -> Database {
    Database::open(folder, SystemClock::shared()).unwrap()
}

async fn write(database: &Database, id: &str) -> Result<(), ArchiveError> {
    database.archive().write(&Update::new(ItemKey::new("user#T1", id))).await.map(drop)
}

#[tokio::test]
async fn nothing_is_acknowledged_after_the_database_or_its_log_was_removed() {
    for removed in [DATABASE_FILE.to_owned(), format!("{DATABASE_FILE}-wal")] {
        let folder = tempfile::tempdir().unwrap();
        let database = open(folder.path());
        write(&database, "U1").await.unwrap();
        database.queue().ready().await.unwrap();
        std::fs::remove_file(folder.path().join(&removed)).unwrap();
        let error = write(&database, "U2").await.unwrap_err().to_string();
        assert!(error.contains("was removed or replaced: restart annalist"), "{removed}: {error}");
        database.queue().ready().await.unwrap_err();
        database.close().await;
    }
}

#[tokio::test]
async fn a_process_with_a_replaced_database_leaves_the_new_one_alone() {
    let (folder, older) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    open(older.path()).close().await;
    let stale = open(folder.path());
    write(&stale, "U1").await.unwrap();
    for suffix in ["-wal", "-shm"] {
        std::fs::remove_file(folder.path().join(format!("{DATABASE_FILE}{suffix}"))).unwrap();
    }
    std::fs::rename(older.path().join(DATABASE_FILE), folder.path().join(DATABASE_FILE)).unwrap();

    let current = open(folder.path());
    write(&current, "U2").await.unwrap();
    write(&stale, "U3").await.unwrap_err();
    stale.close().await;
    drop(stale);
    write(&current, "U4").await.unwrap();
    // As if it were killed: the new database and its log must be complete by themselves.
    let copy = tempfile::tempdir().unwrap();
    for suffix in ["", "-wal"] {
        let name = format!("{DATABASE_FILE}{suffix}");
        std::fs::copy(folder.path().join(&name), copy.path().join(&name)).unwrap();
    }
    let copied = open(copy.path()).archive();
    for id in ["U2", "U4"] {
        assert!(copied.get(&ItemKey::new("user#T1", id)).await.unwrap().is_some(), "{id}");
    }
    assert!(copied.get(&ItemKey::new("user#T1", "U1")).await.unwrap().is_none());
    current.close().await;
}

#[tokio::test]
async fn a_queue_is_ready_only_if_the_database_accepts_a_write() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path());
    let reader = rusqlite::Connection::open(folder.path().join(DATABASE_FILE)).unwrap();
    let data_version = || -> i64 { reader.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap() };
    let before = data_version();
    database.queue().ready().await.unwrap();
    assert_ne!(data_version(), before);
    database.close().await;
    open(folder.path()).close().await;
}
