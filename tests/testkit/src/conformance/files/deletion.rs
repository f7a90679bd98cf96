//! Deletion of files.

use ports::files::Published;

use super::case::{FilesCase, key, noise, shared};

/// More than one part of a multipart upload.
const LARGE: usize = 9 * 1024 * 1024;

pub(super) async fn a_deleted_file_is_gone(case: FilesCase) {
    for size_bytes in [0, 10, LARGE] {
        case.put(&key("F1"), &noise(1, size_bytes)).await;
        assert!(case.fixture.files.delete(&key("F1")).await.unwrap());
        assert_eq!(case.get(&key("F1")).await, None);
        // A second deletion is not an error, nor is one of a file that never existed.
        assert!(!case.fixture.files.delete(&key("F1")).await.unwrap());
        assert!(!case.fixture.files.delete(&shared("T9", "C9", "1.000000", "F9")).await.unwrap());
    }
}

pub(super) async fn a_file_is_deleted_alone(case: FilesCase) {
    let deleted = key("F1");
    let others = [
        key("F10"),
        deleted.version("other").unwrap(),
        shared("T1", "C1", "1700000000.000101", "F1"),
        shared("T1", "C2", "1700000000.000100", "F1"),
    ];
    for key in others.iter().chain([&deleted]) {
        case.put(key, &noise(1, 100)).await;
    }
    assert!(case.fixture.files.delete(&deleted).await.unwrap());
    assert_eq!(case.get(&deleted).await, None);
    for other in &others {
        case.expect(other, &noise(1, 100)).await;
    }
}

pub(super) async fn a_deleted_file_can_be_written_anew(case: FilesCase) {
    case.put(&key("F1"), &noise(1, 100)).await;
    let begun = case.begin(&key("F1"), &noise(2, 100)).await;
    assert!(case.fixture.files.delete(&key("F1")).await.unwrap());
    // A write that was in progress can still be published: its writer must check whether it may.
    assert_eq!(begun.publish().await.unwrap(), Published::New);
    case.expect(&key("F1"), &noise(2, 100)).await;
    assert!(case.fixture.files.delete(&key("F1")).await.unwrap());
    assert_eq!(case.put(&key("F1"), &noise(3, 100)).await, Published::New);
    case.expect(&key("F1"), &noise(3, 100)).await;
}
