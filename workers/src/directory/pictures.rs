//! Avatars and pictures of emoji, as jobs for the file-downloader.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use ports::archive::{Item, Update};
use ports::queue::job::in_bulk;
use ports::queue::{Outgoing, Queue, QueueError};
use rules::file::image;
use slack::ids::TeamId;

use super::SyncError;

/// Sends the jobs. New pictures are sent each time; pictures that stored rows lack, once per process, so that
/// a picture that cannot be fetched is not requested every hour.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    caught_up: Mutex<HashSet<TeamId>>,
}

impl Pictures {
    /// Sends the jobs for the pictures of these updates, and for those that rows lack.
    pub(super) async fn send<'a>(
        &self,
        queue: &dyn Queue,
        team: &TeamId,
        updates: impl Iterator<Item = &'a Update>,
        rows: impl IntoIterator<Item = &'a Item>,
    ) -> Result<(), SyncError> {
        let mut jobs: Vec<Outgoing> = updates.filter_map(image::job).collect();
        if !self.caught_up().contains(team) {
            jobs.extend(rows.into_iter().filter_map(image::job_for_missing));
        }
        if jobs.is_empty() {
            return Ok(());
        }
        let jobs = jobs.into_iter().map(in_bulk).collect();
        queue.send(jobs).await.into_iter().collect::<Result<Vec<_>, QueueError>>()?;
        Ok(())
    }

    /// Remembers that every row of a workspace has been checked.
    pub(super) fn mark_caught_up(&self, team: &TeamId) {
        self.caught_up().insert(team.clone());
    }

    fn caught_up(&self) -> std::sync::MutexGuard<'_, HashSet<TeamId>> {
        self.caught_up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
