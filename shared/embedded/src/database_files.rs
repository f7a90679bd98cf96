//! Detects that the database was removed or replaced while this process uses it.
//!
//! SQLite keeps writing to the open files, which no longer have a name. What it commits there is lost with
//! the process, so an answer that promises durability must not be based on it.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

/// The identity of a file, independent of its name: device and inode.
type FileNumbers = (u64, u64);

/// The database and its log, as this process opened them.
pub(super) struct DatabaseFiles {
    opened: Vec<(PathBuf, FileNumbers)>,
}

impl DatabaseFiles {
    /// Records the files of an open database that is in use, so that its log exists.
    ///
    /// # Errors
    /// The system's, if a file is missing already.
    pub(super) fn opened(database: &Path) -> std::io::Result<Self> {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let numbered = |path: PathBuf| fs::metadata(&path).map(|metadata| (path, numbers(&metadata)));
        Ok(Self { opened: vec![numbered(database.to_owned())?, numbered(log.into())?] })
    }

    /// Whether the open files still have their names.
    pub(super) fn are_in_place(&self) -> bool {
        let has_name = |path: &Path, opened| fs::metadata(path).is_ok_and(|found| numbers(&found) == opened);
        self.opened.iter().all(|(path, opened)| has_name(path, *opened))
    }
}

#[cfg(unix)]
fn numbers(metadata: &Metadata) -> FileNumbers {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn numbers(_: &Metadata) -> FileNumbers {
    // These systems do not allow a program to remove an open file.
    (0, 0)
}
