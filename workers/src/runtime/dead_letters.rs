//! Empties a dead-letter queue into quarantine, where people look.

use shared::queue::{QueueRef, ReceiveRequest};
use tokio::sync::watch;

use super::{Ports, Settings};
use crate::quarantine;

/// Messages moved at once.
const BATCH: usize = 10;

/// Runs until shutdown.
pub(super) async fn drain(
    ports: &Ports,
    queue: QueueRef,
    settings: &Settings,
    mut shutdown: watch::Receiver<bool>,
) {
    let request = ReceiveRequest {
        queue,
        max: BATCH,
        visibility_timeout: settings.visibility_timeout,
        wait: settings.wait,
    };
    loop {
        let received = tokio::select! {
            received = ports.queue.receive(request) => received,
            _ = shutdown.wait_for(|shutdown| *shutdown) => return,
        };
        let deliveries = match received {
            Ok(deliveries) => deliveries,
            Err(error) => {
                tracing::warn!(%queue, %error, "dead letters cannot be received");
                tokio::time::sleep(settings.backoff_cap.min(settings.wait)).await;
                continue;
            }
        };
        for delivery in deliveries {
            let reason = format!("received {} times without success", queue.name.spec().max_receive_count);
            // What could not be written stays a dead letter and comes back.
            match quarantine::put(ports, queue.name.into(), &delivery, &reason).await {
                Ok(()) => drop(ports.queue.ack(queue, &[delivery.receipt]).await),
                Err(error) => tracing::warn!(%queue, %error, "a dead letter could not be put in quarantine"),
            }
        }
    }
}
