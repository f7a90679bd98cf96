//! The manifest of a backup.

use serde::{Deserialize, Serialize};

/// The backup format that this version writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// The newest schema that this version reads.
pub const SCHEMA: usize = crate::connection::SCHEMA;

/// The content of a backup. The files are listed in the order in which they are packed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format of the backup.
    pub format: u32,
    /// The database's schema version.
    pub schema: usize,
    /// The version of Annalist that created it.
    pub annalist: String,
    /// When it was created, in RFC 3339.
    pub created: String,
    /// The original location of the files, for people: the rows do not contain it.
    pub files_uri: String,
    /// Whether it contains the files' bytes.
    pub has_files: bool,
    pub database: BackupEntry,
    pub files: Vec<BackupEntry>,
}

/// A file in a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupEntry {
    /// Its key below `files/`, or the name of the database.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hex. Missing for files that are only listed, because they were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Manifest {
    /// The total size of the files. Saturates: a list with impossible sizes is rejected because of its sizes.
    pub fn files_bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}
