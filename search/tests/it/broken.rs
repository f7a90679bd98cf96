//! An unusable index is rebuilt, or reported in one line.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use search::hits;
use search::index::SearchIndex;
use search::{background, follower};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::fixture::{SearchFixture, message, request};

const TS: &str = "1700000000.000100";

#[tokio::test]
async fn an_unusable_index_is_rebuilt() {
    let fixture = SearchFixture::open().await;
    fixture.store("C1", &[message(TS, "here")]).await;
    let other_version = |file: &std::path::Path| {
        let connection = rusqlite::Connection::open(file).unwrap();
        connection.pragma_update(None, "user_version", 999).unwrap();
    };
    let cut = |file: &std::path::Path| {
        let bytes = fs::read(file).unwrap();
        fs::write(file, &bytes[..bytes.len() / 2 + 100]).unwrap();
    };
    let overwritten = |file: &std::path::Path| {
        let mut bytes = fs::read(file).unwrap();
        bytes[100..].fill(7);
        fs::write(file, bytes).unwrap();
    };
    let breaks: [&dyn Fn(&std::path::Path); 3] = [&other_version, &cut, &overwritten];
    for break_it in breaks {
        drop(fixture.caught_up().await);
        break_it(&fixture.file());
        // A broken page may only be detected when it is read. The file is then removed, and the next attempt
        // succeeds.
        let mut found = Vec::new();
        for _ in 0..2 {
            let Ok(index) = SearchIndex::open(&fixture.file()).await else { continue };
            let (changes, archive) = (&*fixture.changes, &*fixture.archive);
            if follower::catch_up(&index, changes, archive, follower::BATCH_SIZE, |_| true).await.is_ok() {
                found = fixture.found(&index, "here").await;
            }
        }
        assert_eq!(found, [TS]);
        fs::remove_file(fixture.file()).unwrap();
    }
}

#[tokio::test]
async fn a_file_of_another_program_stays_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("index.db");
    let database = folder.path().join("other.db");
    rusqlite::Connection::open(&database).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    for bytes in [b"short".to_vec(), vec![7; 5_000], fs::read(&database).unwrap()] {
        fs::write(&file, &bytes).unwrap();
        let error = SearchIndex::open(&file).await.unwrap_err().to_string();
        assert!(error.contains("is not a search index") && !error.contains('\n'), "{error}");
        assert_eq!(fs::read(&file).unwrap(), bytes);
    }
}

#[tokio::test]
async fn an_index_of_another_archive_is_rebuilt() {
    let (one, other) = (SearchFixture::open().await, SearchFixture::open().await);
    one.store("C1", &[message(TS, "here")]).await;
    other.store("C1", &[message("1700000001.000000", "there")]).await;
    drop((one.caught_up().await, other.caught_up().await));
    fs::copy(one.file(), other.file()).unwrap();
    let index = other.caught_up().await;
    assert_eq!(other.found(&index, "there").await, ["1700000001.000000"]);
    assert_eq!(index.count().await.unwrap(), 1);
}

#[tokio::test]
async fn an_index_that_cannot_be_created_is_a_one_line_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = SearchIndex::open(&folder.path().join("missing/index.db")).await.unwrap_err().to_string();
    assert!(error.starts_with("cannot open the search index") && !error.contains('\n'), "{error}");
    assert!(error.ends_with("; --index names another folder"), "{error}");
}

#[tokio::test]
async fn the_cause_of_a_failure_is_only_in_its_message() {
    let fixture = SearchFixture::open().await;
    fixture.store("C1", &[message(TS, "here")]).await;
    drop(fixture.caught_up().await);
    let index = SearchIndex::open(&fixture.file()).await.unwrap();
    fs::write(fixture.file(), [7; 5_000]).unwrap();
    let broken = index.count().await.unwrap_err();
    assert!(broken.to_string().contains("delete it if this error persists"), "{broken}");
    assert!(std::error::Error::source(&broken).is_none());
}

#[cfg(unix)]
#[tokio::test]
async fn a_read_only_index_is_a_one_line_error_and_stays_unchanged() {
    use std::os::unix::fs::PermissionsExt;

    let fixture = SearchFixture::open().await;
    fixture.store("C1", &[message(TS, "here")]).await;
    drop(fixture.caught_up().await);
    let before = fs::read(fixture.file()).unwrap();
    fs::set_permissions(fixture.file(), fs::Permissions::from_mode(0o400)).unwrap();
    // Root may still write to it.
    let is_root = fs::OpenOptions::new().append(true).open(fixture.file()).is_ok();
    match SearchIndex::open(&fixture.file()).await {
        Ok(index) => {
            assert!(is_root);
            assert_eq!(fixture.found(&index, "here").await, [TS]);
        }
        Err(error) => {
            let error = error.to_string();
            assert!(!is_root, "{error}");
            assert!(error.starts_with("cannot open the search index") && !error.contains('\n'), "{error}");
            assert_eq!(fs::read(fixture.file()).unwrap(), before);
        }
    }
}

