//! What the rows of a file have in common: its ids, the messages that share it, and its stored versions.

use ports::archive::{Attributes, Item, text_attributes};
use ports::files::FileKey;
use serde::{Deserialize, Serialize};
use slack::ids::{ChannelId, FileId, TeamId, Ts};

/// The prefix of the marks for stored versions of a file. Each has its source and its size in its name.
pub(super) const VERSION: &str = "version#";

/// A message that shares a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Share {
    pub channel: ChannelId,
    pub ts: Ts,
}

/// The stored bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBytes {
    pub key: FileKey,
    /// Their source, as returned by [`FileObject::source`](super::FileObject::source).
    pub source: String,
    pub size_bytes: u64,
    /// Their SHA-256, in hex.
    pub sha256: String,
}

pub(super) fn file_identity(team: &TeamId, file: &FileId) -> Attributes {
    text_attributes([("type", "file"), ("team_id", team.as_str()), ("file_id", file.as_str())])
}

/// The stored versions in a file's row: source, size, key. Rows that earlier versions of this program wrote
/// have none.
pub(super) fn versions(item: &Item) -> impl Iterator<Item = (&str, u64, FileKey)> {
    item.attributes.iter().filter_map(|(name, key)| {
        let (source, size_bytes) = name.strip_prefix(VERSION)?.split_once('#')?;
        Some((source, size_bytes.parse().ok()?, FileKey::from_stored(key.as_str()?)?))
    })
}
