//! The consumer runtime: from a queue to a worker and back, so that nothing is lost, nothing is done out of order
//! within a message group, and one bad job blocks nobody but its own group.
//!
//! * [`consumer`] receives when a slot is free and drains on shutdown.
//! * [`batch`] runs one received batch; [`lease`] keeps it leased meanwhile.
//! * [`attempts`] finds jobs that crash their handler.
//! * [`settle`] turns outcomes into what the queue is told; [`conclude`] tells it.
//! * [`pressure`] lets messages go first where several workers share a process.
//! * [`dead_letters`] empties dead-letter queues into quarantine; [`gauges`] reports depths.

mod attempts;
mod backoff;
mod batch;
mod conclude;
mod consumer;
mod dead_letters;
mod gauges;
mod lease;
mod owed;
mod pressure;
mod settings;
mod settle;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::Archive;
use ports::clock::SharedClock;
use ports::queue::{Delivery, Queue, QueueName};

#[cfg(feature = "aws")]
pub(crate) use consumer::consume;
pub use consumer::run;
#[cfg(feature = "aws")]
pub(crate) use dead_letters::put_aside;
pub use pressure::Pressure;
pub use settings::Settings;

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
pub enum Outcome {
    /// Its effects are durable.
    Done,
    /// Something outside the job was in the way. Its group waits; it is tried again for as long as it takes.
    Retry(Retry),
    /// It can never succeed: it is put aside with this reason, and its group goes on.
    Quarantine(String),
}

/// Why and when to try again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// For the log.
    pub reason: String,
    /// What the other side asked for (`Retry-After`); otherwise the runtime backs off by itself.
    pub after: Option<Duration>,
}

impl Outcome {
    /// To be tried again after the runtime's own backoff.
    #[must_use]
    pub fn retry(reason: impl ToString) -> Self {
        Self::Retry(Retry { reason: reason.to_string(), after: None })
    }
}

/// A consumer of one queue.
#[async_trait]
pub trait Worker: Send + Sync + 'static {
    /// Its name, as in the topology.
    fn name(&self) -> &'static str;

    /// The queue it consumes.
    fn queue(&self) -> QueueName;

    /// How many jobs it takes at once.
    fn max_batch(&self) -> usize;

    /// Resolves when the worker could do something with what is received next: a worker that may do only so much in a
    /// time leaves the rest on the queue, where it costs no lease. Asked once before each batch; dropping the future
    /// must be safe.
    async fn permit(&self) {}

    /// Does the jobs and says what became of each, in their order. Jobs of one group are in the order of the queue; a
    /// job may have been done before. Dropping the future must be safe at any point: it happens when the lease is lost.
    async fn handle(&self, jobs: &[Delivery]) -> Vec<Outcome>;
}
