//! Files that have no key yet: `files/.incoming/{process}/{number}`, on the same filesystem as the files
//! themselves.
//!
//! Each process has its own folder, so that the leftovers of a killed process can be distinguished from the
//! files that a running one is writing.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use disk::{create_folder_within, create_private_file, missing_is_none};

/// The folder of this process's files until they are published.
pub(super) struct TemporaryFiles {
    all: PathBuf,
    own: PathBuf,
    created: AtomicU64,
}

impl TemporaryFiles {
    pub(super) fn new(all: PathBuf, process: i64) -> Self {
        let own = all.join(process.to_string());
        Self { all, own, created: AtomicU64::new(0) }
    }

    /// Creates an empty file.
    pub(super) fn create(&self) -> io::Result<TemporaryFile> {
        create_folder_within(&self.own)?;
        let path = self.own.join(self.created.fetch_add(1, Ordering::Relaxed).to_string());
        Ok(TemporaryFile { file: create_private_file(&path)?, path })
    }

    /// Removes the folders of processes that have ended.
    pub(super) fn remove_leftovers(&self, is_alive: impl Fn(i64) -> bool) -> io::Result<()> {
        let Some(entries) = missing_is_none(std::fs::read_dir(&self.all))? else { return Ok(()) };
        for entry in entries {
            let entry = entry?;
            let process = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if process.is_none_or(&is_alive) {
                continue;
            }
            // Another process may have removed it meanwhile.
            missing_is_none(std::fs::remove_dir_all(entry.path()))?;
        }
        Ok(())
    }
}

impl Drop for TemporaryFiles {
    fn drop(&mut self) {
        // Usually it is empty or missing; otherwise the next process that opens the data folder removes it.
        drop(std::fs::remove_dir(&self.own));
    }
}

/// A file without a key. Dropping it removes it.
pub(super) struct TemporaryFile {
    file: File,
    path: PathBuf,
}

impl TemporaryFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Waits until the content is on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // If this fails, another process removes it after this one has ended.
        drop(std::fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_dead_processes_are_removed_and_files_of_running_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let files_of = |process| TemporaryFiles::new(folder.path().join(".incoming"), process);
        let (living, dead) = (files_of(1), files_of(2));
        assert!(living.remove_leftovers(|_| true).is_ok(), "there is nothing yet");
        let writing = living.create().unwrap();
        let left = dead.create().unwrap();
        let (kept, gone) = (writing.path().to_owned(), left.path().to_owned());
        // A killed process drops nothing.
        std::mem::forget((left, dead));

        files_of(3).remove_leftovers(|process| process != 2).unwrap();
        assert!(kept.exists() && !gone.exists());
        assert!(!gone.parent().unwrap().exists());
        drop(writing);
        drop(living);
        assert!(!kept.parent().unwrap().exists());
    }
}
