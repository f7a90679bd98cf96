//! The worker: counts days as jobs, and polls for days to count.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use ports::archive::ArchiveError;
use ports::changes::Changes;
use ports::queue::QueueName;
use rules::figures::rollup::ChannelDay;

use super::count::{DayOutcome, count};
use crate::runtime::{Batch, DecodedPayload, Ports, Worker};

/// The poll interval: with the delay of the queue, a late change is counted within three minutes. A poll
/// without changes reads two rows on one machine.
const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// The delay of the first poll: it need not wait for queued jobs, because it follows changes that are already
/// written.
const FIRST_POLL_DELAY: Duration = Duration::from_secs(1);

/// Jobs in a batch, handled concurrently: on one machine, each disk sync then covers the rows of all of them.
/// A day is counted page by page.
const BATCH: usize = 16;

/// Counts each channel's days.
pub struct Statistician {
    pub(super) ports: Ports,
    pub(super) changes: Arc<dyn Changes>,
}

impl Statistician {
    /// A statistician that follows these changes.
    #[must_use]
    pub fn new(ports: Ports, changes: Arc<dyn Changes>) -> Self {
        Self { ports, changes }
    }

    async fn count(&self, day: &ChannelDay) -> Result<(), ArchiveError> {
        let counted = count(&*self.ports.archive, day).await?;
        let ChannelDay { team, channel, day } = day;
        if counted == DayOutcome::Changed {
            tracing::debug!(%team, %channel, day = day.text(), "a day was counted");
        }
        Ok(())
    }
}

#[async_trait]
impl Worker for Statistician {
    fn queue(&self) -> QueueName {
        QueueName::Stats
    }

    fn max_batch(&self) -> usize {
        BATCH
    }

    fn poll_interval(&self) -> Option<Duration> {
        Some(POLL_INTERVAL)
    }

    fn first_poll_delay(&self) -> Duration {
        FIRST_POLL_DELAY
    }

    async fn poll(&self) {
        let followed = match self.follow().await {
            Ok(()) => self.send_lost().await,
            Err(error) => Err(error),
        };
        if let Err(error) = followed {
            tracing::warn!(%error, "failed to find days to count; the next poll is in a minute");
        }
    }

    async fn work(&self, batch: &Batch<'_>) {
        let jobs = batch.jobs().iter().map(|job| async move {
            if let DecodedPayload::Stats(day) = &job.payload {
                job.finish(self.count(&day.0).await);
            } else {
                job.refuse_payload();
            }
        });
        join_all(jobs).await;
    }
}
