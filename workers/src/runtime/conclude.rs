//! Ends a batch: writes the rows of jobs in quarantine and aside, acks, backs off and releases jobs.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use metrics::gauge;
use ports::metrics::WORKER_BLOCKED_GROUPS;
use ports::queue::job::{Origin, Trial};
use ports::queue::waiting::WaitCause;
use ports::queue::{Delivery, MessageId, QueueError, Receipt};
use slack::ids::TeamId;

use super::context::Context;
use super::settle::{Settlement, split_batch};
use super::{JobOutcome, wake};
use crate::failure::PortError;
use crate::quarantine;
use crate::quarantine::aside::{self, Aside};

/// How often an ack is tried if the queue does not answer, before the messages are left to be delivered
/// again.
const ACK_TRIES: u32 = 3;

/// Writes the rows of jobs in quarantine and aside, then reports the outcome of each job to the queue.
pub(super) async fn conclude(context: &Context, mut jobs: Vec<(Delivery, JobOutcome)>) {
    let worker = context.worker.name();
    let mut failed = write_rows(context, &split_batch(&jobs)).await;
    // A job whose row could not be written stops its group, as a failure of the job itself would.
    for (delivery, outcome) in &mut jobs {
        if let Some(error) = failed.remove(&delivery.message_id) {
            *outcome = JobOutcome::retry(error);
        }
    }
    let settlement = split_batch(&jobs);
    for (delivery, reason) in &settlement.quarantined {
        if let Some(left_out) = context.quarantine_log.permit_line(context.ports.clock.now()) {
            tracing::warn!(worker, group = %delivery.group, message_id = %delivery.message_id, reason, left_out, "quarantined a job");
        }
        context.attempts.forget(delivery).await;
    }
    let others = settlement.aside.iter().filter(|job| job.cause != WaitCause::Bulk);
    for Aside { delivery, cause, reason } in others {
        if let Some(left_out) = context.quarantine_log.permit_line(context.ports.clock.now()) {
            tracing::warn!(worker, group = %delivery.group, message_id = %delivery.message_id, %cause, reason, left_out, "set a job aside");
        }
    }
    ack(context, settlement.finished.iter().map(|delivery| delivery.receipt.clone()).collect()).await;
    let settled_otherwise = settlement.quarantined.len() + settlement.aside.len();
    context.count("done", settlement.finished.len() - settled_otherwise);
    context.count("quarantined", settlement.quarantined.len());
    context.count("waits", settlement.aside.len());
    context.count("retry", settlement.backed_off.len());
    note_blocked_groups(context, &settlement);
    wake::pass(&context.ports, context.queue_ref().name, passed_trials(&jobs)).await;
    // Heads first: once the tail is visible, only an invisible head keeps it from being delivered.
    let mut entries = Vec::new();
    for (delivery, retry) in &settlement.backed_off {
        let wait = context.backoff.wait(delivery.receive_count, retry.after);
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(worker, group = %delivery.group, message_id = %delivery.message_id, attempts = delivery.receive_count,
            wait_ms, reason = retry.reason, "a job failed and will be tried again");
        entries.push((delivery.receipt.clone(), wait));
    }
    entries.extend(settlement.tail.iter().map(|delivery| (delivery.receipt.clone(), Duration::ZERO)));
    let released = context.ports.queue.change_visibility(context.queue_ref(), &entries).await;
    for error in released.into_iter().filter_map(Result::err) {
        tracing::warn!(worker, %error, "a job could not be given back; it comes back when its lease ends");
    }
}

/// Writes the rows of a batch's jobs in quarantine and aside; returns the jobs whose rows may not be durable.
async fn write_rows(context: &Context, settlement: &Settlement<'_>) -> HashMap<MessageId, PortError> {
    let (quarantined, queue) = (&settlement.quarantined, context.queue_ref());
    let written = quarantine::insert_all(&context.ports, queue, quarantined).await;
    let quarantined = quarantined.iter().zip(written).filter_map(|((delivery, _), written)| {
        Some((delivery.message_id.clone(), PortError::from(written.err()?)))
    });
    let longest = context.settings.longest_wait;
    let set_aside = aside::set_aside(&context.ports, queue, &settlement.aside, longest).await;
    let aside = settlement.aside.iter().zip(set_aside);
    let aside = aside.filter_map(|(job, written)| Some((job.delivery.message_id.clone(), written.err()?)));
    quarantined.chain(aside).collect()
}

/// The jobs of a batch that had waited aside, and wait no longer.
fn passed_trials(jobs: &[(Delivery, JobOutcome)]) -> Vec<(TeamId, Trial)> {
    let passed = |(delivery, outcome): &(Delivery, JobOutcome)| {
        matches!(outcome, JobOutcome::Done | JobOutcome::Quarantine(_)).then_some(())?;
        Some((aside::team_of_group(&delivery.group)?, Origin::of(&delivery.body)?.trial?))
    };
    jobs.iter().filter_map(passed).collect()
}

async fn ack(context: &Context, mut receipts: Vec<Receipt>) {
    for tries in 1..=ACK_TRIES {
        if receipts.is_empty() {
            return;
        }
        let results = context.ports.queue.ack(context.queue_ref(), &receipts).await;
        let lost = results.iter().filter(|result| matches!(result, Err(QueueError::LeaseLost))).count();
        // Harmless: they are delivered again and change nothing.
        context.count("lease_lost", lost);
        let unanswered = |result: &Result<(), QueueError>| matches!(result, Err(QueueError::Unavailable(_)));
        receipts = receipts
            .into_iter()
            .zip(&results)
            .filter_map(|(receipt, result)| unanswered(result).then_some(receipt))
            .collect();
        if !receipts.is_empty() && tries < ACK_TRIES {
            tokio::time::sleep(context.backoff.wait(tries, None)).await;
        }
    }
    if !receipts.is_empty() {
        tracing::warn!(
            worker = context.worker.name(),
            jobs = receipts.len(),
            "jobs are done but could not be acked"
        );
    }
}

fn note_blocked_groups(context: &Context, settlement: &Settlement<'_>) {
    let mut blocked = context.blocked.lock().unwrap_or_else(PoisonError::into_inner);
    for delivery in &settlement.finished {
        blocked.remove(&delivery.group);
    }
    for (delivery, _) in &settlement.backed_off {
        blocked.insert(delivery.group.clone());
    }
    #[expect(clippy::cast_precision_loss, reason = "a gauge")]
    gauge!(WORKER_BLOCKED_GROUPS, "worker" => context.worker.name()).set(blocked.len() as f64);
}
