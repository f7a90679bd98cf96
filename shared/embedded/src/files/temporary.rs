//! Files that have no key yet: `files/.incoming/{process}/{number}`, on the same filesystem as the files themselves.
//!
//! Each process has a folder of its own, so that what a killed one has left is told from what a living one is writing.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::connection::create_private_folder;

/// Where the files of this process are until they are published.
pub(super) struct TemporaryFiles {
    all: PathBuf,
    own: PathBuf,
    made: AtomicU64,
}

impl TemporaryFiles {
    pub(super) fn new(all: PathBuf, process: i64) -> Self {
        let own = all.join(process.to_string());
        Self { all, own, made: AtomicU64::new(0) }
    }

    /// A new empty file.
    pub(super) fn create(&self) -> io::Result<TemporaryFile> {
        create_private_folder(&self.own)?;
        let path = self.own.join(self.made.fetch_add(1, Ordering::Relaxed).to_string());
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path)?;
        Ok(TemporaryFile { file, path })
    }

    /// Removes the folders of processes that are gone.
    pub(super) fn remove_leftovers(&self, is_alive: impl Fn(i64) -> bool) -> io::Result<()> {
        let entries = match std::fs::read_dir(&self.all) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let process = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if process.is_none_or(&is_alive) {
                continue;
            }
            match std::fs::remove_dir_all(entry.path()) {
                Ok(()) => {}
                // Another process is tidying up as well.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for TemporaryFiles {
    fn drop(&mut self) {
        // It is empty or missing; if neither, the next process that opens the folder removes it.
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

    /// Waits until its content is on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // What stays is removed once this process is gone.
        drop(std::fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_dead_left_is_removed_and_what_the_living_write_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let of = |process| TemporaryFiles::new(folder.path().join(".incoming"), process);
        let (living, dead) = (of(1), of(2));
        assert!(living.remove_leftovers(|_| true).is_ok(), "there is nothing yet");
        let writing = living.create().unwrap();
        let left = dead.create().unwrap();
        let (kept, gone) = (writing.path().to_owned(), left.path().to_owned());
        // A killed process drops nothing.
        std::mem::forget((left, dead));

        of(3).remove_leftovers(|process| process != 2).unwrap();
        assert!(kept.exists() && !gone.exists());
        assert!(!gone.parent().unwrap().exists());
        drop(writing);
        drop(living);
        assert!(!kept.parent().unwrap().exists());
    }
}
