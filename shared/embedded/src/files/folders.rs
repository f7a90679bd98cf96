//! Durable folders: a folder's name survives a power failure once its parent folder has been synced.
//!
//! A sync takes milliseconds even if there is nothing to write, so synced folders are remembered.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use disk::{create_folder_within, missing_is_none, sync_folder};
use ports::recent::Recent;
use tokio::time::Instant;

/// Maximum number of remembered folders. Beyond it all are forgotten and synced again.
const MAX_REMEMBERED: usize = 4096;

/// The folders below the data folder.
pub(super) struct Folders {
    data: PathBuf,
    durable: Recent<PathBuf>,
}

impl Folders {
    pub(super) fn new(data: PathBuf) -> Self {
        Self { data, durable: Recent::new(Duration::MAX, MAX_REMEMBERED) }
    }

    /// Creates a folder below the data folder, with its parents, unless they exist.
    pub(super) fn create(&self, folder: &Path) -> io::Result<()> {
        let Some(parent) = folder.parent().filter(|_| folder != self.data) else { return Ok(()) };
        if self.durable.has(&folder.to_owned()) && folder.is_dir() {
            return Ok(());
        }
        self.create(parent)?;
        create_folder_within(folder)?;
        // Even if it exists: the process that created it may not have synced it yet.
        sync_folder(parent)?;
        self.durable.keep(folder.to_owned(), Instant::now(), ());
        Ok(())
    }

    /// Gives a file another name unless the name exists. Returns whether it did. Either way, the file with
    /// that name is durable afterwards.
    pub(super) fn link(&self, file: &Path, name: &Path) -> io::Result<bool> {
        let folder = name.parent().unwrap_or(&self.data);
        self.create(folder)?;
        let is_new = match std::fs::hard_link(file, name) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        sync_folder(folder)?;
        Ok(is_new)
    }

    /// Removes a file durably. Returns whether it existed.
    pub(super) fn unlink(&self, name: &Path) -> io::Result<bool> {
        let folder = name.parent().unwrap_or(&self.data);
        let existed = missing_is_none(std::fs::remove_file(name))?.is_some();
        // Even if it is gone: the process that removed it may not have synced its folder.
        if folder.is_dir() {
            sync_folder(folder)?;
        }
        Ok(existed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_folders_are_created_again() {
        let data = tempfile::tempdir().unwrap();
        let folders = Folders::new(data.path().to_owned());
        let file = data.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let name = data.path().join("a/b/c/name");
        assert!(folders.link(&file, &name).unwrap());
        assert!(!folders.link(&file, &name).unwrap());
        std::fs::remove_dir_all(data.path().join("a/b")).unwrap();
        assert!(folders.link(&file, &name).unwrap());
        assert!(name.is_file());
    }
}
