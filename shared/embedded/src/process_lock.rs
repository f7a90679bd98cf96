//! Detects which processes have the data folder open.
//!
//! Each process locks a file named by its id in `processes/`. The OS releases the lock when the process ends,
//! even after a crash. So a file that can be locked belongs to a process that has ended, and its leases need
//! not wait for their timeouts.
//!
//! The file contains the version of Annalist. Two versions on one folder could disagree about the meaning of
//! a row or a job, so a process of another version exits. Checks use a shared lock: two processes that check
//! the file of a dead one at the same moment must not mistake each other's lock for its owner's.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// The locked file that announces this process to the others that use the folder.
pub(super) struct ProcessLock {
    folder: PathBuf,
    id: i64,
    // Locked while the process uses the folder; missing if the disk has no room for it.
    _file: Option<File>,
}

/// The file, in the folder of the processes, that a process locks while it opens the database.
const OPENING: &str = "opening";

/// Maximum length of a version.
const MAX_VERSION_BYTES: u64 = 64;

/// Why a process may not use the folder.
#[derive(Debug, thiserror::Error)]
pub(super) enum JoinError {
    /// The system's reason.
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("a process of annalist {0} uses the folder")]
    OtherVersion(String),
}

/// The other processes of a folder.
pub(super) struct Others {
    /// Whether another process uses the folder.
    pub(super) alive: bool,
    /// The ids of processes that have ended.
    pub(super) dead: Vec<i64>,
}

impl ProcessLock {
    /// Announces this process, which has this version of Annalist.
    pub(super) fn join(folder: &Path, version: &str) -> Result<Self, JoinError> {
        disk::create_folder_within(folder)?;
        let id = fastrand::i64(1..i64::MAX);
        // Locked and filled before it gets its name: no other process can see it unlocked and treat its owner
        // as dead.
        let unnamed = folder.join(format!(".{id}"));
        let announce = || {
            let mut file = disk::create_private_file(&unnamed)?;
            file.lock()?;
            file.write_all(version.as_bytes())?;
            std::fs::rename(&unnamed, folder.join(id.to_string()))?;
            Ok(file)
        };
        let file = announce().inspect_err(|_: &io::Error| drop(std::fs::remove_file(&unnamed)))?;
        let joined = Self { folder: folder.to_owned(), id, _file: Some(file) };
        // First announce, then check: of two processes that start at the same moment, at least one sees the
        // other.
        match joined.another_version(version)? {
            Some(theirs) => Err(JoinError::OtherVersion(theirs)),
            None => Ok(joined),
        }
    }

    /// As [`ProcessLock::join`], for a process that reads: on a full disk it does not announce itself. Others
    /// then take it for dead, which matters only for leases, of which it has none.
    pub(super) fn join_to_read(folder: &Path, version: &str) -> Result<Self, JoinError> {
        match Self::join(folder, version) {
            Err(JoinError::Io(error)) if is_full(&error) => {
                let joined = Self { folder: folder.to_owned(), id: fastrand::i64(1..i64::MAX), _file: None };
                match joined.another_version(version)? {
                    Some(theirs) => Err(JoinError::OtherVersion(theirs)),
                    None => Ok(joined),
                }
            }
            joined => joined,
        }
    }

