//! The consumer loop: receives when a slot is free, passes the batch to a task, drains on shutdown.

use std::collections::{BTreeSet, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ports::queue::{QueueName, QueueRef, ReceiveRequest};
use ports::throttle::LogThrottle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::attempts::Attempts;
use super::backoff::Backoff;
use super::context::Context;
use super::{Ports, RuntimeSettings, Worker, dead_letters, execution, gauges, polling};

/// Messages are pressing if a receive returns this share of its maximum: the queue returns half of the ready
/// messages and leaves the other half to the next receive.
const PRESSING_SHARE: usize = 4;

/// How long returning jobs that ran out of time may take. With the default drain deadline, it ends before the
/// 10 s after which Docker kills the process.
const GIVE_BACK: Duration = Duration::from_millis(1_500);

/// Runs a worker until `shutdown` becomes true, then lets its batches finish within the drain deadline.
pub async fn run(
    worker: Arc<dyn Worker>,
    ports: Ports,
    settings: RuntimeSettings,
    shutdown: watch::Receiver<bool>,
) {
    let queue = worker.queue();
    tokio::join!(
        polling::run(Arc::clone(&worker), shutdown.clone()),
        consume(worker, ports.clone(), settings.clone(), shutdown.clone()),
        dead_letters::drain(&ports, QueueRef::dead_letters(queue), &settings, shutdown.clone()),
        gauges::report(&ports, queue, &settings, shutdown.clone()),
    );
}

/// Runs until `shutdown` becomes true. Every batch has ended when this returns: finished in time, or with its
/// jobs returned.
///
/// The order of the branches is fixed in every `select!`, so that events of one instant happen in the same
/// order whenever a simulation repeats them.
pub(super) async fn consume(
    worker: Arc<dyn Worker>,
    ports: Ports,
    settings: RuntimeSettings,
    mut shutdown: watch::Receiver<bool>,
) {
    let request = ReceiveRequest {
        queue: worker.queue().into(),
        max: worker.max_batch(),
        visibility_timeout: settings.visibility_timeout,
        wait: settings.wait,
    };
    let is_messages = worker.queue() == QueueName::Events;
    let slots = Arc::new(Semaphore::new(worker.slots().unwrap_or(settings.slots)));
    let cut = Arc::new(Semaphore::new(0));
    let context = Arc::new(Context {
        backoff: Backoff::new(settings.backoff_base, settings.backoff_cap, settings.seed),
        blocked: Mutex::new(HashSet::new()),
        attempts: Attempts {
            archive: Arc::clone(&ports.archive),
            queue: worker.queue().into(),
            worker: worker.name(),
            max_crashes: settings.max_crashes,
            visibility_timeout: settings.visibility_timeout,
            pending_removals: Mutex::new(BTreeSet::new()),
        },
        quarantine_log: LogThrottle::new(),
        cut: Arc::clone(&cut),
        worker,
        ports,
        settings,
    });
    let mut batches = JoinSet::new();
    let mut failed_receives = 0;
    let mut permitted = false;
    loop {
        // Do not receive before a slot is free: the lease would expire while the message waits.
        let slot = tokio::select! {
            biased;
            _ = shutdown.wait_for(|shutdown| *shutdown) => break,
            slot = Arc::clone(&slots).acquire_owned() => slot,
        };
        let Ok(slot) = slot else { break };
        if !permitted {
            tokio::select! {
                biased;
                _ = shutdown.wait_for(|shutdown| *shutdown) => break,
                () = context.worker.permit() => permitted = true,
            }
        }
        tokio::select! {
            biased;
            _ = shutdown.wait_for(|shutdown| *shutdown) => break,
            () = context.settings.open_requests.wait_for_burst_to_end() => {}
        }
        let received = tokio::select! {
            // Received messages are handled even if the shutdown came at the same instant: if they were
            // dropped, they would stay invisible to every process until their leases end.
            biased;
            received = context.ports.queue.receive(request) => received,
            _ = shutdown.wait_for(|shutdown| *shutdown) => break,
        };
        match received {
            Ok(deliveries) if deliveries.is_empty() => {}
            Ok(deliveries) => {
                failed_receives = 0;
                permitted = false;
                if is_messages && deliveries.len() >= request.max / PRESSING_SHARE {
                    context.settings.pressure.note();
                }
                let context = Arc::clone(&context);
                batches.spawn(async move {
                    let began = Instant::now();
                    execution::run(&context, deliveries).await;
                    if !is_messages {
                        // The batch has ended, so a shutdown does not wait for this rest: only its slot does.
                        let (step, pressure) = (began.elapsed(), context.settings.pressure.clone());
                        tokio::spawn(async move {
                            pressure.rest_after(step).await;
                            drop(slot);
                        });
                    }
                });
            }
            Err(error) => {
                failed_receives += 1;
                tracing::warn!(worker = context.worker.name(), %error, "cannot receive");
                let wait = context.backoff.wait(failed_receives, None);
                tokio::select! {
                    biased;
                    _ = shutdown.wait_for(|shutdown| *shutdown) => break,
                    () = tokio::time::sleep(wait) => {}
                }
            }
        }
        while batches.try_join_next().is_some() {}
    }
    let worker = context.worker.name();
    let mut finish = pin!(async { while batches.join_next().await.is_some() {} });
    if timeout(context.settings.drain_deadline, &mut finish).await.is_err() {
        tracing::warn!(worker, "batches did not finish in time; their jobs are given back");
        cut.close();
        if timeout(GIVE_BACK, finish).await.is_err() {
            tracing::warn!(
                worker,
                "jobs could not be given back in time; they come back when their leases end"
            );
        }
    }
}
