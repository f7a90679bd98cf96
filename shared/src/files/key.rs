//! Where each kind of file lives. Keys are made of checked ids and hashes only, so that no name from outside becomes
//! part of a path.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::slack::ids::{ChannelId, FileId, TeamId, Ts};
use crate::slack::signature::to_hex;

/// The key of a file: a relative path with `/` between its parts (seed 000).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey(String);

impl FileKey {
    /// A file shared in a message: `slack/{team}/{channel}/{ts}/{file}`.
    #[must_use]
    pub fn shared(team: &TeamId, channel: &ChannelId, ts: &Ts, file: &FileId) -> Self {
        Self(format!("slack/{team}/{channel}/{ts}/{file}"))
    }

    /// An avatar or an emoji, by the URL it came from: `slack/{team}/images/{hash of the URL}`.
    #[must_use]
    pub fn image(team: &TeamId, url: &str) -> Self {
        Self(format!("slack/{team}/images/{}", image_hash(url)))
    }

    /// The key as it is spelt.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What identifies an image: two URLs never share one, and a new picture has a new URL.
#[must_use]
pub fn image_hash(url: &str) -> String {
    to_hex(&Sha256::digest(url.as_bytes())[..16])
}

impl fmt::Display for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
