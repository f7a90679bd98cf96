//! Drains a dead-letter queue into quarantine, which people check.

use std::time::Duration;

use metrics::counter;
use ports::metrics::{DEAD_LETTERS, WORKER_JOBS};
use ports::queue::topology::MAX_RECEIVE_COUNT;
use ports::queue::{Delivery, QueueRef, ReceiveRequest};
use ports::workers::WorkerSpec;
use tokio::sync::watch;

use super::{Ports, RuntimeSettings};
use crate::quarantine;

/// Messages moved in one batch.
const BATCH: usize = 10;

/// The pause after an empty receive if each receive is billed. Dead letters are rare, and are kept for 14
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
            // As in the consumer: received messages are not dropped.
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
                // A shutdown does not wait for an unavailable queue.
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
        // If it is stopped between two steps, the dead letters are received again and find their rows.
        tokio::select! {
            biased;
            () = quarantine_dead_letters(ports, queue, deliveries) => {}
            () = no_more_time => return,
        }
    }
}

/// Moves dead letters to quarantine. A letter that cannot be written stays on the dead-letter queue and is
/// received again.
pub(crate) async fn quarantine_dead_letters(ports: &Ports, queue: QueueRef, deliveries: Vec<Delivery>) {
    let reason = format!("received {MAX_RECEIVE_COUNT} times without success");
    for delivery in deliveries {
        match quarantine::insert(ports, queue.name.into(), &delivery, &reason).await {
            Ok(()) => {
                let worker = WorkerSpec::for_queue(queue.name).name;
                counter!(WORKER_JOBS, "worker" => worker, "outcome" => "quarantined").increment(1);
                counter!(DEAD_LETTERS, "queue" => queue.name.spec().label).increment(1);
                drop(ports.queue.ack(queue, &[delivery.receipt]).await);
            }
            Err(error) => tracing::warn!(%queue, %error, "a dead letter could not be put in quarantine"),
        }
    }
}
