//! A wrapper around a worker that checks the order of its jobs, records their outcomes, and panics if the
//! seed asks for it.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::queue::{Delivery, QueueName};
use workers::runtime::{Batch, JobOutcome, Worker};

use super::ledger::Ledger;
use super::mutation::Mutants;
use super::world::{FaultKind, Invariant, World};

/// A job that contains this text makes its handler panic while the faults last.
pub(super) const POISON: &str = "a bug is asleep in this text";

/// A worker of the fleet.
pub(super) struct CheckedWorker {
    pub(super) inner: Arc<dyn Worker>,
    pub(super) mutants: Mutants,
    pub(super) world: Arc<World>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) process: String,
}

impl CheckedWorker {
    /// Panics without a message: ten thousand intended panics would only fill the output.
    fn panic_if_poisoned(&self, jobs: &[&Delivery]) {
        let poisoned = jobs.iter().find(|job| job.body.contains(POISON));
        if let Some(job) = poisoned.filter(|_| self.world.is_enabled(FaultKind::Panicked)) {
            self.world.fault(FaultKind::Panicked, &self.process, || job.message_id.to_string());
            resume_unwind(Box::new("a panic of the simulation"));
        }
    }
}

#[async_trait]
impl Worker for CheckedWorker {
    fn queue(&self) -> QueueName {
        self.inner.queue()
    }

    fn max_batch(&self) -> usize {
        self.inner.max_batch()
    }

    fn slots(&self) -> Option<usize> {
        self.inner.slots()
    }

    async fn permit(&self) {
        self.inner.permit().await;
    }

    fn poll_interval(&self) -> Option<Duration> {
        self.inner.poll_interval()
    }

    fn first_poll_delay(&self) -> Duration {
        self.inner.first_poll_delay()
    }

    async fn poll(&self) {
        self.world.note(&self.process, || format!("{} looks for work", self.name()));
        self.inner.poll().await;
    }

    async fn work(&self, batch: &Batch<'_>) {
        let jobs: Vec<&Delivery> = batch.received().iter().map(|job| job.delivery()).collect();
        self.world.note(&self.process, || {
            let ids: Vec<&str> = jobs.iter().map(|job| job.message_id.0.as_str()).collect();
            format!("{} begins {}", self.name(), ids.join(" "))
        });
        if jobs.len() > self.max_batch() {
            self.world.report_violation(Invariant::Bounded, format!("{} jobs at once", jobs.len()));
        }
        self.ledger.check_order(self.queue(), &jobs);
        // The drop also runs if the work panics or is cancelled, and records the jobs settled by then, such as one
        // that cannot be decoded.
        let _observer = OutcomeObserver { checked: self, batch };
        self.panic_if_poisoned(&jobs);
        self.mutants.work(&*self.inner, batch).await;
    }
}

/// Records the outcomes of a batch when its work ends or is cancelled.
struct OutcomeObserver<'w> {
    checked: &'w CheckedWorker,
    batch: &'w Batch<'w>,
}

impl Drop for OutcomeObserver<'_> {
    fn drop(&mut self) {
        let CheckedWorker { world, ledger, process, .. } = self.checked;
        for job in self.batch.received() {
            let word = match job.outcome() {
                Some(JobOutcome::Done) => "done",
                Some(JobOutcome::Quarantine(_)) => "quarantine",
                Some(JobOutcome::Wait(..)) => "waits",
                Some(JobOutcome::Retry(_)) => "retry",
                None => "not reached",
            };
            let delivery = job.delivery();
            world.note(process, || format!("{} {}: {word}", self.checked.name(), delivery.message_id));
            match job.outcome() {
                Some(JobOutcome::Done) => ledger.record_outcome(delivery, true),
                Some(JobOutcome::Quarantine(_) | JobOutcome::Wait(..)) => {
                    ledger.record_outcome(delivery, false)
                }
                Some(JobOutcome::Retry(_)) | None => {}
            }
        }
    }
}
