//! One received batch, from its first job to the last word to the queue.

use std::collections::{BTreeMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt};
use metrics::{counter, histogram};
use ports::metrics::{WORKER_AGE, WORKER_BATCH_SECONDS, WORKER_JOBS, WORKER_RECEIVES};
use ports::queue::{Delivery, GroupId, MessageId, QueueRef};
use process::telemetry::seldom::Seldom;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::attempts::{self, Mark, Marked};
use super::backoff::Backoff;
use super::conclude::conclude;
use super::lease::Lease;
use super::owed::Owed;
use super::settle::settle;
use super::{Outcome, Ports, Retry, Settings, Worker};

/// Everything a batch needs; shared by the batches of one worker.
pub(super) struct Context {
    pub(super) worker: Arc<dyn Worker>,
    pub(super) ports: Ports,
    pub(super) settings: Settings,
    pub(super) backoff: Backoff,
    pub(super) blocked: Mutex<HashSet<GroupId>>,
    pub(super) owed: Owed,
    /// Whoever can sign events can fill the quarantine.
    pub(super) put_aside_line: Seldom,
    /// Has no permits, and is closed when there is no more time: what is not done by then is given back. It wakes those
    /// who wait in their order, where a `watch` would pick at random.
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

/// The marks of jobs that are running alone.
type Running = Mutex<BTreeMap<MessageId, Mark>>;

/// Runs a batch to its end.
pub(super) async fn run(context: &Context, batch: Vec<Delivery>) {
    let began = Instant::now();
    let worker = context.worker.name();
    let attempts = histogram!(WORKER_RECEIVES, "worker" => worker);
    batch.iter().for_each(|delivery| attempts.record(f64::from(delivery.receive_count)));
    // A message that does not say when it was sent has the beginning of time.
    let sent_at = batch.iter().map(|delivery| delivery.sent_at).filter(|sent_at| sent_at.0 > 0);
    if let Some(oldest) = sent_at.min() {
        let age = context.ports.clock.now().since(oldest);
        histogram!(WORKER_AGE, "worker" => worker).record(age.as_secs_f64());
    }
    let receipts = batch.iter().map(|delivery| delivery.receipt.clone()).collect();
    let lease = Lease::keep(
        Arc::clone(&context.ports.queue),
        context.queue_ref(),
        receipts,
        context.settings.visibility_timeout,
        worker,
    );
    let running = Running::default();
    let outcomes = Mutex::new(vec![Outcome::retry("there was no time left"); batch.len()]);
    let in_time = tokio::select! {
        // Cut before it began, a batch does not begin.
        biased;
        Err(_) = context.cut.acquire() => true,
        // Dropping the handler is what keeps it from writing for a lease that somebody else may have by now.
        () = lease.ended() => false,
        () = handle(context, &batch, &running, &outcomes) => true,
    };
    let held = lease.stop().await && in_time;
    // Whoever was stopped has not crashed; whoever came to an end has taken its mark back.
    let stopped = std::mem::take(&mut *lock(&running));
    for mark in stopped.into_values() {
        clear(context, mark).await;
    }
    if held {
        let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
        conclude(context, &batch, settle(&batch, &outcomes)).await;
    } else {
        context.count("lease_lost", batch.len());
        tracing::warn!(
            worker,
            jobs = batch.len(),
            "a batch outlived its lease; its jobs will be delivered again"
        );
    }
    histogram!(WORKER_BATCH_SECONDS, "worker" => worker).record(began.elapsed().as_secs_f64());
    // For whoever gets those jobs next, which may be another process. Each failure was said when it happened first.
    drop(context.owed.repay(&*context.ports.archive).await);
}

fn lock(running: &Running) -> MutexGuard<'_, BTreeMap<MessageId, Mark>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What became of each job so far: of those that were not reached in time, nothing.
type Outcomes = Mutex<Vec<Outcome>>;

fn note(outcomes: &Outcomes, settled: impl IntoIterator<Item = (usize, Outcome)>) {
    let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
    for (place, outcome) in settled {
        outcomes[place] = outcome;
    }
}

/// Does all jobs. Those that were never received before run together; from the first repeated one on, a group's jobs run
/// one by one.
async fn handle(context: &Context, batch: &[Delivery], running: &Running, outcomes: &Outcomes) {
    // In the order of their names: a batch does the same things in the same order whenever it is repeated.
    let mut suspects: BTreeMap<&GroupId, Vec<usize>> = BTreeMap::new();
    let mut fresh: Vec<usize> = Vec::new();
    for (place, delivery) in batch.iter().enumerate() {
        if delivery.receive_count > 1 || suspects.contains_key(&delivery.group) {
            suspects.entry(&delivery.group).or_default().push(place);
        } else {
            fresh.push(place);
        }
    }
    if suspects.is_empty() {
        // The common case: no copies.
        return note(outcomes, together(context, batch).await.into_iter().enumerate());
    }
    let mut failed: HashSet<&GroupId> = HashSet::new();
    let jobs: Vec<Delivery> = fresh.iter().map(|place| batch[*place].clone()).collect();
    if !jobs.is_empty() {
        let done = together(context, &jobs).await;
        // A group whose fresh jobs failed has nothing more to do now.
        for (place, outcome) in fresh.iter().zip(&done) {
            if matches!(outcome, Outcome::Retry(_)) {
                failed.insert(&batch[*place].group);
            }
        }
        note(outcomes, fresh.into_iter().zip(done));
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (group, places) in suspects {
        if !failed.contains(group) {
            groups.push(places);
        }
    }
    let one_by_one = groups.into_iter().map(|places| one_by_one(context, batch, places, running, outcomes));
    stream::iter(one_by_one).buffer_unordered(context.settings.suspects_at_once).collect::<()>().await;
}

/// The jobs of one group from the first repeated one on, up to the first that fails.
async fn one_by_one(
    context: &Context,
    batch: &[Delivery],
    places: Vec<usize>,
    running: &Running,
    outcomes: &Outcomes,
) {
    for place in places {
        let outcome = alone(context, &batch[place], running).await;
        let stop = matches!(outcome, Outcome::Retry(_));
        note(outcomes, [(place, outcome)]);
        if stop {
            return;
        }
    }
}

async fn together(context: &Context, jobs: &[Delivery]) -> Vec<Outcome> {
    match guarded(context, jobs).await {
        Some(outcomes) => outcomes,
        // One of them did it. Each comes back at once, and alone.
        None => jobs
            .iter()
            .map(|_| {
                Outcome::Retry(Retry { reason: "the handler panicked".into(), after: Some(Duration::ZERO) })
            })
            .collect(),
    }
}

/// A job that was received before: it runs alone, and a crash of it is counted.
async fn alone(context: &Context, job: &Delivery, running: &Running) -> Outcome {
    if job.receive_count <= 1 {
        return together(context, std::slice::from_ref(job))
            .await
            .pop()
            .unwrap_or_else(|| Outcome::retry("no outcome"));
    }
    let archive = &*context.ports.archive;
    // Nobody is judged by marks that are owed.
    if let Err(error) = context.owed.repay(archive).await {
        return Outcome::retry(error);
    }
    let max_crashes = context.settings.max_crashes;
    let mark = match attempts::mark(archive, context.queue_ref(), &job.message_id, max_crashes).await {
        Ok(Marked::Run(mark)) => mark,
        // Whoever still has it finds its lease ended within the visibility timeout: it stops, and says that it lives.
        Ok(Marked::Wait) => {
            return Outcome::Retry(Retry {
                reason: "its last handler may still be at work".into(),
                after: Some(context.settings.visibility_timeout),
            });
        }
        Ok(Marked::Poison(crashes)) => {
            return Outcome::Quarantine(format!("it crashed its handler {crashes} times"));
        }
        Err(error) => return Outcome::retry(error),
    };
    // Noted outside this future: where the lease ends first, it is dropped, and that is no crash.
    lock(running).insert(job.message_id.clone(), mark.clone());
    let outcomes = guarded(context, std::slice::from_ref(job)).await;
    if outcomes.is_some() {
        clear(context, mark.clone()).await;
    }
    lock(running).remove(&job.message_id);
    match outcomes {
        Some(mut outcomes) => outcomes.pop().unwrap_or_else(|| Outcome::retry("no outcome")),
        None => {
            if let Err(error) = attempts::crashed(archive, &mark).await {
                tracing::warn!(worker = context.worker.name(), %error, "nobody knows yet that a crashed handler is gone");
            }
            Outcome::retry("the handler panicked")
        }
    }
}

async fn clear(context: &Context, mark: Mark) {
    if let Err(error) = context.owed.clear(&*context.ports.archive, mark).await {
        tracing::warn!(worker = context.worker.name(), %error, "a mark is to be taken back later");
    }
}

/// Calls the worker; `None` where it panicked or did not account for every job.
async fn guarded(context: &Context, jobs: &[Delivery]) -> Option<Vec<Outcome>> {
    let handled = AssertUnwindSafe(context.worker.handle(jobs)).catch_unwind().await;
    match handled {
        Ok(outcomes) if outcomes.len() == jobs.len() => Some(outcomes),
        Ok(_) | Err(_) => {
            context.count("panicked", jobs.len());
            tracing::error!(worker = context.worker.name(), jobs = jobs.len(), "the handler panicked");
            None
        }
    }
}
