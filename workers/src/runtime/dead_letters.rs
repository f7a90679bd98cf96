//! Empties a dead-letter queue into quarantine, where people look.

use std::time::Duration;

use metrics::counter;
use ports::metrics::{DEAD_LETTERS, WORKER_JOBS};
use ports::queue::topology::MAX_RECEIVE_COUNT;
use ports::queue::{Delivery, QueueRef, ReceiveRequest};
use ports::workers::WorkerSpec;
use tokio::sync::watch;

use super::{Ports, RuntimeSettings};
use crate::quarantine;

/// Messages moved at once.
const BATCH: usize = 10;

/// How long an empty dead-letter queue is left alone if each receive is on the bill. Dead letters are rare, and wait for 14
/// days.
const REST: Duration = Duration::from_secs(300);

/// Runs until shutdown.
pub(super) async fn drain(
    ports: &Ports,
    queue: QueueRef,
    settings: &RuntimeSettings,
    mut shutdown: watch::Receiver<bool>,
) {
    let request = ReceiveRequest {
        queue,
        max: BATCH,
        visibility_timeout: settings.visibility_timeout,
        wait: settings.wait,
    };
    while !*shutdown.borrow() {
        let received = tokio::select! {
            // As in the consumer: what has been received is not dropped.
            biased;
            received = ports.queue.receive(request) => received,
            _ = shutdown.wait_for(|shutdown| *shutdown) => return,
        };
        let deliveries = match received {
            // A queue whose counts lag is a service that bills each call.
            Ok(deliveries) if deliveries.is_empty() && !ports.queue.depth_lag().is_zero() => {
                tokio::select! {
                    biased;
                    _ = shutdown.wait_for(|shutdown| *shutdown) => return,
                    () = tokio::time::sleep(REST) => continue,
                }
            }
            Ok(deliveries) => deliveries,
            Err(error) => {
                tracing::warn!(%queue, %error, "dead letters cannot be received");
                // A shutdown is not kept waiting by a queue that is out of reach.
                tokio::select! {
                    biased;
                    _ = shutdown.wait_for(|shutdown| *shutdown) => return,
                    () = tokio::time::sleep(settings.backoff_cap.min(settings.wait)) => continue,
                }
            }
        };
        let no_more_time = async {
            drop(shutdown.wait_for(|shutdown| *shutdown).await);
            tokio::time::sleep(settings.drain_deadline).await;
        };
        // Stopped between any two steps, it leaves dead letters that are received again and find their rows.
        tokio::select! {
            biased;
            () = quarantine_dead_letters(ports, queue, deliveries) => {}
            () = no_more_time => return,
        }
    }
}

/// Moves dead letters to quarantine. One that cannot be written stays a dead letter and comes back.
pub(crate) async fn quarantine_dead_letters(ports: &Ports, queue: QueueRef, deliveries: Vec<Delivery>) {
    let reason = format!("received {MAX_RECEIVE_COUNT} times without success");
    for delivery in deliveries {
        match quarantine::put(ports, queue.name.into(), &delivery, &reason).await {
            Ok(()) => {
                let worker = WorkerSpec::of(queue.name).name;
                counter!(WORKER_JOBS, "worker" => worker, "outcome" => "quarantined").increment(1);
                counter!(DEAD_LETTERS, "queue" => queue.name.spec().label).increment(1);
                drop(ports.queue.ack(queue, &[delivery.receipt]).await);
            }
            Err(error) => tracing::warn!(%queue, %error, "a dead letter could not be put in quarantine"),
        }
    }
}
