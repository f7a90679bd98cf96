//! Drains a dead-letter queue. A dead letter is no verdict: it was received often, for whatever reason. So it is
//! set aside and tried again, and is quarantined only if that happens again and again.

use std::time::Duration;

use metrics::counter;
use ports::metrics::{DEAD_LETTERS, WORKER_JOBS};
use ports::queue::job::Origin;
use ports::queue::topology::MAX_RECEIVE_COUNT;
use ports::queue::waiting::WaitCause;
use ports::queue::{Delivery, QueueRef, ReceiveRequest};
use ports::workers::WorkerSpec;
use tokio::sync::watch;

use super::{Ports, RuntimeSettings, wake};
use crate::failure::PortError;
use crate::quarantine;
use crate::quarantine::aside::{self, Aside};

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
            () = return_dead_letters(ports, queue, deliveries, settings.longest_wait) => {}
            () = no_more_time => return,
        }
    }
}

/// How often a dead letter is sent back.
const MAX_TRIPS: u32 = 3;

/// Sets dead letters aside, or moves those that have come back too often to quarantine. A letter that cannot be
/// written stays on the dead-letter queue and is received again.
pub async fn return_dead_letters(
    ports: &Ports,
    queue: QueueRef,
    deliveries: Vec<Delivery>,
    longest_wait: Duration,
) {
    let reason = format!("received {MAX_RECEIVE_COUNT} times without success");
    for delivery in deliveries {
        let trips = Origin::of(&delivery.body).map_or(0, |origin| origin.trips);
        let moved = if let Some(wake) = wake::read(&delivery) {
            wake::replace(ports, queue.name, wake).await
        } else if trips < MAX_TRIPS {
            let letter = Aside { delivery: &delivery, cause: WaitCause::Redelivered, reason: &reason };
            aside::set_aside(ports, queue.name.into(), &[letter], longest_wait).await.into_iter().collect()
        } else {
            let worker = WorkerSpec::for_queue(queue.name).name;
            counter!(WORKER_JOBS, "worker" => worker, "outcome" => "quarantined").increment(1);
            quarantine::insert(ports, queue.name.into(), &delivery, &reason).await.map_err(PortError::from)
        };
        match moved {
            Ok(()) => {
                counter!(DEAD_LETTERS, "queue" => queue.name.spec().label).increment(1);
                drop(ports.queue.ack(queue, &[delivery.receipt]).await);
            }
            Err(error) => tracing::warn!(%queue, %error, "a dead letter could not be set aside"),
        }
    }
}
