//! What was written is what is read.

use bytes::Bytes;
use futures_util::future::join_all;
use ports::files::Published;

use super::case::{FilesCase, key, noise};

pub(super) async fn a_store_is_ready(case: FilesCase) {
    case.fixture.files.ready().await.unwrap();
}

pub(super) async fn what_was_never_written_is_not_there(case: FilesCase) {
    assert_eq!(case.get(&key("F1")).await, None);
    case.put(&key("F1"), &noise(1, 10)).await;
    assert_eq!(case.get(&key("F2")).await, None);
}

pub(super) async fn an_empty_file_is_a_file(case: FilesCase) {
    let writer = case.fixture.files.create(&key("F1")).await.unwrap();
    assert_eq!(writer.publish().await.unwrap(), Published::New);
    case.expect(&key("F1"), &Bytes::new()).await;
    // Nothing, written, is nothing as well.
    case.put(&key("F2"), &Bytes::new()).await;
    case.expect(&key("F2"), &Bytes::new()).await;
}

pub(super) async fn bytes_come_back_whatever_the_chunks(case: FilesCase) {
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

pub(super) async fn many_mebibytes_come_back(case: FilesCase) {
    let mebibyte = noise(3, 1024 * 1024);
    let mut writer = case.fixture.files.create(&key("F1")).await.unwrap();
    for _ in 0..40 {
        writer.write(mebibyte.clone()).await.unwrap();
    }
    writer.publish().await.unwrap();
    let mut reader = case.fixture.files.open(&key("F1")).await.unwrap().unwrap();
    assert_eq!(reader.size_bytes(), 40 * 1024 * 1024);
    let mut place = 0;
    while let Some(chunk) = reader.next().await.unwrap() {
        assert!(chunk.len() <= 8 * 1024 * 1024, "a chunk of {} bytes is no chunk", chunk.len());
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let within = place % mebibyte.len();
            let (part, behind) = rest.split_at(rest.len().min(mebibyte.len() - within));
            assert!(*part == mebibyte[within..within + part.len()], "behind byte {place}");
            place += part.len();
            rest = behind;
        }
    }
    assert_eq!(place, 40 * 1024 * 1024);
}

pub(super) async fn a_file_is_read_by_many_at_once(case: FilesCase) {
    let content = noise(5, 700_000);
    case.put(&key("F1"), &content).await;
    let reads = (0..8).map(|_| async { case.expect(&key("F1"), &content).await });
    join_all(reads).await;
}
