//! Runs one received batch, until the outcome of each job is reported to the queue.

use std::collections::{BTreeMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt};
use metrics::histogram;
use ports::metrics::{WORKER_AGE, WORKER_BATCH_SECONDS, WORKER_RECEIVES};
use ports::queue::job::is_in_bulk;
use ports::queue::waiting::WaitCause;
use ports::queue::{Delivery, GroupId};
use tokio::time::Instant;

use super::attempts::BatchAttempts;
use super::batch::{Batch, ReceivedJob};
use super::conclude::conclude;
use super::context::Context;
use super::lease::{Heartbeat, Lease};
use super::{JobOutcome, JobRetry, wake, watched};

/// Runs a batch to its end.
pub(super) async fn run(context: &Context, deliveries: Vec<Delivery>) {
    let began = Instant::now();
    let worker = context.worker.name();
    let jobs = deliveries.len();
    let receives = histogram!(WORKER_RECEIVES, "worker" => worker);
    deliveries.iter().for_each(|delivery| receives.record(f64::from(delivery.receive_count)));
    // A message without a sent time has the time zero.
    let sent_at = deliveries.iter().map(|delivery| delivery.sent_at).filter(|sent_at| sent_at.0 > 0);
    if let Some(oldest) = sent_at.min() {
        let age = context.ports.clock.now().since(oldest);
        histogram!(WORKER_AGE, "worker" => worker).record(age.as_secs_f64());
    }
    let lease = Lease::keep(Heartbeat {
        queue: Arc::clone(&context.ports.queue),
        queue_ref: context.queue_ref(),
        receipts: deliveries.iter().map(|delivery| delivery.receipt.clone()).collect(),
        visibility_timeout: context.settings.visibility_timeout,
        worker,
    });
    let attempts = context.attempts.for_batch();
    let (wakes, others): (Vec<_>, Vec<_>) = deliveries
        .into_iter()
        .map(|delivery| (wake::read(&delivery), delivery))
        .partition(|(wake, _)| wake.is_some());
    let received: Vec<ReceivedJob> = others.into_iter().map(|(_, job)| ReceivedJob::new(job)).collect();
    let mut turns = Vec::with_capacity(wakes.len());
    let make_turns = async {
        for (wake, delivery) in wakes {
            turns.push((delivery.receipt.clone(), wake::handle(context, &delivery, wake.flatten()).await));
        }
    };
    let in_time = tokio::select! {
        // A batch that is cut before it starts does not start.
        biased;
        Err(_) = context.cut.acquire() => true,
        // Dropping the handler keeps it from writing without a lease, which another process may have by now.
        () = lease.ended() => false,
        ((), ()) = async { tokio::join!(handle(context, &received, &attempts), make_turns) } => true,
    };
    let is_leased = lease.stop().await && in_time;
    attempts.end_all().await;
    if is_leased {
        wake::conclude(context, turns).await;
        conclude(context, received.into_iter().map(ReceivedJob::into_outcome).collect()).await;
    } else {
        context.count("lease_lost", jobs);
        tracing::warn!(worker, jobs, "a batch outlived its lease; its jobs will be delivered again");
    }
    histogram!(WORKER_BATCH_SECONDS, "worker" => worker).record(began.elapsed().as_secs_f64());
    // Done for the next process that receives these jobs. Each failure was logged when it first happened.
    drop(context.attempts.flush_pending_removals().await);
}

/// Handles all jobs. Jobs that were never received before run together; from the first repeated one on, the
/// jobs of a group run one by one.
async fn handle(context: &Context, received: &[ReceivedJob], attempts: &BatchAttempts<'_>) {
    // Sorted by group: a repetition of a batch does the same things in the same order.
    let mut repeated: BTreeMap<&GroupId, Vec<&ReceivedJob>> = BTreeMap::new();
    let mut fresh: Vec<&ReceivedJob> = Vec::new();
    for job in received {
        let Delivery { group, receive_count, body, .. } = job.delivery();
        if is_in_bulk(body) {
            job.settle(JobOutcome::Wait(
                WaitCause::Bulk,
                "it is part of a bulk: live work comes first".into(),
            ));
            continue;
        }
        if *receive_count > 1 || repeated.contains_key(group) {
            repeated.entry(group).or_default().push(job);
        } else {
            fresh.push(job);
        }
    }
    if !fresh.is_empty() {
        run_together(context, &fresh).await;
    }
    // A group with a failed fresh job has no more work now.
    let failed: HashSet<&GroupId> =
        fresh.iter().filter(|job| !job.is_final()).map(|job| &job.delivery().group).collect();
    repeated.retain(|group, _| !failed.contains(group));
    let groups: Vec<_> = repeated.into_values().map(|jobs| run_one_by_one(context, jobs, attempts)).collect();
    stream::iter(groups).buffer_unordered(context.settings.suspects_at_once).collect::<()>().await;
}

/// Runs the jobs of one group from the first repeated one on, up to the first that fails or is set aside. The row of one
/// that is set aside is written after the batch, and decides whether a later one waits behind it.
async fn run_one_by_one(context: &Context, jobs: Vec<&ReceivedJob>, attempts: &BatchAttempts<'_>) {
    let mut is_behind_waiting = false;
    for job in jobs {
        if is_behind_waiting {
            job.settle(JobOutcome::Retry(JobRetry {
                reason: "the job before it was set aside in this batch".into(),
                after: Some(Duration::ZERO),
            }));
            return;
        }
        if job.delivery().receive_count > 1 {
            run_alone(context, job, attempts).await;
        } else {
            run_together(context, &[job]).await;
        }
        if !job.is_final() {
            return;
        }
        is_behind_waiting = matches!(job.outcome(), Some(JobOutcome::Wait(..)));
    }
}

async fn run_together(context: &Context, jobs: &[&ReceivedJob]) {
    if call(context, jobs).await {
        return;
    }
    // One of the jobs made the handler panic. Each job that was not settled before is retried immediately and
    // alone.
    for job in jobs {
        job.settle(JobOutcome::Retry(JobRetry {
            reason: "the handler panicked".into(),
            after: Some(Duration::ZERO),
        }));
    }
}

/// Runs a job that was received before: alone, so that a crash of its handler is counted.
async fn run_alone(context: &Context, job: &ReceivedJob, attempts: &BatchAttempts<'_>) {
    let message = &job.delivery().message_id;
    if let Err(outcome) = attempts.begin(job.delivery()).await {
        return job.settle(outcome);
    }
    let has_returned = watched::run(call(context, &[job]), attempts, message).await;
    if has_returned || job.outcome().is_some() {
        attempts.end(message).await;
    } else {
        job.settle(JobOutcome::retry("the handler panicked"));
        attempts.crash(message).await;
    }
}

/// Calls the worker; `false` if it panicked.
async fn call(context: &Context, jobs: &[&ReceivedJob]) -> bool {
    // Decoding may panic too.
    let work = async { context.worker.work(&Batch::decode(jobs)).await };
    let has_returned = AssertUnwindSafe(work).catch_unwind().await.is_ok();
    if !has_returned {
        context.count("panicked", jobs.len());
        tracing::error!(worker = context.worker.name(), jobs = jobs.len(), "the handler panicked");
    }
    has_returned
}
