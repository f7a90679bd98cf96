//! A short-lived cache of the names for queries. Reading the names of thousands of people takes longer than
//! most searches.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ports::archive::{Archive, ArchiveError};
use reader::search::resolve::KnownNames;
use slack::ids::TeamId;
use tokio::time::Instant;

/// Delay until queries use a new name of a person or a channel. Hits always show the current names.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The most recently read names.
#[derive(Debug, Default)]
pub(crate) struct RecentNames {
    read: Mutex<Option<ReadNames>>,
}

#[derive(Debug, Clone)]
struct ReadNames {
    at: Instant,
    teams: Vec<TeamId>,
    names: Arc<KnownNames>,
}

impl RecentNames {
    /// Returns the names in these workspaces, at most a minute old.
    pub(crate) async fn recent(
        &self,
        archive: &dyn Archive,
        teams: &[TeamId],
    ) -> Result<Arc<KnownNames>, ArchiveError> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match read {
            Some(read) if read.teams == teams && read.at.elapsed() < MAX_AGE => Ok(read.names),
            Some(_) | None => self.refresh(archive, teams).await,
        }
    }

    /// Reads the current names.
    pub(crate) async fn refresh(
        &self,
        archive: &dyn Archive,
        teams: &[TeamId],
    ) -> Result<Arc<KnownNames>, ArchiveError> {
        let at = Instant::now();
        let names = Arc::new(KnownNames::read(archive, teams).await?);
        let read = ReadNames { at, teams: teams.to_vec(), names: Arc::clone(&names) };
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
        Ok(names)
    }
}
