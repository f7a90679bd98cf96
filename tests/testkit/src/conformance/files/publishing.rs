//! A file is published whole or not at all, and never replaced.

use ports::files::Published;

use super::case::{FilesCase, key, noise};

/// More than any backend buffers before it writes.
const LARGE: usize = 9 * 1024 * 1024;

pub(super) async fn a_file_is_invisible_before_it_is_published(case: FilesCase) {
    let content = noise(1, LARGE);
    let mut writer = case.begin(&key("F1"), &content).await;
    assert_eq!(case.get(&key("F1")).await, None);
    writer.write(content.slice(..10)).await.unwrap();
    assert_eq!(case.get(&key("F1")).await, None);
    assert_eq!(writer.publish().await.unwrap(), Published::New);
    assert_eq!(case.get(&key("F1")).await.map(|found| found.len()), Some(LARGE + 10));
}

pub(super) async fn a_dropped_writer_leaves_nothing(case: FilesCase) {
    for size_bytes in [0, 10, LARGE] {
        drop(case.begin(&key("F1"), &noise(2, size_bytes)).await);
        assert_eq!(case.get(&key("F1")).await, None);
    }
    let content = noise(3, 10);
    assert_eq!(case.put(&key("F1"), &content).await, Published::New);
    case.expect(&key("F1"), &content).await;
}

pub(super) async fn a_published_file_is_never_replaced(case: FilesCase) {
    let first = noise(1, 300_000);
    assert_eq!(case.put(&key("F1"), &first).await, Published::New);
    for other in [noise(2, 300_000), noise(3, 0), noise(4, LARGE), first.clone()] {
        assert_eq!(case.put(&key("F1"), &other).await, Published::AlreadyThere);
        case.expect(&key("F1"), &first).await;
    }
}

pub(super) async fn a_file_that_is_being_read_stays_whole(case: FilesCase) {
    let content = noise(1, LARGE);
    case.put(&key("F1"), &content).await;
    let mut reader = case.fixture.files.open(&key("F1")).await.unwrap().unwrap();
    let mut read = reader.next().await.unwrap().unwrap().to_vec();
    assert_eq!(case.put(&key("F1"), &noise(2, LARGE)).await, Published::AlreadyThere);
    while let Some(chunk) = reader.next().await.unwrap() {
        read.extend_from_slice(&chunk);
    }
    assert!(read == content, "the bytes changed under the reader");
}

pub(super) async fn a_writer_that_lost_can_be_followed_by_another(case: FilesCase) {
    let content = noise(1, 10);
    let slow = case.begin(&key("F1"), &noise(2, 10)).await;
    case.put(&key("F1"), &content).await;
    assert_eq!(slow.publish().await.unwrap(), Published::AlreadyThere);
    assert_eq!(case.put(&key("F2"), &content).await, Published::New);
    case.expect(&key("F1"), &content).await;
}