#[tokio::test]
async fn a_follower_rebuilds_an_index_that_was_deleted_while_open() {
    let fixture = SearchFixture::open().await;
    fixture.store("C1", &[message(TS, "here")]).await;
    let (stop, stopped) = watch::channel(false);
    let (file, changes, archive) =
        (fixture.file(), Arc::clone(&fixture.changes), Arc::clone(&fixture.archive));
    let following = tokio::spawn(async move {
        background::follow(&file, Duration::from_millis(1), changes, archive, stopped).await
    });
    for _ in 0..2 {
        while fixture.found(&fixture.index().await, "here").await.is_empty() {
            tokio::task::yield_now().await;
        }
        fs::remove_file(fixture.file()).unwrap();
    }
    stop.send_replace(true);
    following.await.unwrap();
}

#[tokio::test]
async fn all_that_open_an_index_which_was_just_deleted_get_it() {
    let fixture = SearchFixture::open().await;
    // Of the deleted index, processes that had it open keep their log.
    let mut open = Vec::new();
    for _ in 0..100 {
        let mut opening = JoinSet::new();
        for _ in 0..8 {
            let file = fixture.file();
            opening.spawn(async move { SearchIndex::open(&file).await });
        }
        let outcomes = opening.join_all().await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        open = outcomes;
        fs::remove_file(fixture.file()).unwrap();
    }
    drop(open);
}

/// Writes to an index from another connection, as a process that is stopped in the middle of a batch.
fn locked(file: &std::path::Path) -> rusqlite::Connection {
    let writer = rusqlite::Connection::open(file).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE; UPDATE state SET ahead_s = ahead_s").unwrap();
    writer
}

#[tokio::test]
async fn a_search_does_not_wait_for_a_process_that_writes() {
    let fixture = SearchFixture::open().await;
    fixture.store("C1", &[message(TS, "here")]).await;
    drop(fixture.caught_up().await);
    let writer = locked(&fixture.file());
    fixture.store("C1", &[message("1700000001.000100", "here too")]).await;
    let (changes, archive) = (&*fixture.changes, &*fixture.archive);
    let limit = Duration::from_millis(200);
    for index in [fixture.index().await, fixture.index().await] {
        let started = std::time::Instant::now();
        let is_caught_up =
            follower::catch_up_within(&index, changes, archive, 1_000, limit, limit).await.unwrap();
        assert!(!is_caught_up);
        assert_eq!(fixture.found(&index, "here").await, [TS]);
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    }
    drop(writer);
    const LONG: Duration = Duration::from_secs(60);
    let index = fixture.index().await;
    assert!(follower::catch_up_within(&index, changes, archive, 1_000, LONG, LONG).await.unwrap());
    assert_eq!(fixture.found(&index, "here").await.len(), 2);
}

#[tokio::test]
async fn a_search_ends_in_time_while_long_texts_are_indexed() {
    let fixture = SearchFixture::open().await;
    let long = "<".repeat(100_000);
    let messages: Vec<_> =
        (0..20).map(|second| message(&format!("17000000{second:02}.000100"), &long)).collect();
    fixture.store("C1", &messages).await;
    let index = fixture.index().await;
    let (changes, archive) = (&*fixture.changes, &*fixture.archive);
    let whole = std::time::Instant::now();
    drop(fixture.caught_up().await);
    let whole = whole.elapsed();
    index.clear(index.cursor().await.unwrap()).await.unwrap();
    let started = std::time::Instant::now();
    let limit = Duration::from_millis(1);
    assert!(!follower::catch_up_within(&index, changes, archive, 1_000, limit, limit).await.unwrap());
    assert!(started.elapsed() < whole / 2, "{:?} of {whole:?}", started.elapsed());
}

#[tokio::test]
async fn an_index_that_is_cut_or_deleted_while_it_is_open_is_made_anew() {
    let fixture = SearchFixture::open().await;
    let messages: Vec<_> = (0..200)
        .map(|second| message(&format!("1700000{second:03}.000100"), &format!("here word{second}")))
        .collect();
    fixture.store("C1", &messages).await;
    let whole = {
        let index = fixture.caught_up().await;
        index.optimize().await.unwrap();
        fs::metadata(fixture.file()).unwrap().len()
    };
    let mut open = None;
    for bytes in [0, 50, 100, 4_096, whole / 2] {
        for is_deleted in [false, true] {
            let index = SearchIndex::current(&mut open, &fixture.file()).await.unwrap();
            let (changes, archive) = (&*fixture.changes, &*fixture.archive);
            assert!(follower::catch_up(&index, changes, archive, 1_000, |_| true).await.unwrap());
            // What was written since the last checkpoint is in the log, which stays.
            index.optimize().await.unwrap();
            assert_eq!(fixture.found(&index, "here").await.len(), 200, "{bytes}");
            let file = fs::OpenOptions::new().write(true).open(fixture.file()).unwrap();
            file.set_len(bytes).unwrap();
            if is_deleted {
                fs::remove_file(fixture.file()).unwrap();
            }
            let mut attempts = 0;
            loop {
                attempts += 1;
                assert!(attempts < 4, "{bytes} bytes are left, and the index is not made anew");
                let Ok(index) = SearchIndex::current(&mut open, &fixture.file()).await else { continue };
                let is_found = async |query: &str, expected: usize| {
                    let found = hits::search(archive, &index, request(query)).await;
                    found.is_ok_and(|answer| answer.hits.len() == expected)
                };
                if follower::catch_up(&index, changes, archive, 1_000, |_| true).await.is_ok()
                    && is_found("here", 200).await
                    && is_found("word199", 1).await
                {
                    break;
                }
            }
        }
    }
}
