//! The names that queries are read with, kept for a moment: reading those of thousands of people takes longer than most
//! searches.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ports::archive::{Archive, ArchiveError};
use reader::search::resolve::KnownNames;
use slack::ids::TeamId;
use tokio::time::Instant;

/// A new name of a person or a channel counts after this time. What a hit shows is read with the names of now.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// The names that were read last.
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
    /// The names in these workspaces, read within the last minute.
    pub(crate) async fn recent(
        &self,
        archive: &dyn Archive,
        teams: &[TeamId],
    ) -> Result<Arc<KnownNames>, ArchiveError> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match read {
            Some(read) if read.teams == teams && read.at.elapsed() < KEPT_FOR => Ok(read.names),
            Some(_) | None => self.reread(archive, teams).await,
        }
    }

    /// The names as they are now.
    pub(crate) async fn reread(
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
