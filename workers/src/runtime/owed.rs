//! Marks that could not be taken back yet: their handlers returned, and the archive was out of reach.
//!
//! Left alone they would count as crashes, and an archive that is away for a while would make poison of what it kept
//! from being done.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ports::archive::{Archive, ArchiveError};

use super::attempts::{self, Mark};

/// Most marks that are remembered: some megabytes. What is beyond it looks worse than it is.
const MOST: usize = 10_000;

/// What one worker owes.
#[derive(Default)]
pub(super) struct Owed(Mutex<BTreeSet<Mark>>);

impl Owed {
    /// Takes a mark back, or remembers it.
    pub(super) async fn clear(&self, archive: &dyn Archive, mark: Mark) -> Result<(), ArchiveError> {
        let cleared = attempts::clear(archive, &mark).await;
        let mut owed = self.lock();
        if cleared.is_ok() {
            owed.remove(&mark);
        } else if owed.len() < MOST {
            owed.insert(mark);
        }
        cleared
    }

    /// Takes back what is owed, up to the first that fails: the archive is still out of reach then.
    pub(super) async fn repay(&self, archive: &dyn Archive) -> Result<(), ArchiveError> {
        let owed: Vec<Mark> = self.lock().iter().cloned().collect();
        for mark in owed {
            self.clear(archive, mark).await?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Mark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
