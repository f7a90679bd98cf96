//! The worker: days as jobs, and the look for those that are to be counted.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use ports::changes::Changes;
use ports::queue::QueueName;
use rules::figures::rollup::ChannelDay;

use super::count::{DayOutcome, count};
use crate::failure::JobFailure;
use crate::runtime::{Batch, DecodedPayload, JobOutcome, Ports, Worker};

/// Between two looks: with the delay of the queue, a late change is counted within three minutes. A look that finds nothing
/// reads two rows on one machine.
const BETWEEN_LOOKS: Duration = Duration::from_secs(60);

/// The first look waits for nothing: what it follows was written before.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// Jobs taken and done at once: on one machine each sync then carries the rows of as many. A day is counted page by page.
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

    async fn count(&self, day: &ChannelDay) -> JobOutcome {
        match count(&*self.ports.archive, day).await {
            Ok(counted) => {
                let ChannelDay { team, channel, day } = day;
                if counted == DayOutcome::Changed {
                    tracing::debug!(%team, %channel, day = day.text(), "a day was counted");
                }
                JobOutcome::Done
            }
            Err(error) => JobFailure::from(error).outcome(),
        }
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

    fn looks_every(&self) -> Option<Duration> {
        Some(BETWEEN_LOOKS)
    }

    fn first_look_after(&self) -> Duration {
        FIRST_LOOK
    }

    async fn look(&self) {
        let followed = match self.follow().await {
            Ok(()) => self.send_lost().await,
            Err(error) => Err(error),
        };
        if let Err(error) = followed {
            tracing::warn!(%error, "failed to look for days to count; the next look is in a minute");
        }
    }

    async fn work(&self, batch: &Batch<'_>) {
        let jobs = batch.jobs().iter().map(|job| async move {
            if let DecodedPayload::Stats(day) = &job.payload {
                job.settle(self.count(&day.0).await);
            } else {
                job.refuse_payload();
            }
        });
        join_all(jobs).await;
    }
}
