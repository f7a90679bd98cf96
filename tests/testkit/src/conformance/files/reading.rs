//! Reads return the written bytes.

use bytes::Bytes;
use futures_util::future::join_all;
use ports::files::Published;

use super::case::{FilesCase, key, noise};

pub(super) async fn a_store_is_ready(case: FilesCase) {
    case.fixture.files.ready().await.unwrap();
}

pub(super) async fn an_unwritten_file_does_not_exist(case: FilesCase) {
    assert_eq!(case.get(&key("F1")).await, None);
    case.put(&key("F1"), &noise(1, 10)).await;
    assert_eq!(case.get(&key("F2")).await, None);
}

pub(super) async fn an_empty_file_is_a_file(case: FilesCase) {
    let writer = case.fixture.files.create(&key("F1")).await.unwrap();
    assert_eq!(writer.publish().await.unwrap(), Published::New);
    case.expect(&key("F1"), &Bytes::new()).await;
    // A write of no bytes is an empty file too.
    case.put(&key("F2"), &Bytes::new()).await;
    case.expect(&key("F2"), &Bytes::new()).await;
}

pub(super) async fn bytes_are_returned_for_any_chunk_size(case: FilesCase) {
    let content = noise(7, 1_200_000);
    for (number, chunk_bytes) in
        [1_000, 4_096, 65_536, 262_144, 524_287, 524_288, 524_289, 2_000_000].into_iter().enumerate()
    {
        let key = key(&format!("F{number:02}"));
        let mut writer = case.fixture.files.create(&key).await.unwrap();
        for start in (0..content.len()).step_by(chunk_bytes) {
            writer.write(content.slice(start..content.len().min(start + chunk_bytes))).await.unwrap();
        }
        writer.publish().await.unwrap();
        case.expect(&key, &content).await;
    }
    let bytes: Vec<u8> = (0..=255).collect();
    let mut writer = case.fixture.files.create(&key("FB")).await.unwrap();
    for byte in &bytes {
        writer.write(Bytes::copy_from_slice(&[*byte])).await.unwrap();
    }
    writer.publish().await.unwrap();
    case.expect(&key("FB"), &bytes.into()).await;
}

pub(super) async fn many_mebibytes_are_returned(case: FilesCase) {
    let mebibyte = noise(3, 1024 * 1024);
    let mut writer = case.fixture.files.create(&key("F1")).await.unwrap();
    for _ in 0..40 {
        writer.write(mebibyte.clone()).await.unwrap();
    }
    writer.publish().await.unwrap();
    let mut reader = case.fixture.files.open(&key("F1")).await.unwrap().unwrap();
    assert_eq!(reader.size_bytes(), 40 * 1024 * 1024);
    let mut offset = 0;
    while let Some(chunk) = reader.next().await.unwrap() {
        assert!(chunk.len() <= 8 * 1024 * 1024, "a chunk of {} bytes is no chunk", chunk.len());
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let within = offset % mebibyte.len();
            let (part, after) = rest.split_at(rest.len().min(mebibyte.len() - within));
            assert!(*part == mebibyte[within..within + part.len()], "after byte {offset}");
            offset += part.len();
            rest = after;
        }
    }
    assert_eq!(offset, 40 * 1024 * 1024);
}

pub(super) async fn a_file_can_be_read_concurrently(case: FilesCase) {
    let content = noise(5, 700_000);
    case.put(&key("F1"), &content).await;
    let reads = (0..8).map(|_| async { case.expect(&key("F1"), &content).await });
    join_all(reads).await;
}
