//! Concurrent writers.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use ports::files::{FileKey, Published};

use super::case::{FilesCase, key, noise};

const WRITERS: usize = 16;

/// Writes files concurrently, each in its own task, and returns the results.
async fn write_at_once(case: &FilesCase, files: Vec<(FileKey, Bytes)>) -> Vec<Published> {
    let tasks = files.into_iter().map(|(key, content)| {
        let files = Arc::clone(&case.fixture.files);
        tokio::spawn(async move {
            let mut writer = files.create(&key).await.unwrap();
            for start in (0..content.len()).step_by(50_000) {
                writer.write(content.slice(start..content.len().min(start + 50_000))).await.unwrap();
            }
            writer.publish().await.unwrap()
        })
    });
    join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

pub(super) async fn one_of_many_publishers_is_new(case: FilesCase) {
    for round in 0..8 {
        let key = key(&format!("F{round}"));
        let contents: Vec<Bytes> =
            (0..WRITERS).map(|writer| noise(writer as u64, 1_000 * (1 + writer))).collect();
        let files = contents.iter().map(|content| (key.clone(), content.clone())).collect();
        let published = write_at_once(&case, files).await;
        let winners: Vec<usize> =
            (0..WRITERS).filter(|writer| published[*writer] == Published::New).collect();
        assert_eq!(winners.len(), 1, "round {round}: {winners:?} were new");
        case.expect(&key, &contents[winners[0]]).await;
    }
}

pub(super) async fn files_written_at_once_do_not_mix(case: FilesCase) {
    let files: Vec<(FileKey, Bytes)> =
        (0..WRITERS).map(|writer| (key(&format!("F{writer}")), noise(writer as u64, 600_000))).collect();
    let published = write_at_once(&case, files.clone()).await;
    assert_eq!(published, [Published::New; WRITERS]);
    for (key, content) in &files {
        case.expect(key, content).await;
    }
}
