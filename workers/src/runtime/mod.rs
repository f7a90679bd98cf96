//! The consumer runtime: it takes jobs from a queue to a worker, and outcomes back to the queue. No job is lost or done out
//! of order within a message group, and a bad job blocks only its own group.
//!
//! * [`consumer`] receives when a slot is free and drains on shutdown.
//! * [`execution`] runs one received batch; [`lease`] keeps it leased meanwhile.
//! * [`batch`] is what a worker is given, and [`job`] decodes it.
//! * [`attempts`] finds jobs that crash their handler.
//! * [`settle`] turns outcomes into what the queue is told; [`conclude`] tells it.
//! * [`pressure`] lets messages go first if several workers share a process.
//! * [`looks`] lets a worker look for work that no queue brings.
//! * [`dead_letters`] empties dead-letter queues into quarantine; [`gauges`] reports depths.

mod attempts;
mod backoff;
mod batch;
mod conclude;
mod consumer;
mod dead_letters;
mod execution;
mod gauges;
mod job;
mod lease;
mod looks;
mod pressure;
mod settings;
mod settle;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::Archive;
use ports::clock::SharedClock;
use ports::queue::{Delivery, Queue, QueueName};
use ports::workers::WorkerSpec;

pub use batch::{Batch, BatchJob, ReceivedJob};
#[cfg(feature = "aws")]
pub(crate) use consumer::consume;
pub use consumer::run;
#[cfg(feature = "aws")]
pub(crate) use dead_letters::quarantine_dead_letters;
pub use job::{DecodedPayload, EventJob, RefusedTime, updates_of};
pub use pressure::Pressure;
pub use settings::RuntimeSettings;

/// What a worker and its runtime may touch.
#[derive(Clone)]
pub struct Ports {
    /// Where jobs come from.
    pub queue: Arc<dyn Queue>,
    /// Where results, attempts and quarantine are kept.
    pub archive: Arc<dyn Archive>,
    /// The time.
    pub clock: SharedClock,
}

/// What became of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    /// Its effects are durable.
    Done,
    /// Something outside the job failed. Its group waits; it is tried again until it succeeds.
    Retry(JobRetry),
    /// It can never succeed: it goes to quarantine with this reason, and its group goes on.
    Quarantine(String),
}

/// Why and when to try again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRetry {
    /// For the log.
    pub reason: String,
    /// What the other side asked for (`Retry-After`); otherwise the runtime backs off by itself.
    pub after: Option<Duration>,
}

impl JobOutcome {
    /// To be tried again after the runtime's own backoff.
    pub fn retry(reason: impl ToString) -> Self {
        Self::Retry(JobRetry { reason: reason.to_string(), after: None })
    }
}

/// A consumer of one queue.
#[async_trait]
pub trait Worker: Send + Sync + 'static {
    /// The queue it consumes. No other worker does.
    fn queue(&self) -> QueueName;

    /// Its name, as the table of workers has it.
    fn name(&self) -> &'static str {
        WorkerSpec::of(self.queue()).name
    }

    /// How many jobs it takes at once.
    fn max_batch(&self) -> usize;

    /// How many batches it works on at once, if that differs from other workers: one that waits for others most of the time
    /// does more of it.
    fn slots(&self) -> Option<usize> {
        None
    }

    /// Resolves when the worker may take more jobs: a worker with a rate limit leaves the rest on the queue, where they
    /// cost no lease. Called once before each batch; dropping the future must be safe.
    async fn permit(&self) {}

    /// How often the worker looks for work that no queue brings; `None` if it never does.
    fn looks_every(&self) -> Option<Duration> {
        None
    }

    /// The first look comes this long after the start: what is on the queue comes first, and with it the end of a time in which
    /// nothing ran.
    fn first_look_after(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// Looks for work that no queue brings, and sends jobs for it. Dropping the future must be safe.
    async fn look(&self) {}

    /// Does the jobs of a batch and settles each. Jobs of one group are in the order of the queue; a job may have been done
    /// before. A job that is not settled when this returns is tried again.
    ///
    /// Dropping the future must be safe at any point: it happens when the lease is lost, or at the end of a drain. Then the
    /// jobs settled so far count, and the others are tried again.
    async fn work(&self, batch: &Batch<'_>);

    /// Does jobs that no consumer received, and returns what became of each, in their order.
    async fn handle(&self, jobs: &[Delivery]) -> Vec<JobOutcome> {
        let received: Vec<ReceivedJob> = jobs.iter().cloned().map(ReceivedJob::new).collect();
        self.work(&Batch::decode(&received.iter().collect::<Vec<_>>())).await;
        received.into_iter().map(|job| job.into_outcome().1).collect()
    }
}
