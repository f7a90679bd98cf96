//! What is in a backup.

use serde::{Deserialize, Serialize};

/// The form of backups that this version makes, and the newest it reads.
pub const FORMAT: u32 = 1;

/// The newest schema that this version reads.
pub const SCHEMA: usize = crate::embedded::connection::SCHEMA;

/// A key is no longer than this: ids and a timestamp, all of them bounded.
const MAX_KEY_BYTES: usize = 200;

/// Folders and a name in a key, at most.
const MAX_KEY_PARTS: usize = 8;

/// What is in a backup. The files are listed in the order in which they are packed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The form of the backup.
    pub format: u32,
    /// The database's schema.
    pub schema: usize,
    /// The version of Annalist that made it.
    pub annalist: String,
    /// When it was made, in RFC 3339.
    pub created: String,
    /// Where the files were: rows name them by this URI.
    pub files_uri: String,
    /// Whether the files' bytes are in it.
    pub has_files: bool,
    /// The database.
    pub database: Entry,
    /// The files.
    pub files: Vec<Entry>,
}

/// A file in a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its key below `files/`; of the database, its name.
    pub path: String,
    /// How long it is.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hex. Files that are only listed were not read, and have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Manifest {
    /// How long the files are together. Saturates: whoever lists more than there can be is refused for their sizes.
    #[must_use]
    pub fn files_bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}

/// Whether a path from outside could be a file's key: `slack/…`, of the letters that keys are made of. No such path
/// leads out of the folder it is below.
#[must_use]
pub fn is_file_key(path: &str) -> bool {
    let part_is_plain = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
    };
    path.len() <= MAX_KEY_BYTES
        && path.strip_prefix("slack/").is_some_and(|rest| rest.split('/').all(part_is_plain))
        && path.split('/').count() <= MAX_KEY_PARTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::FileKey;
    use crate::slack::ids::{ChannelId, FileId, TeamId, Ts};

    #[test]
    fn every_key_is_one_however_long_its_ids_are() {
        let longest = "Z".repeat(30);
        let team = TeamId::parse(&longest).unwrap();
        let channel = ChannelId::parse(&longest).unwrap();
        let ts = Ts::parse("123456789012.123456").unwrap();
        let shared = FileKey::shared(&team, &channel, &ts, &FileId::parse(&longest).unwrap());
        for key in [shared, FileKey::image(&team, "https://example.com/a.png")] {
            assert!(is_file_key(key.as_str()), "{key}");
        }
    }

    #[test]
    fn no_other_path_is_a_key() {
        for path in [
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
            assert!(!is_file_key(path), "{path}");
        }
    }
}
