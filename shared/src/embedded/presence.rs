//! Which processes have the data folder open.
//!
//! Each process holds a locked file named by its id in `processes/`. The lock ends with the process, however it ends,
//! so a file that can be locked belongs to a process that is gone: its leases need not wait for their timeouts.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// This process's place among those that use the folder.
pub(super) struct Presence {
    folder: PathBuf,
    id: i64,
    // Held locked for as long as the process uses the folder.
    _file: File,
}

/// What a look around found.
pub(super) struct Others {
    /// Whether another process uses the folder.
    pub(super) alive: bool,
    /// Processes that are gone.
    pub(super) dead: Vec<i64>,
}

impl Presence {
    /// Announces this process.
    pub(super) fn join(folder: &Path) -> io::Result<Self> {
        super::connection::create_private_folder(folder)?;
        let id = fastrand::i64(1..i64::MAX);
        // Locked before it gets its name: nobody can see it unlocked and take its owner for dead.
        let unnamed = folder.join(format!(".{id}"));
        let file = File::create(&unnamed)?;
        file.lock()?;
        std::fs::rename(&unnamed, folder.join(id.to_string()))?;
        Ok(Self { folder: folder.to_owned(), id, _file: file })
    }

    /// Identifies this process in what it leases.
    pub(super) fn id(&self) -> i64 {
        self.id
    }

    /// Looks for the other processes.
    pub(super) fn look_around(&self) -> io::Result<Others> {
        let mut others = Others { alive: false, dead: Vec::new() };
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if id == self.id {
                continue;
            }
            let Ok(file) = File::open(entry.path()) else { continue };
            match file.try_lock() {
                Ok(()) => others.dead.push(id),
                Err(TryLockError::WouldBlock) => others.alive = true,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(others)
    }

    /// Forgets a process that is gone, once nothing in the database names it any more.
    pub(super) fn bury(&self, dead: i64) {
        // Another process may have been faster.
        drop(std::fs::remove_file(self.folder.join(dead.to_string())));
    }
}

/// Whether a process uses the folder, this one included. What cannot be told is taken for alive.
pub(super) fn is_alive(folder: &Path, id: i64) -> bool {
    match File::open(folder.join(id.to_string())) {
        Ok(file) => file.try_lock().is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.bury(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_see_each_other_and_the_dead() {
        let folder = tempfile::tempdir().unwrap();
        let first = Presence::join(folder.path()).unwrap();
        assert!(!first.look_around().unwrap().alive);

        let second = Presence::join(folder.path()).unwrap();
        assert!(first.look_around().unwrap().alive);
        drop(second);
        assert!(!first.look_around().unwrap().alive);

        // A killed process leaves its file, but not the lock.
        std::fs::write(folder.path().join("77"), "").unwrap();
        assert_eq!(first.look_around().unwrap().dead, [77]);
        first.bury(77);
        assert!(first.look_around().unwrap().dead.is_empty());
    }

    #[test]
    fn a_process_is_alive_until_its_lock_ends() {
        let folder = tempfile::tempdir().unwrap();
        let process = Presence::join(folder.path()).unwrap();
        let id = process.id();
        assert!(is_alive(folder.path(), id));
        drop(process);
        assert!(!is_alive(folder.path(), id));
        std::fs::write(folder.path().join("77"), "").unwrap();
        assert!(!is_alive(folder.path(), 77));
    }
}
