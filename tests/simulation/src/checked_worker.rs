//! A worker that is looked at: what it begins with, what it says, and that it panics where the seed says so.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::queue::{Delivery, QueueName};
use workers::runtime::{Batch, JobOutcome, Worker};

use super::ledger::Ledger;
use super::world::{FaultKind, Invariant, World};

/// A job with this in it makes its handler panic for as long as the faults last.
pub(super) const POISON: &str = "a bug is asleep in this text";

/// A worker of the fleet.
pub(super) struct CheckedWorker {
    pub(super) inner: Arc<dyn Worker>,
    pub(super) world: Arc<World>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) process: String,
}

impl CheckedWorker {
    /// Silently: ten thousand intended panics would only fill the output.
    fn panic_if_poisoned(&self, jobs: &[&Delivery]) {
        let poisoned = jobs.iter().find(|job| job.body.contains(POISON));
        if let Some(job) = poisoned.filter(|_| self.world.has(FaultKind::Panicked)) {
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

    fn looks_every(&self) -> Option<Duration> {
        self.inner.looks_every()
    }

    fn first_look_after(&self) -> Duration {
        self.inner.first_look_after()
    }

    async fn look(&self) {
        self.world.note(&self.process, || format!("{} looks for work", self.name()));
        self.inner.look().await;
    }

    async fn work(&self, batch: &Batch<'_>) {
        let jobs: Vec<&Delivery> = batch.received().iter().map(|job| job.delivery()).collect();
        self.world.note(&self.process, || {
            let ids: Vec<&str> = jobs.iter().map(|job| job.message_id.0.as_str()).collect();
            format!("{} begins {}", self.name(), ids.join(" "))
        });
        if jobs.len() > self.max_batch() {
            self.world.broke(Invariant::Bounded, format!("{} jobs at once", jobs.len()));
        }
        self.ledger.check_order(self.queue(), &jobs);
        self.panic_if_poisoned(&jobs);
        // Dropped when the work ends in whatever way: what was settled by then counts.
        let _observer = OutcomeObserver { checked: self, batch };
        self.inner.work(batch).await;
    }
}

/// Notes the outcomes of a batch once its work has ended, or was cut off.
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
                Some(JobOutcome::Retry(_)) => "retry",
                None => "not reached",
            };
            let delivery = job.delivery();
            world.note(process, || format!("{} {}: {word}", self.checked.name(), delivery.message_id));
            match job.outcome() {
                Some(JobOutcome::Done) => ledger.decided(delivery, true),
                Some(JobOutcome::Quarantine(_)) => ledger.decided(delivery, false),
                Some(JobOutcome::Retry(_)) | None => {}
            }
        }
    }
}
