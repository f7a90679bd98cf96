//! Reports the depth of a worker's queue.

use metrics::gauge;
use ports::metrics::{QUEUE_DEAD, QUEUE_IN_FLIGHT, QUEUE_OLDEST_AGE, QUEUE_WAITING};
use ports::queue::{QueueName, QueueRef};
use tokio::sync::watch;

use super::{Ports, RuntimeSettings};

/// Runs until shutdown. A slow depth request does not delay the end.
pub(super) async fn report(
    ports: &Ports,
    queue: QueueName,
    settings: &RuntimeSettings,
    mut shutdown: watch::Receiver<bool>,
) {
    tokio::select! {
        biased;
        _ = shutdown.wait_for(|shutdown| *shutdown) => {}
        () = report_forever(ports, queue, settings) => {}
    }
}

#[expect(clippy::cast_precision_loss, reason = "gauges")]
async fn report_forever(ports: &Ports, queue: QueueName, settings: &RuntimeSettings) {
    let label = queue.spec().label;
    loop {
        let depths =
            (ports.queue.depth(queue.into()).await, ports.queue.depth(QueueRef::dead_letters(queue)).await);
        if let (Ok(depth), Ok(dead)) = depths {
            gauge!(QUEUE_WAITING, "queue" => label).set((depth.waiting + depth.delayed) as f64);
            gauge!(QUEUE_IN_FLIGHT, "queue" => label).set(depth.in_flight as f64);
            gauge!(QUEUE_OLDEST_AGE, "queue" => label).set(depth.oldest_age_s.unwrap_or(0) as f64);
            gauge!(QUEUE_DEAD, "queue" => label).set((dead.waiting + dead.in_flight) as f64);
        }
        // Requests more frequent than the counts change return nothing new, and each request to a queue whose
        // counts lag is billed.
        tokio::time::sleep(settings.gauge_interval.max(ports.queue.depth_lag())).await;
    }
}
