//! What a backup of a data folder is made of, and how it becomes a data folder again. What it is packed in is the
//! caller's.
//!
//! * [`snapshot`]: the database as it is at one moment, while others write.
//! * [`inventory`]: the files. They are written once, so whatever a snapshot's rows name is there after it.
//! * [`manifest`]: what is in a backup, with sizes and hashes.
//! * [`staging`]: a data folder in the making: complete under its name, or not there.
//! * [`adopt`]: the rows of a database from outside, in one of this folder's own.

pub mod adopt;
pub mod inventory;
pub mod manifest;
pub mod snapshot;
pub mod staging;

use std::io;
use std::path::{Path, PathBuf};

use super::OpenError;

pub use adopt::{Adopted, adopt};
pub use inventory::{HeldFile, Inventory};
pub use manifest::{BackupEntry, Manifest};
pub use snapshot::{Snapshot, snapshot};
pub use staging::StagingFolder;

/// Why there is no backup, or no data folder from one.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The data folder cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system's reason.
    #[error("cannot use {path}: {source}")]
    Path {
        /// Which file or folder.
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

/// Waits until a folder's entries are on the disk. Other systems than Unix have no way to, nor the need.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { std::fs::File::open(folder)?.sync_all() } else { Ok(()) }
}
