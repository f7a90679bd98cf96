//! The parts of a backup of a data folder, and their restore. The archive format of the backup is up to the
//! caller.
//!
//! * [`snapshot`]: copies the database as of one moment, while others write.
//! * [`inventory`]: lists the files. Files are written once, so every file that a snapshot's rows refer to
//!   exists after it, unless it is erased.
//! * [`manifest`]: the content of a backup, with sizes and hashes.
//! * [`staging`]: restores a data folder: it is complete under its final name, or does not exist.
//! * [`adopt`]: copies the rows of a database from a backup into the folder's own database.
//! * [`rows`]: reads every row as a line, for copies that write only what changed.

pub mod adopt;
pub mod inventory;
mod line;
pub mod manifest;
pub mod rows;
pub mod snapshot;
pub mod staging;

use std::io;
use std::path::{Path, PathBuf};

use super::OpenError;

pub use adopt::{Adopted, FilledDatabase, adopt};
pub use inventory::{Inventory, PublishedFile};
pub use manifest::{BackupEntry, Manifest};
pub use rows::{ReadLimits, ReadRow, ReadStopped, read_rows};
pub use snapshot::{CopiedRows, Snapshot, snapshot};
pub use staging::StagingFolder;

/// Why a backup or a restore failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The data folder cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system's reason.
    #[error("cannot use {path}: {source}")]
    Path {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The database could not be copied.
    #[error("cannot copy the database: {0}")]
    Copy(rusqlite::Error),
    /// The folder to restore into is in use.
    #[error("{0} is not empty: restore into a folder that is, or that does not exist yet")]
    NotEmpty(PathBuf),
    /// Another process restores into the folder.
    #[error("another restore into {0} is running: wait for it, or stop it")]
    Restoring(PathBuf),
    /// The database in the backup was not written by this program.
    #[error("the database in this backup cannot be used: {0}; take another backup")]
    Database(String),
}

impl BackupError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Path { path: path.to_owned(), source }
    }

    fn database(error: &rusqlite::Error) -> Self {
        Self::Database(error.to_string())
    }
}
