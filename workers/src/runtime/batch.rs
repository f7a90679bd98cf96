//! What a worker is given: decoded jobs, each with the slot for its outcome.

use std::collections::HashSet;
use std::sync::OnceLock;

use ports::queue::{Delivery, GroupId};

use super::Outcome;
use super::job::DecodedPayload;
use crate::failure::Failure;

/// A received job and its outcome. It outlives the worker's call: if that is cancelled or panics, the outcomes so far
/// stay.
pub struct ReceivedJob {
    delivery: Delivery,
    outcome: OnceLock<Outcome>,
}

impl ReceivedJob {
    /// A job that nothing is known of yet.
    #[must_use]
    pub fn new(delivery: Delivery) -> Self {
        Self { delivery, outcome: OnceLock::new() }
    }

    /// What was received.
    #[must_use]
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// Says what became of the job. Only the first outcome counts.
    pub fn settle(&self, outcome: Outcome) {
        drop(self.outcome.set(outcome));
    }

    /// What became of the job; `None` if no worker has said so.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }

    /// What became of the job: one that no worker settled was not reached, and is tried again.
    #[must_use]
    pub fn into_outcome(self) -> (Delivery, Outcome) {
        let outcome =
            self.outcome.into_inner().unwrap_or_else(|| Outcome::retry("the worker did not reach it"));
        (self.delivery, outcome)
    }

    /// Whether its group may go on behind it.
    pub(super) fn is_final(&self) -> bool {
        matches!(self.outcome(), Some(Outcome::Done | Outcome::Quarantine(_)))
    }
}

/// Jobs that a worker does together, in the order of the queue.
pub struct Batch<'b> {
    received: &'b [&'b ReceivedJob],
    jobs: Vec<BatchJob<'b>>,
}

/// A decoded job of a batch.
pub struct BatchJob<'b> {
    /// What was received.
    pub delivery: &'b Delivery,
    /// What it asks for.
    pub payload: DecodedPayload<'b>,
    /// Whether a person replayed it from quarantine.
    pub replayed: bool,
    received: &'b ReceivedJob,
}

impl<'b> Batch<'b> {
    /// Decodes jobs. One that cannot be decoded is settled here: it is quarantined, or tried again if a newer version wrote
    /// it, and then its group stops there.
    #[must_use]
    pub fn decode(received: &'b [&'b ReceivedJob]) -> Self {
        let mut jobs = Vec::with_capacity(received.len());
        let mut stopped: HashSet<&GroupId> = HashSet::new();
        for job in received {
            let delivery = job.delivery();
            if stopped.contains(&delivery.group) {
                continue;
            }
            match DecodedPayload::of(delivery) {
                Ok((payload, replayed)) => jobs.push(BatchJob { delivery, payload, replayed, received: job }),
                Err(failure) => {
                    job.settle(failure.outcome());
                    if !job.is_final() {
                        stopped.insert(&delivery.group);
                    }
                }
            }
        }
        Self { received, jobs }
    }

    /// The jobs to do. A job that is not settled when the worker returns was not reached: it is tried again.
    #[must_use]
    pub fn jobs(&self) -> &[BatchJob<'b>] {
        &self.jobs
    }

    /// Everything that was received, including what could not be decoded.
    #[must_use]
    pub fn received(&self) -> &'b [&'b ReceivedJob] {
        self.received
    }
}

impl BatchJob<'_> {
    /// Says what became of the job. Call it once all effects of the job are durable: from here on it may be acked.
    pub fn settle(&self, outcome: Outcome) {
        self.received.settle(outcome);
    }

    /// The job is done, or failed.
    pub(crate) fn finish(&self, result: Result<(), impl Into<Failure>>) {
        self.settle(result.map_or_else(|failure| failure.into().outcome(), |()| Outcome::Done));
    }

    /// The job belongs on another queue.
    pub(crate) fn refuse_payload(&self) {
        let kind = self.payload.kind();
        self.settle(Outcome::Quarantine(format!("this queue does not carry {kind}")));
    }
}
