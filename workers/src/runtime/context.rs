//! What all batches of a worker share.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use metrics::counter;
use ports::metrics::WORKER_JOBS;
use ports::queue::{GroupId, QueueRef};
use ports::throttle::LogThrottle;
use tokio::sync::Semaphore;

use super::attempts::Attempts;
use super::backoff::Backoff;
use super::{Ports, RuntimeSettings, Worker};

/// Everything a batch needs; shared by the batches of one worker.
pub(super) struct Context {
    pub(super) worker: Arc<dyn Worker>,
    pub(super) ports: Ports,
    pub(super) settings: RuntimeSettings,
    pub(super) backoff: Backoff,
    pub(super) blocked: Mutex<HashSet<GroupId>>,
    pub(super) attempts: Attempts,
    /// Anyone who can sign events can fill the quarantine, so its log line is limited.
    pub(super) quarantine_log: LogThrottle,
    /// Has no permits, and is closed when the drain deadline is over: jobs that are not done by then are
    /// returned. It wakes its waiters in their order, while a `watch` would pick at random.
    pub(super) cut: Arc<Semaphore>,
}

impl Context {
    pub(super) fn queue_ref(&self) -> QueueRef {
        self.worker.queue().into()
    }

    pub(super) fn count(&self, outcome: &'static str, jobs: usize) {
        if jobs > 0 {
            counter!(WORKER_JOBS, "worker" => self.worker.name(), "outcome" => outcome)
                .increment(u64::try_from(jobs).unwrap_or(0));
        }
    }
}
