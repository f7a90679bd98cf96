//! The last words on a batch: quarantine rows, acks, backoffs, releases.

use std::sync::PoisonError;
use std::time::Duration;

use metrics::gauge;
use ports::metrics::WORKER_BLOCKED_GROUPS;
use ports::queue::{Delivery, QueueError, Receipt};

use super::batch::Context;
use super::settle::Settlement;
use super::{Retry, attempts};
use crate::quarantine;

/// How often an ack that did not get through is tried before the messages are left to come back.
const ACK_TRIES: u32 = 3;

/// Writes quarantine rows, then tells the queue.
pub(super) async fn conclude(context: &Context, batch: &[Delivery], mut settlement: Settlement) {
    let worker = context.worker.name();
    let put_aside: Vec<(&Delivery, &str)> =
        settlement.quarantined.iter().map(|(place, reason)| (&batch[*place], reason.as_str())).collect();
    let written = quarantine::put_all(&context.ports, context.queue_ref(), &put_aside).await;
    let quarantined = std::mem::take(&mut settlement.quarantined);
    let mut put_aside = 0;
    for ((place, reason), written) in quarantined.into_iter().zip(written) {
        let delivery = &batch[place];
        // Its row is written, but something before it in its group could not be settled.
        if settlement.backed_off.iter().any(|(head, _)| *head < place && batch[*head].group == delivery.group)
        {
            settlement.tail.push(place);
            continue;
        }
        match written {
            Ok(()) => {
                if let Some(left_out) = context.put_aside_line.pass(context.ports.clock.now()) {
                    tracing::warn!(worker, group = %delivery.group, message_id = %delivery.message_id, reason, left_out, "put in quarantine");
                }
                if let Err(error) =
                    attempts::forget(&*context.ports.archive, context.queue_ref(), &delivery.message_id).await
                {
                    tracing::warn!(worker, message_id = %delivery.message_id, %error, "a mark stays uncleared");
                }
                settlement.done.push(place);
                put_aside += 1;
            }
            Err(error) => {
                hold_back(&mut settlement, batch, place, Retry { reason: error.to_string(), after: None })
            }
        }
    }
    settlement.done.sort_unstable();
    let acked: Vec<Receipt> = settlement.done.iter().map(|place| batch[*place].receipt.clone()).collect();
    ack(context, acked).await;
    context.count("done", settlement.done.len() - put_aside);
    context.count("quarantined", put_aside);
    context.count("retry", settlement.backed_off.len());
    note_blocked_groups(context, batch, &settlement);
    // Heads first: once the tail is visible, only an invisible head keeps it from being delivered.
    let mut entries = Vec::new();
    for (place, retry) in &settlement.backed_off {
        let delivery = &batch[*place];
        let wait = context.backoff.wait(delivery.receive_count, retry.after);
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(worker, group = %delivery.group, message_id = %delivery.message_id, attempts = delivery.receive_count,
            wait_ms, reason = retry.reason, "a job failed and will be tried again");
        entries.push((delivery.receipt.clone(), wait));
    }
    entries.extend(settlement.tail.iter().map(|place| (batch[*place].receipt.clone(), Duration::ZERO)));
    for error in failures(context.ports.queue.change_visibility(context.queue_ref(), &entries).await) {
        tracing::warn!(worker, %error, "a job could not be given back; it comes back when its lease ends");
    }
}

/// A job that cannot be settled after all stops its group, as a failure of the job itself would.
fn hold_back(settlement: &mut Settlement, batch: &[Delivery], place: usize, retry: Retry) {
    let behind = |other: &usize| *other > place && batch[*other].group == batch[place].group;
    settlement.tail.extend(settlement.done.iter().copied().filter(behind));
    settlement.done.retain(|other| !behind(other));
    settlement.tail.extend(settlement.backed_off.iter().map(|(other, _)| *other).filter(behind));
    settlement.backed_off.retain(|(other, _)| !behind(other));
    settlement.backed_off.push((place, retry));
}

async fn ack(context: &Context, mut receipts: Vec<Receipt>) {
    for tries in 1..=ACK_TRIES {
        if receipts.is_empty() {
            return;
        }
        let results = context.ports.queue.ack(context.queue_ref(), &receipts).await;
        let unanswered: Vec<Receipt> = receipts
            .iter()
            .zip(&results)
            .filter(|(_, result)| matches!(result, Err(QueueError::Unavailable(_))))
            .map(|(receipt, _)| receipt.clone())
            .collect();
        let lost = results.iter().filter(|result| matches!(result, Err(QueueError::LeaseLost))).count();
        if lost > 0 {
            // Harmless: they are delivered again and change nothing.
            context.count("lease_lost", lost);
        }
        receipts = unanswered;
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

fn failures(results: Vec<Result<(), QueueError>>) -> impl Iterator<Item = QueueError> {
    results.into_iter().filter_map(Result::err)
}

fn note_blocked_groups(context: &Context, batch: &[Delivery], settlement: &Settlement) {
    let mut blocked = context.blocked.lock().unwrap_or_else(PoisonError::into_inner);
    for place in &settlement.done {
        blocked.remove(&batch[*place].group);
    }
    for (place, _) in &settlement.backed_off {
        blocked.insert(batch[*place].group.clone());
    }
    #[expect(clippy::cast_precision_loss, reason = "a gauge")]
    gauge!(WORKER_BLOCKED_GROUPS, "worker" => context.worker.name()).set(blocked.len() as f64);
}
