//! What this process knew of each workspace when it last sent a turn of reading.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use slack::ids::TeamId;

/// The numbers of channels and of runs of ingest.
pub(super) type KnownCounts = (usize, usize);

#[derive(Debug, Default)]
pub(super) struct Looks(Mutex<BTreeMap<TeamId, KnownCounts>>);

impl Looks {
    /// Whether a workspace has changed since the last look.
    pub(super) fn is_changed(&self, team: &TeamId, known: KnownCounts) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(team) != Some(&known)
    }

    pub(super) fn note(&self, team: &TeamId, known: KnownCounts) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(team.clone(), known);
    }
}
