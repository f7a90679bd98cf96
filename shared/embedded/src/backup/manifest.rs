//! What is in a backup.

use serde::{Deserialize, Serialize};

/// The form of backups that this version makes, and the newest it reads.
pub const FORMAT: u32 = 1;

/// The newest schema that this version reads.
pub const SCHEMA: usize = crate::connection::SCHEMA;

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
    /// Where the files were, for people: rows do not say.
    pub files_uri: String,
    /// Whether the files' bytes are in it.
    pub has_files: bool,
    /// The database.
    pub database: BackupEntry,
    /// The files.
    pub files: Vec<BackupEntry>,
}

/// A file in a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupEntry {
    /// Its key below `files/`; of the database, its name.
    pub path: String,
    /// How long it is.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hex. Files that are only listed were not read, and have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Manifest {
    /// The total length of the files. Saturates: a list with impossible sizes is refused for its sizes.
    pub fn files_bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}
