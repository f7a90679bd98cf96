//! Where each kind of file lives. Keys are made of checked ids and hashes only, so that no name from outside becomes
//! part of a path.

use std::fmt;

use sha2::{Digest, Sha256};

use slack::hex::to_hex;
use slack::ids::{ChannelId, FileId, TeamId, Ts};

/// What every key begins with.
const ROOT: &str = "slack/";

/// A key is no longer than this: ids and a timestamp, all of them bounded.
const MAX_KEY_BYTES: usize = 200;

/// Folders and a name in a key, at most.
const MAX_KEY_PARTS: usize = 8;

/// The key of a file: a relative path with `/` between its parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey(String);

impl FileKey {
    /// Reads a text that should be a key: `slack/…`, of the letters that keys are made of. No key leads out of the folder it
    /// is below. `None` if the text is not a key.
    pub fn parse(text: &str) -> Option<Self> {
        let part_is_plain = |part: &str| {
            !part.is_empty()
                && part != "."
                && part != ".."
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
        };
        let is_key = text.len() <= MAX_KEY_BYTES
            && text.strip_prefix(ROOT).is_some_and(|rest| rest.split('/').all(part_is_plain))
            && text.split('/').count() <= MAX_KEY_PARTS;
        is_key.then(|| Self(text.to_owned()))
    }

    /// Reads what a row holds: a key, or the address that rows of earlier versions hold (`file://…`, `s3://…`), which ends
    /// in one.
    pub fn stored(text: &str) -> Option<Self> {
        // No part of a key is called as its first one: ids have no small letters.
        let begins = text.rfind("/slack/").map_or(0, |slash| slash + 1);
        Self::parse(&text[begins..])
    }

    /// A file shared in a message: `slack/{team}/{channel}/{ts}/{file}`.
    pub fn shared(team: &TeamId, channel: &ChannelId, ts: &Ts, file: &FileId) -> Self {
        Self(format!("slack/{team}/{channel}/{ts}/{file}"))
    }

    /// Another version of what is under this key: `{key}.{its name}`.
    pub fn version(&self, name: &str) -> Option<Self> {
        Self::parse(&format!("{self}.{name}"))
    }

    /// An avatar or an emoji, by the URL it came from: `slack/{team}/images/{hash of the URL}`.
    pub fn image(team: &TeamId, url: &str) -> Self {
        Self(format!("slack/{team}/images/{}", image_hash(url)))
    }

    /// The key as it is spelt.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What identifies an image: two URLs never share one, and a new picture has a new URL.
pub fn image_hash(url: &str) -> String {
    to_hex(&Sha256::digest(url.as_bytes())[..16])
}

impl fmt::Display for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_however_long_its_ids_are_and_whatever_address_it_had() {
        let longest = "Z".repeat(30);
        let team = TeamId::parse(&longest).unwrap();
        let channel = ChannelId::parse(&longest).unwrap();
        let ts = Ts::parse("123456789012.123456").unwrap();
        let shared = FileKey::shared(&team, &channel, &ts, &FileId::parse(&longest).unwrap());
        for key in [shared, FileKey::image(&team, "https://example.com/a.png")] {
            assert_eq!(FileKey::parse(key.as_str()), Some(key.clone()));
            for place in
                ["", "file:///data/files/", "file:///slack/my%20slack/files/", "s3://bucket/", "memory://"]
            {
                assert_eq!(FileKey::stored(&format!("{place}{key}")).as_ref(), Some(&key), "{place}");
            }
        }
    }

    #[test]
    fn no_other_text_is_a_key() {
        for text in [
            "",
            "slack",
            "slack/",
            "/slack/T1",
            "slack//T1",
            "slack/../../etc/passwd",
            "slack/./T1",
            "slack/T1/..",
            "../slack/T1",
            "slack\\T1",
            "slack/T1\0",
            "slack/T 1",
            "slack/T1/",
            ".incoming/7/0",
            "annalist.db",
            "slack/a/b/c/d/e/f/g/h",
            &format!("slack/{}", "a".repeat(300)),
        ] {
            assert_eq!(FileKey::parse(text), None, "{text}");
        }
        for text in ["file:///etc/passwd", "file:///data/slack/../../etc", "file:///data/slack/"] {
            assert_eq!(FileKey::stored(text), None, "{text}");
        }
    }
}
