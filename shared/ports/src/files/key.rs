//! The keys of files. A key contains validated ids and hashes only, so that no untrusted name becomes part of
//! a path.

use std::fmt;

use sha2::{Digest, Sha256};

use slack::hex::to_hex;
use slack::ids::{ChannelId, FileId, TeamId, Ts};

/// The prefix of every key.
pub const ROOT: &str = "slack/";

/// The maximum length of a key: ids and a timestamp, all of bounded length.
const MAX_KEY_BYTES: usize = 200;

/// The maximum number of folders and the name in a key.
const MAX_KEY_PARTS: usize = 8;

/// The key of a file: a relative path with `/` between its parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey(String);

impl FileKey {
    /// Parses a key: `slack/…`, with the characters that keys consist of. A key cannot escape its folder.
    /// `None` if the text is not a key.
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

    /// Parses the value that a row stores: a key, or in rows of earlier versions an address (`file://…`,
    /// `s3://…`) that ends with the key.
    pub fn from_stored(text: &str) -> Option<Self> {
        // No later part of a key equals the first one: ids have no lowercase letters.
        let begins = text.rfind("/slack/").map_or(0, |slash| slash + 1);
        Self::parse(&text[begins..])
    }

    /// A file shared in a message: `slack/{team}/{channel}/{ts}/{file}`.
    pub fn shared(team: &TeamId, channel: &ChannelId, ts: &Ts, file: &FileId) -> Self {
        Self(format!("slack/{team}/{channel}/{ts}/{file}"))
    }

    /// The key of a version of this file: `{key}.{name}`.
    pub fn version(&self, name: &str) -> Option<Self> {
        Self::parse(&format!("{self}.{name}"))
    }

    /// An avatar or an emoji, by its URL: `slack/{team}/images/{hash of the URL}`.
    pub fn image(team: &TeamId, url: &str) -> Self {
        Self(format!("slack/{team}/images/{}", image_hash(url)))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the key names; `None` for a key that this program does not create.
    pub fn parts(&self) -> Option<FileKeyParts> {
        let mut parts = self.0.strip_prefix(ROOT)?.split('/');
        let team = TeamId::parse(parts.next()?).ok()?;
        let found = match (parts.next()?, parts.next()?, parts.next()) {
            ("images", hash, None) => {
                let is_hash =
                    hash.len() == IMAGE_HASH_DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
                is_hash.then_some(FileKeyParts::Image { team })?
            }
            (channel, ts, Some(name)) => FileKeyParts::Shared {
                team,
                channel: ChannelId::parse(channel).ok()?,
                ts: Ts::parse(ts).ok()?,
                file: FileId::parse(name.split('.').next()?).ok()?,
            },
            (_, _, None) => return None,
        };
        parts.next().is_none().then_some(found)
    }
}

/// What a key names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileKeyParts {
    /// A version of a file that was stored for this message.
    Shared {
        team: TeamId,
        /// The channel of the message.
        channel: ChannelId,
        ts: Ts,
        file: FileId,
    },
    /// An avatar or an emoji.
    Image { team: TeamId },
}

impl FileKeyParts {
    pub fn team(&self) -> &TeamId {
        match self {
            Self::Shared { team, .. } | Self::Image { team } => team,
        }
    }
}

/// The length of an image's hash in hexadecimal digits: 16 bytes.
const IMAGE_HASH_DIGITS: usize = 32;

/// Identifies an image by its URL: two URLs never share a hash, and a new picture has a new URL.
pub fn image_hash(url: &str) -> String {
    to_hex(&Sha256::digest(url.as_bytes())[..IMAGE_HASH_DIGITS / 2])
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
    fn a_key_is_parsed_with_the_longest_ids_and_from_every_old_address() {
        let longest = "Z".repeat(30);
        let team = TeamId::parse(&longest).unwrap();
        let channel = ChannelId::parse(&longest).unwrap();
        let ts = Ts::parse("123456789012.123456").unwrap();
        let shared = FileKey::shared(&team, &channel, &ts, &FileId::parse(&longest).unwrap());
        for key in [shared, FileKey::image(&team, "https://example.com/a.png")] {
            assert_eq!(FileKey::parse(key.as_str()), Some(key.clone()));
            for address in
                ["", "file:///data/files/", "file:///slack/my%20slack/files/", "s3://bucket/", "memory://"]
            {
                assert_eq!(
                    FileKey::from_stored(&format!("{address}{key}")).as_ref(),
                    Some(&key),
                    "{address}"
                );
            }
        }
    }

    #[test]
    fn a_key_that_this_program_creates_has_parts_and_no_other_key_has() {
        let shared = FileKeyParts::Shared {
            team: TeamId::parse("T1").unwrap(),
            channel: ChannelId::parse("C1").unwrap(),
            ts: Ts::parse("1700000000.000100").unwrap(),
            file: FileId::parse("F1").unwrap(),
        };
        let image = FileKeyParts::Image { team: TeamId::parse("T1").unwrap() };
        let picture = FileKey::image(image.team(), "https://example.com/a.png");
        for (key, expected) in [
            ("slack/T1/C1/1700000000.000100/F1", Some(&shared)),
            ("slack/T1/C1/1700000000.000100/F1.001700000000.0011aabb", Some(&shared)),
            (picture.as_str(), Some(&image)),
            ("slack/notes.txt", None),
            ("slack/T1/images/a.png", None),
            ("slack/T1/C1/1700000000.000100", None),
            ("slack/T1/C1/1700000000.000100/f1", None),
            ("slack/T1/C1/1700000000.000100/F1/more", None),
            ("slack/T1/C1/yesterday/F1", None),
        ] {
            assert_eq!(FileKey::parse(key).unwrap().parts().as_ref(), expected, "{key}");
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
            assert_eq!(FileKey::from_stored(text), None, "{text}");
        }
    }
}
