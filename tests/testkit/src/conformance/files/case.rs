//! The helpers of the cases: one store, with short names for the usual steps.

use bytes::Bytes;
use ports::files::{FileKey, FileWriter, Published};
use slack::ids::{ChannelId, FileId, TeamId, Ts};

use super::FilesFixture;

/// A fixture in use.
pub(super) struct FilesCase {
    pub(super) fixture: FilesFixture,
}

/// The key of the file with this id.
pub(super) fn key(file: &str) -> FileKey {
    shared("T1", "C1", "1700000000.000100", file)
}

pub(super) fn shared(team: &str, channel: &str, ts: &str, file: &str) -> FileKey {
    FileKey::shared(
        &TeamId::parse(team).unwrap(),
        &ChannelId::parse(channel).unwrap(),
        &Ts::parse(ts).unwrap(),
        &FileId::parse(file).unwrap(),
    )
}

/// Pseudo-random bytes that depend on the seed.
pub(super) fn noise(seed: u64, size_bytes: usize) -> Bytes {
    let mut bytes = vec![0; size_bytes];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes.into()
}

impl FilesCase {
    pub(super) async fn begin(&self, key: &FileKey, content: &Bytes) -> Box<dyn FileWriter> {
        let mut writer = self.fixture.files.create(key).await.unwrap();
        writer.write(content.clone()).await.unwrap();
        writer
    }

    pub(super) async fn put(&self, key: &FileKey, content: &Bytes) -> Published {
        self.begin(key, content).await.publish().await.unwrap()
    }

    /// Reads the file of a key, and asserts that its length is the announced one.
    pub(super) async fn get(&self, key: &FileKey) -> Option<Bytes> {
        let mut reader = self.fixture.files.open(key).await.unwrap()?;
        let mut content = Vec::new();
        while let Some(chunk) = reader.next().await.unwrap() {
            assert!(!chunk.is_empty(), "a chunk is empty");
            content.extend_from_slice(&chunk);
        }
        assert_eq!(reader.next().await.unwrap(), None, "the end is the end");
        assert_eq!(reader.size_bytes(), content.len() as u64);
        Some(content.into())
    }

    /// Asserts the content of a file. A failure does not print the bytes.
    pub(super) async fn expect(&self, key: &FileKey, content: &Bytes) {
        let found = self.get(key).await;
        let size = found.as_ref().map(Bytes::len);
        assert!(found.as_ref() == Some(content), "{key}: {size:?} bytes instead of those {}", content.len());
    }
}
