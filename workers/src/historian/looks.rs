//! When each workspace was last looked at for what is unread.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use slack::ids::TeamId;
use tokio::time::Instant;

/// The poll interval for gaps. A gap is filled within minutes of its end.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(300);

/// When this process last looked for what is unread, and what it knew then.
#[derive(Debug, Default)]
pub(super) struct Looks(Mutex<BTreeMap<TeamId, Look>>);

#[derive(Debug, Clone)]
struct Look {
    at: Instant,
    /// The numbers of channels and of runs of ingest.
    known: (usize, usize),
}

impl Looks {
    /// Whether to look at a workspace: it changed, or the last look is long ago.
    pub(super) fn is_due(&self, team: &TeamId, known: Option<(usize, usize)>) -> bool {
        let looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looks.get(team).is_none_or(|last| {
            last.at.elapsed() >= POLL_INTERVAL || known.is_some_and(|known| known != last.known)
        })
    }

    pub(super) fn note(&self, team: &TeamId, known: (usize, usize)) {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looks.insert(team.clone(), Look { at: Instant::now(), known });
    }
}
