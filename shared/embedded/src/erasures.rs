//! The writer thread's cache of erasure facts: read once, and again when they may have changed.

use std::sync::{Arc, Mutex, PoisonError};

use ports::archive::{ErasureFacts, ItemKey, rows};

use super::rows::item;
use super::writer::Transaction;

/// The erasure facts of the archive.
#[derive(Default)]
pub(super) struct Erasures {
    known: Mutex<Option<KnownErasures>>,
}

/// The facts, and the counters that would have grown if another process had written facts or ours had been
/// rolled back.
struct KnownErasures {
    rollbacks: u64,
    foreign_commits: u64,
    facts: Arc<ErasureFacts>,
}

impl Erasures {
    /// The facts that apply to the writes of this transaction.
    pub(super) fn current_facts(&self, transaction: &Transaction<'_>) -> rusqlite::Result<Arc<ErasureFacts>> {
        let Transaction { rollbacks, foreign_commits, connection, .. } = *transaction;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known
            && (known.rollbacks, known.foreign_commits) == (rollbacks, foreign_commits)
        {
            return Ok(Arc::clone(&known.facts));
        }
        let mut statement = connection.prepare_cached(
            "SELECT item_id, timestamp, attributes FROM items WHERE item_id >= 'erased#' AND item_id < 'erased$'",
        )?;
        let rows = statement.query_map([], item)?;
        let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        let facts = Arc::new(ErasureFacts::from_rows(&rows));
        *known = Some(KnownErasures { rollbacks, foreign_commits, facts: Arc::clone(&facts) });
        Ok(facts)
    }

    /// Must be called after each write of a row: if it was a fact, the facts are read again.
    pub(super) fn note_write(&self, key: &ItemKey) {
        if key.item_id.starts_with(rows::ERASURE.prefix()) {
            *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}
