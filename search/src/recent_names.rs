//! The names that the last query read. Reading the names of thousands of people takes longer than most searches.

use std::sync::{Arc, Mutex, PoisonError};

use reader::access::HiddenChannels;
use reader::search::known::KnownNames;
use slack::ids::TeamId;
use tokio::time::Instant;

/// The most recently read names.
#[derive(Debug, Default)]
pub(crate) struct RecentNames(Mutex<Option<ReadNames>>);

/// Names, and what they were read for.
#[derive(Debug, Clone)]
pub(crate) struct ReadNames {
    pub(crate) at: Instant,
    pub(crate) teams: Vec<TeamId>,
    /// The channels whose names are missing.
    pub(crate) hidden: Arc<HiddenChannels>,
    pub(crate) names: Arc<KnownNames>,
}

impl RecentNames {
    pub(crate) fn get(&self) -> Option<ReadNames> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, read: ReadNames) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
    }
}
