//! The worker: sends a job for each workspace that is due, and syncs workspaces as jobs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{ArchiveExt, ItemKey, WriteOutcome};
use ports::queue::{Outgoing, QueueName};
use reader::workspaces;
use rules::schedule::{SyncJob, WorkKind, WorkspaceRow};
use slack::ids::TeamId;

use super::{DirectorySync, Joiner};
use crate::failure::PortError;
use crate::runtime::{Batch, DecodedPayload, JobOutcome, Ports, Worker};

/// How soon a workspace that is due, or has a new token, is noticed. A tick reads one partition.
const TICK: Duration = Duration::from_secs(60);

/// Workspaces that a process syncs at once: each mostly waits for Slack, so that one that hangs delays no other.
pub const AT_ONCE: usize = 8;

/// Syncs the directories of workspaces.
pub struct DirectoryWorker {
    ports: Ports,
    sync: DirectorySync,
    joiner: Option<Joiner>,
    /// The last error for which no workspace is known, so that it is logged once.
    last_error: Mutex<Option<String>>,
}

impl DirectoryWorker {
    /// A worker that uses this sync. A `joiner` is asked to join the public channels that the app is not in.
    pub fn new(ports: Ports, sync: DirectorySync, joiner: Option<Joiner>) -> Self {
        Self { ports, sync, joiner, last_error: Mutex::default() }
    }

    /// Sends a job for each workspace that is due.
    async fn send_due(&self) -> Result<(), PortError> {
        let tokens = self.known_tokens().await;
        if tokens.is_empty() {
            return Ok(());
        }
        let rows = workspaces::read(&*self.ports.archive).await?;
        let rows: BTreeMap<&TeamId, &WorkspaceRow> = rows.iter().map(|row| (&row.team, row)).collect();
        let now = self.ports.clock.now();
        let mut jobs: Vec<Outgoing> = Vec::new();
        for (team, token) in tokens {
            let Some(row) = rows.get(&team) else {
                // Only Slack says that the workspace exists: it gets its row when it is synced.
                jobs.push(SyncJob { team, due_ms: 0 }.outgoing());
                continue;
            };
            if !row.is_to_be_sent(WorkKind::Sync, now, &token) {
                continue;
            }
            let sent = self.ports.archive.write(&row.sent(WorkKind::Sync, now)).await?;
            if sent == WriteOutcome::Applied {
                jobs.push(SyncJob { team, due_ms: row.schedule(WorkKind::Sync).due_ms }.outgoing());
            }
        }
        Ok(self.ports.queue.send(jobs).await.into_iter().collect::<Result<(), _>>()?)
    }

    /// The workspaces that have a token, with the mark of the token.
    async fn known_tokens(&self) -> BTreeMap<TeamId, String> {
        let tokens = self.sync.token_marks().await.map_err(|error| error.to_string());
        let mut last_error = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = &tokens
            && last_error.as_ref() != Some(error)
        {
            tracing::warn!(error, "the workspace of the token is unknown");
        }
        *last_error = tokens.as_ref().err().cloned();
        tokens.unwrap_or_default()
    }

    async fn sync_if_due(&self, team: &TeamId) -> JobOutcome {
        let row = match self.ports.archive.get(&ItemKey::team(team)).await {
            Ok(row) => row.as_ref().and_then(WorkspaceRow::read),
            Err(error) => return JobOutcome::retry(error),
        };
        // Without its token, a later tick finds it due again.
        let Some(token) = self.known_tokens().await.remove(team) else { return JobOutcome::Done };
        if row.is_some_and(|row| !row.is_due(WorkKind::Sync, self.ports.clock.now(), &token)) {
            return JobOutcome::Done;
        }
        let report = self.sync.sync_and_schedule(team, &*self.ports.clock).await;
        if let Some(joiner) = &self.joiner {
            joiner.found(report.team, report.to_join);
        }
        JobOutcome::Done
    }
}

#[async_trait]
impl Worker for DirectoryWorker {
    fn queue(&self) -> QueueName {
        QueueName::Directory
    }

    fn max_batch(&self) -> usize {
        1
    }

    fn slots(&self) -> Option<usize> {
        Some(AT_ONCE)
    }

    fn poll_interval(&self) -> Option<Duration> {
        Some(TICK)
    }

    fn first_poll_delay(&self) -> Duration {
        Duration::ZERO
    }

    async fn poll(&self) {
        if let Err(error) = self.send_due().await {
            tracing::warn!(%error, "the workspaces that are due cannot be found; the next try is in a minute");
        }
    }

    async fn work(&self, batch: &Batch<'_>) {
        for job in batch.jobs() {
            if let DecodedPayload::Sync(sync) = &job.payload {
                job.settle(self.sync_if_due(&sync.team).await);
            } else {
                job.refuse_payload();
            }
        }
    }
}
