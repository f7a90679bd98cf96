//! Marks: rows that only say that something was seen. They are never unset, so their presence may be remembered; their
//! absence is asked for every time.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use shared::archive::{Archive, ArchiveError, ItemKey, Update};

/// Marks remembered. Beyond it everything is forgotten and asked for again.
const MAX_REMEMBERED: usize = 100_000;

/// The marks a process has seen set.
#[derive(Default)]
pub(crate) struct Marks(Mutex<HashSet<ItemKey>>);

impl Marks {
    /// Sets a mark, unless it is known to be set.
    pub(crate) async fn ensure(&self, archive: &dyn Archive, key: ItemKey) -> Result<(), ArchiveError> {
        if self.remembers(&key) {
            return Ok(());
        }
        archive.write(&Update::mark(key.clone())).await?;
        self.remember(key);
        Ok(())
    }

    /// Whether a mark is set.
    pub(crate) async fn is_set(&self, archive: &dyn Archive, key: &ItemKey) -> Result<bool, ArchiveError> {
        if self.remembers(key) {
            return Ok(true);
        }
        let set = archive.get(key).await?.is_some_and(|item| !item.is_erased());
        if set {
            self.remember(key.clone());
        }
        Ok(set)
    }

    fn remembers(&self, key: &ItemKey) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    fn remember(&self, key: ItemKey) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(key);
    }
}
