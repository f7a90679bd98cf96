//! Takes turns with other processes at SQLite's write lock.
//!
//! SQLite's lock has no queue: a process that commits one transaction after another would hold it nearly all the time. So a
//! process that finds it taken says that it waits, by a shared lock on a file of its own kind, and one that has committed looks
//! whether another waits before it goes on. Alone, a process never rests. A lock on a file ends with the process that holds
//! it, however it ends.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// The file's name, in the folder of the processes.
const FILE: &str = "turns";

/// This process's handles of the file.
pub(super) struct LockTurns {
    waits: File,
    looks: File,
}

/// Says, for as long as it lives, that this process waits for the write lock.
pub(super) struct WaitingTurn<'a>(&'a File);

impl LockTurns {
    /// Opens the file in the folder of the processes, making it if it is missing.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let file = folder.join(FILE);
        let open = || File::options().read(true).append(true).create(true).open(&file);
        Ok(Self { waits: open()?, looks: open()? })
    }

    /// Says that this process waits; `None` in the moment in which another process looks.
    pub(super) fn wait(&self) -> Option<WaitingTurn<'_>> {
        self.waits.try_lock_shared().is_ok().then(|| WaitingTurn(&self.waits))
    }

    /// Whether another process waits. Two that look in the same moment may see each other instead: then both leave the lock
    /// free once more than they need to.
    pub(super) fn is_waited_for(&self) -> bool {
        match self.looks.try_lock() {
            // A lock that is not given back here would be seen as waiting, and ends with the process.
            Ok(()) => drop(self.looks.unlock()),
            Err(TryLockError::WouldBlock) => return true,
            // Whether one waits is not known.
            Err(TryLockError::Error(_)) => return true,
        }
        false
    }
}

impl Drop for WaitingTurn<'_> {
    fn drop(&mut self) {
        // As above.
        drop(self.0.unlock());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_waited_for_while_another_one_waits() {
        let folder = tempfile::tempdir().unwrap();
        let [busy, first, second] = [(); 3].map(|()| LockTurns::open(folder.path()).unwrap());
        assert!(!busy.is_waited_for());
        let one = first.wait().unwrap();
        let other = second.wait().unwrap();
        assert!(busy.is_waited_for());
        drop(one);
        assert!(busy.is_waited_for());
        drop(other);
        assert!(!busy.is_waited_for());
    }

    #[test]
    fn a_process_that_ends_waits_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let busy = LockTurns::open(folder.path()).unwrap();
        let gone = LockTurns::open(folder.path()).unwrap();
        std::mem::forget(gone.wait().unwrap());
        assert!(busy.is_waited_for());
        drop(gone);
        assert!(!busy.is_waited_for());
    }
}
