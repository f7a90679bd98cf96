//! The worker: sends a turn of reading for each workspace that is due, and reads history in turns.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::queue::{Outgoing, QueueName};
use slack_api::WebApi;

use super::BackfillMode;
use super::error::HistoryError;
use super::looks::Looks;
use crate::runtime::{Batch, DecodedPayload, JobOutcome, Ports, Worker};

/// Roots this long before a gap may have replies in it.
pub(super) const LOOK_BACK_MICROS: i64 = 30 * 86_400 * 1_000_000;

/// The poll interval for gaps: how soon a workspace that is due is noticed. A poll reads one partition.
const GAP_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// The poll interval if everything is read: new channels, and events after a pause, are noticed within seconds. A
/// poll reads two small partitions of each workspace.
const FILL_POLL_INTERVAL: Duration = Duration::from_secs(15);

/// The first poll for gaps: queued jobs come first, including those that end a downtime.
const FIRST_GAP_POLL: Duration = Duration::from_secs(30);

/// The first poll if everything is read: the archive begins with what Slack still shows.
const FIRST_FILL_POLL: Duration = Duration::from_secs(2);

/// Workspaces whose history a process reads at once: each mostly waits for Slack, so that one that hangs delays no
/// other.
const AT_ONCE: usize = 8;

/// Reads Slack's history.
pub struct Historian {
    pub(super) ports: Ports,
    pub(super) web: Arc<WebApi>,
    pub(super) mode: BackfillMode,
    pub(super) looks: Looks,
}

impl Historian {
    /// A historian that reads this Slack.
    pub fn new(ports: Ports, web: Arc<WebApi>, mode: BackfillMode) -> Self {
        Self { ports, web, mode, looks: Looks::default() }
    }

    pub(super) async fn send(&self, jobs: Vec<Outgoing>) -> Result<(), HistoryError> {
        Ok(self.ports.queue.send(jobs).await.into_iter().collect::<Result<(), _>>()?)
    }
}

#[async_trait]
impl Worker for Historian {
    fn queue(&self) -> QueueName {
        QueueName::Backfill
    }

    fn max_batch(&self) -> usize {
        1
    }

    fn slots(&self) -> Option<usize> {
        Some(AT_ONCE)
    }

    fn poll_interval(&self) -> Option<Duration> {
        let interval = match self.mode {
            BackfillMode::All => FILL_POLL_INTERVAL,
            BackfillMode::Gaps => GAP_POLL_INTERVAL,
            BackfillMode::Off => return None,
        };
        self.web.has_tokens().then_some(interval)
    }

    fn first_poll_delay(&self) -> Duration {
        match self.mode {
            BackfillMode::All => FIRST_FILL_POLL,
            BackfillMode::Gaps | BackfillMode::Off => FIRST_GAP_POLL,
        }
    }

    async fn poll(&self) {
        if self.mode != BackfillMode::Off
            && let Err(error) = self.send_due().await
        {
            tracing::warn!(%error, "the workspaces with unread history cannot be found; the next try is in a minute");
        }
    }

    async fn work(&self, batch: &Batch<'_>) {
        for job in batch.jobs() {
            if let DecodedPayload::Fill(fill) = &job.payload {
                job.settle(self.fill(fill).await);
            } else if matches!(job.payload, DecodedPayload::Backfill) {
                // A later turn finds what is unread.
                job.settle(JobOutcome::Done);
            } else {
                job.refuse_payload();
            }
        }
    }
}