    /// The version of a running process that has another version than `ours`.
    fn another_version(&self, ours: &str) -> io::Result<Option<String>> {
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Some(id) = process_id(&entry) else { continue };
            if id == self.id {
                continue;
            }
            // The process has ended meanwhile.
            let Ok(mut file) = File::open(entry.path()) else { continue };
            let mut theirs = String::new();
            // An unreadable version is not ours.
            let read = (&mut file).take(MAX_VERSION_BYTES).read_to_string(&mut theirs);
            if read.is_ok() && theirs == ours {
                continue;
            }
            match file.try_lock_shared() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Ok(Some(if theirs.is_empty() {
                        "of an unknown version".to_owned()
                    } else {
                        theirs
                    }));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The id of this process, which identifies its leases.
    pub(super) fn id(&self) -> i64 {
        self.id
    }

    /// Finds the other processes.
    pub(super) fn find_others(&self) -> io::Result<Others> {
        find_others(&self.folder, self.id)
    }

    /// Removes the file of a process that has ended, once the database no longer refers to it.
    pub(super) fn remove_stale(&self, dead: i64) {
        // Another process may have been faster.
        drop(std::fs::remove_file(self.folder.join(dead.to_string())));
    }
}

/// Whether a write failed because there is no room for it.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Finds the processes that use the folder, except the one with the id `own`.
pub(super) fn find_others(folder: &Path, own: i64) -> io::Result<Others> {
    let mut others = Others { alive: false, dead: Vec::new() };
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Some(id) = process_id(&entry) else { continue };
        if id == own {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else { continue };
        match file.try_lock_shared() {
            Ok(()) => others.dead.push(id),
            Err(TryLockError::WouldBlock) => others.alive = true,
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(others)
}

/// Locks the opening of the database until the file is dropped: two processes that check its schema at the
/// same time would both migrate it.
pub(super) fn lock_opening(folder: &Path) -> io::Result<File> {
    let opening = lock_file(&folder.join(OPENING))?;
    opening.lock()?;
    Ok(opening)
}

/// Locks a file in the folder of the processes until it is dropped; `None` if another process has locked it.
pub(super) fn try_lock(folder: &Path, name: &str) -> io::Result<Option<File>> {
    let file = lock_file(&folder.join(name))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn lock_file(path: &Path) -> io::Result<File> {
    disk::open_as_owner_of_folder(File::options().append(true).create(true), path)
}

/// The id of the process that an entry of the folder belongs to.
fn process_id(entry: &std::fs::DirEntry) -> Option<i64> {
    entry.file_name().to_str()?.parse().ok()
}

/// Whether a process uses the folder, this one included. A process of unknown state counts as alive.
pub(super) fn is_alive(folder: &Path, id: i64) -> bool {
    match File::open(folder.join(id.to_string())) {
        Ok(file) => file.try_lock_shared().is_err(),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        self.remove_stale(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_see_each_other_and_the_dead() {
        let folder = tempfile::tempdir().unwrap();
        let first = ProcessLock::join(folder.path(), "1.0.0").unwrap();
        assert!(!first.find_others().unwrap().alive);

        let second = ProcessLock::join(folder.path(), "1.0.0").unwrap();
        assert!(first.find_others().unwrap().alive);
        drop(second);
        assert!(!first.find_others().unwrap().alive);

        // A killed process leaves its file, but not the lock.
        std::fs::write(folder.path().join("77"), "").unwrap();
        assert_eq!(first.find_others().unwrap().dead, [77]);
        first.remove_stale(77);
        assert!(first.find_others().unwrap().dead.is_empty());
    }

    #[test]
    fn a_process_is_alive_until_its_lock_ends() {
        let folder = tempfile::tempdir().unwrap();
        let process = ProcessLock::join(folder.path(), "1.0.0").unwrap();
        let id = process.id();
        assert!(is_alive(folder.path(), id));
        drop(process);
        assert!(!is_alive(folder.path(), id));
        std::fs::write(folder.path().join("77"), "").unwrap();
        assert!(!is_alive(folder.path(), 77));
    }

    #[test]
    fn another_version_is_refused_while_a_process_is_running() {
        let folder = tempfile::tempdir().unwrap();
        let old = ProcessLock::join(folder.path(), "1.0.0").unwrap();
        let same = ProcessLock::join(folder.path(), "1.0.0").unwrap();
        let refused = ProcessLock::join(folder.path(), "1.0.1").err().unwrap();
        assert!(matches!(&refused, JoinError::OtherVersion(theirs) if theirs == "1.0.0"), "{refused}");
        // A refused process leaves no file that blocks others.
        drop(ProcessLock::join(folder.path(), "1.0.0").unwrap());
        drop((old, same));
        // A killed process leaves its file, but not the lock.
        std::fs::write(folder.path().join("77"), "1.0.0").unwrap();
        assert!(ProcessLock::join(folder.path(), "1.0.1").is_ok());
    }

    #[test]
    fn a_process_that_checks_a_dead_one_is_not_mistaken_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let dead = folder.path().join("77");
        std::fs::write(&dead, "0.9.0").unwrap();
        let checker = File::open(&dead).unwrap();
        checker.try_lock_shared().unwrap();
        let us = ProcessLock::join(folder.path(), "1.0.0").unwrap();
        assert_eq!(us.find_others().unwrap().dead, [77]);
        assert!(!is_alive(folder.path(), 77));
    }
}
