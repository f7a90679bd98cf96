//! Keeps a received batch invisible to other processes while it is handled.

use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use ports::metrics::WORKER_HEARTBEAT_FAILURES;
use ports::queue::{Queue, QueueError, QueueRef, Receipt};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// One heartbeat for a whole batch, including the jobs that still wait.
pub(super) struct Lease {
    stop: watch::Sender<bool>,
    expires: watch::Receiver<Option<Instant>>,
    heartbeat: JoinHandle<()>,
}

impl Lease {
    /// Starts the heartbeat for messages that were received just now.
    pub(super) fn keep(heartbeat: Heartbeat) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (expiry, expires) = watch::channel(Some(Instant::now() + safe(heartbeat.visibility_timeout)));
        let heartbeat = tokio::spawn(heartbeat.run(stopped, expiry));
        Self { stop, expires, heartbeat }
    }

    /// Resolves when the lease has ended, or is about to: nothing may be written for the batch from then on.
    pub(super) async fn ended(&self) {
        let mut expires = self.expires.clone();
        loop {
            let expiry = *expires.borrow_and_update();
            let Some(expiry) = expiry else { return };
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(expiry) => {
                    // A renewal may have come in the same instant.
                    if *expires.borrow() == Some(expiry) {
                        return;
                    }
                }
                changed = expires.changed() => {
                    if changed.is_err() {
                        // The heartbeat was stopped: the last expiry remains valid.
                        tokio::time::sleep_until(expiry).await;
                        return;
                    }
                }
            }
        }
    }

    /// Stops the heartbeat and waits for its end, because a renewal that arrives after a backoff would undo
    /// the backoff. Returns whether the lease is still valid.
    pub(super) async fn stop(self) -> bool {
        self.stop.send_replace(true);
        drop(self.heartbeat.await);
        self.expires.borrow().is_some_and(|expiry| Instant::now() < expiry)
    }
}

/// A lease counts as ended a little early, to allow for the time of a request to the queue.
fn safe(visibility_timeout: Duration) -> Duration {
    visibility_timeout - visibility_timeout / 6
}

/// The messages whose lease is renewed.
pub(super) struct Heartbeat {
    pub(super) queue: Arc<dyn Queue>,
    pub(super) queue_ref: QueueRef,
    pub(super) receipts: Vec<Receipt>,
    pub(super) visibility_timeout: Duration,
    pub(super) worker: &'static str,
}

impl Heartbeat {
    async fn run(self, mut stopped: watch::Receiver<bool>, expiry: watch::Sender<Option<Instant>>) {
        let interval = self.visibility_timeout / 3;
        // After a failure, retry sooner: ownership is at stake.
        let retry = self.visibility_timeout / 15;
        let mut wait = interval;
        loop {
            tokio::select! {
                // If it is stopped at the instant of a renewal, it does not renew.
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                () = tokio::time::sleep(wait) => {}
            }
            let asked_at = Instant::now();
            let entries: Vec<(Receipt, Duration)> =
                self.receipts.iter().map(|receipt| (receipt.clone(), self.visibility_timeout)).collect();
            let results = self.queue.change_visibility(self.queue_ref, &entries).await;
            let failed = results.iter().filter(|result| result.is_err()).count();
            if failed == 0 {
                expiry.send_replace(Some(asked_at + safe(self.visibility_timeout)));
                wait = interval;
                continue;
            }
            counter!(WORKER_HEARTBEAT_FAILURES, "worker" => self.worker).increment(1);
            if results.contains(&Err(QueueError::LeaseLost)) {
                tracing::warn!(worker = self.worker, queue = %self.queue_ref, failed, "a lease was lost");
                expiry.send_replace(None);
                return;
            }
            tracing::warn!(worker = self.worker, queue = %self.queue_ref, failed, "a lease could not be renewed yet");
            wait = retry;
        }
    }
}
