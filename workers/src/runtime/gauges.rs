//! Reports the depth of a worker's queue, and what waits aside.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics::gauge;
use ports::clock::TimestampMs;
use ports::metrics::{
    QUEUE_DEAD, QUEUE_IN_FLIGHT, QUEUE_OLDEST_AGE, QUEUE_WAITING, WAITING_JOBS, WAITING_OLDEST,
};
use ports::queue::waiting::WaitCause;
use ports::queue::{QueueName, QueueRef};
use tokio::sync::watch;

use tokio::time::Instant;

use super::{Ports, RuntimeSettings, wake};
use crate::failure::PortError;
use crate::quarantine::aside;

/// How often the states of waiting jobs are read.
const WAITING_INTERVAL: Duration = Duration::from_secs(60);

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
    let mut waiting_read: Option<Instant> = None;
    loop {
        if waiting_read.is_none_or(|read| read.elapsed() >= WAITING_INTERVAL) {
            waiting_read = Some(Instant::now());
            if let Err(error) = report_waiting(ports, queue).await {
                tracing::warn!(%queue, %error, "the states of waiting jobs cannot be read");
            }
        }
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

/// Reports the jobs of a queue that wait aside, and sends lost wakes again.
#[expect(clippy::cast_precision_loss, reason = "gauges")]
pub async fn report_waiting(ports: &Ports, queue: QueueName) -> Result<(), PortError> {
    let states = aside::states(&*ports.archive).await?;
    let of_queue: Vec<_> = states.into_iter().filter(|state| state.queue() == Some(queue)).collect();
    let label = queue.spec().label;
    let mut jobs: BTreeMap<WaitCause, u64> = BTreeMap::new();
    let mut first_ms = None;
    for (kind, cause) in of_queue.iter().flat_map(|state| &state.causes) {
        *jobs.entry(*kind).or_default() += cause.jobs;
        // A bulk may take days, and nothing has to be done about it.
        if cause.jobs > 0 && *kind != WaitCause::Bulk {
            first_ms = Some(first_ms.map_or(cause.first_ms, |first: i64| first.min(cause.first_ms)));
        }
    }
    for cause in WaitCause::ALL {
        let waiting = jobs.get(&cause).copied().unwrap_or_default();
        gauge!(WAITING_JOBS, "queue" => label, "cause" => cause.label()).set(waiting as f64);
    }
    let age = first_ms.map_or(Duration::ZERO, |first_ms| ports.clock.now().since(TimestampMs(first_ms)));
    gauge!(WAITING_OLDEST, "queue" => label).set(age.as_secs_f64());
    wake::rouse(ports, queue, &of_queue).await
}
