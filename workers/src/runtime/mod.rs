//! The consumer runtime: passes jobs from a queue to a worker, and outcomes back to the queue. No job is lost
//! or handled out of order within a message group, and a bad job blocks only its own group.
//!
//! * [`consumer`] receives when a slot is free and drains on shutdown.
//! * [`execution`] runs one received batch in the [`context`] of its worker; [`lease`] keeps it leased meanwhile.
//! * [`batch`] is the input of a worker, and [`job`] decodes it.
//! * [`attempts`] detects jobs that crash their handler; [`watched`] tells it when a handler waits.
//! * [`settle`] turns outcomes into acks, backoffs and releases; [`conclude`] sends them to the queue.
//! * [`pressure`] gives priority to messages if several workers share a process.
//! * [`polling`] lets a worker poll for work that no queue delivers.
//! * [`wake`] sends jobs back that wait aside.
//! * [`invocation`] runs a worker on messages that Lambda received.
//! * [`dead_letters`] drains dead-letter queues into quarantine; [`gauges`] reports depths.

mod attempts;
mod backoff;
mod batch;
mod conclude;
mod consumer;
mod context;
mod dead_letters;
mod execution;
mod gauges;
mod invocation;
mod job;
mod lease;
mod polling;
mod pressure;
mod settings;
mod settle;
mod wake;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::Archive;
use ports::clock::SharedClock;
use ports::queue::{Delivery, Queue, QueueName};
use ports::workers::WorkerSpec;

pub use crate::failure::{JobOutcome, JobRetry};
pub use batch::{Batch, BatchJob, ReceivedJob};
pub use consumer::run;
pub use dead_letters::return_dead_letters;
pub use gauges::report_waiting;
pub use invocation::handle_messages;
pub use job::{DecodedPayload, EventJob, keys_of, updates_of};
pub use pressure::Pressure;
pub use settings::RuntimeSettings;

/// The dependencies of a worker and its runtime.
#[derive(Clone)]
pub struct Ports {
    /// The queue that jobs come from.
    pub queue: Arc<dyn Queue>,
    /// The archive for results, attempts and quarantine.
    pub archive: Arc<dyn Archive>,
    pub clock: SharedClock,
}

/// A consumer of one queue.
#[async_trait]
pub trait Worker: Send + Sync + 'static {
    /// The queue it consumes. No other worker does.
    fn queue(&self) -> QueueName;

    /// Its name in the worker table.
    fn name(&self) -> &'static str {
        WorkerSpec::for_queue(self.queue()).name
    }

    /// The maximum number of jobs in a batch.
    fn max_batch(&self) -> usize;

    /// The number of concurrent batches, if it differs from other workers: a worker that mostly waits for
    /// other services handles more of them.
    fn slots(&self) -> Option<usize> {
        None
    }

    /// Resolves when the worker may receive more jobs: a worker with a rate limit leaves the rest on the
    /// queue, where they use no lease. Called once before each batch; dropping the future must be safe.
    async fn permit(&self) {}

    /// The poll interval for work that no queue delivers; `None` if the worker never polls.
    fn poll_interval(&self) -> Option<Duration> {
        None
    }

    /// The delay of the first poll after the start: queued jobs come first, including those that end a
    /// downtime.
    fn first_poll_delay(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// Polls for work that no queue delivers, and sends jobs for it. Dropping the future must be safe.
    async fn poll(&self) {}

    /// Handles the jobs of a batch and settles each. Jobs of one group are in the order of the queue; a job
    /// may have been handled before. A job that is not settled when this returns is retried.
    ///
    /// Dropping the future must be safe at any point: it happens when the lease is lost, or at the end of a
    /// drain. Then the jobs settled so far count, and the others are retried.
    async fn work(&self, batch: &Batch<'_>);

    /// Handles jobs without a consumer, and returns their outcomes in order.
    async fn handle(&self, jobs: &[Delivery]) -> Vec<JobOutcome> {
        let received: Vec<ReceivedJob> = jobs.iter().cloned().map(ReceivedJob::new).collect();
        self.work(&Batch::decode(&received.iter().collect::<Vec<_>>())).await;
        received.into_iter().map(|job| job.into_outcome().1).collect()
    }
}
