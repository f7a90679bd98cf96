//! Shares SQLite's write lock fairly between processes.
//!
//! SQLite's lock has no queue: a process that commits one transaction after another would hold it nearly all
//! the time. So a process that finds the lock taken announces that it waits, with a shared lock on a separate
//! file, and a process that has committed checks for waiting processes before it continues. A process without
//! competitors never pauses. The OS releases a file lock when its process ends, even after a crash.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// The file's name, in the folder of the processes.
const FILE: &str = "turns";

/// This process's handles of the file.
pub(super) struct LockTurns {
    waiter: File,
    checker: File,
}

/// Announces, while it exists, that this process waits for the write lock.
pub(super) struct WaitingTurn<'a>(&'a File);

impl LockTurns {
    /// Opens the file in the folder of the processes and creates it if it is missing.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let file = folder.join(FILE);
        let mut options = File::options();
        options.read(true).append(true).create(true);
        let open = || disk::open_as_owner_of_folder(&options, &file);
        Ok(Self { waiter: open()?, checker: open()? })
    }

    /// Announces that this process waits; `None` if another process is checking at the same moment.
    pub(super) fn announce_wait(&self) -> Option<WaitingTurn<'_>> {
        self.waiter.try_lock_shared().is_ok().then(|| WaitingTurn(&self.waiter))
    }

    /// Whether another process waits. Two processes that check at the same moment may see each other instead;
    /// then both yield the lock once unnecessarily.
    pub(super) fn has_waiter(&self) -> bool {
        match self.checker.try_lock() {
            // If the unlock fails, others see a waiting process until this one ends.
            Ok(()) => drop(self.checker.unlock()),
            Err(TryLockError::WouldBlock) => return true,
            // Unknown: assume that one waits.
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

/// Whether this process was started with a low priority.
pub(super) fn is_nice() -> bool {
    #[cfg(unix)]
    return rustix::process::getpriority_process(None).is_ok_and(|nice| nice > 0);
    #[cfg(not(unix))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_process_is_detected_until_it_stops_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let [busy, first, second] = [(); 3].map(|()| LockTurns::open(folder.path()).unwrap());
        assert!(!busy.has_waiter());
        let one = first.announce_wait().unwrap();
        let other = second.announce_wait().unwrap();
        assert!(busy.has_waiter());
        drop(one);
        assert!(busy.has_waiter());
        drop(other);
        assert!(!busy.has_waiter());
    }

    #[test]
    fn a_process_that_has_ended_no_longer_waits() {
        let folder = tempfile::tempdir().unwrap();
        let busy = LockTurns::open(folder.path()).unwrap();
        let gone = LockTurns::open(folder.path()).unwrap();
        std::mem::forget(gone.announce_wait().unwrap());
        assert!(busy.has_waiter());
        drop(gone);
        assert!(!busy.has_waiter());
    }
}
