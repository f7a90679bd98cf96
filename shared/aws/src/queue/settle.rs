//! Settling received messages: acks and changes of the visibility timeout, in batches.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
};
use tokio::task::JoinSet;

use super::pending::MAX_ENTRIES;
use super::queue_urls::QueueUrl;
use super::send::batch_results;
use super::{receipt, visibility};
use ports::queue::{BatchResult, QueueError, Receipt};

/// Maximum number of concurrent calls per batch of the caller: a worker's whole batch is acked within a few
/// round trips without using up the connections that its heartbeats need.
const MAX_AT_ONCE: usize = 8;

/// The action for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiptAction {
    /// Delete it: it is done.
    Ack,
    /// Keep it invisible for this long from now.
    Invisible(Duration),
}

/// A message of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SettleEntry {
    /// The index among the caller's entries.
    index: usize,
    handle: String,
    action: ReceiptAction,
}

/// Returns one result per entry. All entries must have the same kind of action.
pub(super) async fn settle_receipts(
    client: &Client,
    queue_url: &Arc<QueueUrl>,
    entries: impl Iterator<Item = (&Receipt, ReceiptAction)>,
) -> BatchResult {
    let mut results: BatchResult = Vec::new();
    let mut known = Vec::new();
    for (number, (receipt, action)) in entries.enumerate() {
        match receipt::receipt_handle(queue_url.queue, receipt) {
            Ok(handle) => {
                known.push(SettleEntry { index: number, handle: handle.to_owned(), action });
                results.push(Err(queue_url.timed_out()));
            }
            Err(error) => results.push(Err(error)),
        }
    }
    for round in rounds(known) {
        let mut calls = JoinSet::new();
        let mut batches = round.chunks(MAX_ENTRIES);
        loop {
            while calls.len() < MAX_AT_ONCE
                && let Some(batch) = batches.next()
            {
                let (client, queue_url, batch) = (client.clone(), Arc::clone(queue_url), batch.to_vec());
                calls.spawn(async move { call(&client, &queue_url, batch).await });
            }
            let Some(answered) = calls.join_next().await else { break };
            // The outcome of a call that panicked is unknown, and its results already say so.
            for (number, result) in answered.unwrap_or_default() {
                results[number] = result;
            }
        }
    }
    results
}

/// Splits entries into rounds of concurrent calls, each with a receipt at most once. A repeated receipt goes
/// into a later round, so that its actions are executed in order; SQS guarantees no order within a call.
fn rounds(entries: Vec<SettleEntry>) -> Vec<Vec<SettleEntry>> {
    let mut rounds: Vec<Vec<SettleEntry>> = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for entry in entries {
        let round = seen.entry(entry.handle.clone()).or_default();
        if rounds.len() == *round {
            rounds.push(Vec::new());
        }
        rounds[*round].push(entry);
        *round += 1;
    }
    rounds
}

/// Sends one call to SQS. Returns the results with the indexes of their entries.
async fn call(
    client: &Client,
    queue_url: &QueueUrl,
    batch: Vec<SettleEntry>,
) -> Vec<(usize, Result<(), QueueError>)> {
    let indexes: Vec<usize> = batch.iter().map(|entry| entry.index).collect();
    let results = match request(client, queue_url, batch).await {
        Ok((done, failed)) => {
            let done = done.iter().map(String::as_str);
            let failed = failed.iter().map(|failed| (failed.id(), refusal(queue_url, failed)));
            let unreported = queue_url.unexpected("did not report the result for a receipt");
            batch_results(vec![Err(unreported); indexes.len()], done, failed)
        }
        Err(error) => vec![Err(error); indexes.len()],
    };
    indexes.into_iter().zip(results).collect()
}

/// Sends the request. Returns the ids of the entries that are done, and the entries that failed.
async fn request(
    client: &Client,
    queue_url: &QueueUrl,
    batch: Vec<SettleEntry>,
) -> Result<(Vec<String>, Vec<BatchResultErrorEntry>), QueueError> {
    let url = queue_url.url(client).await?;
    let mut acks = Vec::new();
    let mut changes = Vec::new();
    for (number, SettleEntry { handle, action, .. }) in batch.into_iter().enumerate() {
        match action {
            ReceiptAction::Ack => {
                let entry =
                    DeleteMessageBatchRequestEntry::builder().id(number.to_string()).receipt_handle(handle);
                acks.push(entry.build().map_err(incomplete)?);
            }
            ReceiptAction::Invisible(timeout) => {
                let entry = ChangeMessageVisibilityBatchRequestEntry::builder()
                    .id(number.to_string())
                    .receipt_handle(handle)
                    .visibility_timeout(visibility(timeout));
                changes.push(entry.build().map_err(incomplete)?);
            }
        }
    }
    if changes.is_empty() {
        let answer = client.delete_message_batch().queue_url(url).set_entries(Some(acks)).send().await;
        let answer = answer.map_err(|error| queue_url.unavailable(&error))?;
        Ok((answer.successful.into_iter().map(|entry| entry.id).collect(), answer.failed))
    } else {
        let answer =
            client.change_message_visibility_batch().queue_url(url).set_entries(Some(changes)).send().await;
        let answer = answer.map_err(|error| queue_url.unavailable(&error))?;
        Ok((answer.successful.into_iter().map(|entry| entry.id).collect(), answer.failed))
    }
}

fn incomplete(error: BuildError) -> QueueError {
    QueueError::Unavailable(error.to_string())
}

/// The error of an entry that SQS refused.
fn refusal(queue_url: &QueueUrl, failed: &BatchResultErrorEntry) -> QueueError {
    // Some codes have the service's namespace: `AWS.SimpleQueueService.MessageNotInflight`.
    let code = failed.code().rsplit('.').next().unwrap_or_default();
    // An emulator reports the name of its exception instead: `InvalidParameterValueException`.
    let code = code.strip_suffix("Exception").unwrap_or(code);
    let message = failed.message().unwrap_or_default();
    // A FIFO receipt is "expired" when its lease has ended, and a lease cannot be extended beyond 12 hours in
    // total; both are reported as invalid values of the only two parameters.
    // <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html>
    let ended = match code {
        // Regardless of `sender_fault`: such a receipt is no longer valid.
        "ReceiptHandleIsInvalid" | "InvalidReceiptHandle" | "MessageNotInflight" => true,
        "InvalidParameterValue" => failed.sender_fault() || message.contains("parameter ReceiptHandle"),
        _ => false,
    };
    if ended {
        return QueueError::LeaseLost;
    }
    queue_url.unexpected(&format!("did not settle a message: {code}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(handles: &[&str]) -> Vec<SettleEntry> {
        let entry = |(index, handle): (usize, &&str)| SettleEntry {
            index,
            handle: (*handle).to_owned(),
            action: ReceiptAction::Ack,
        };
        handles.iter().enumerate().map(entry).collect()
    }

    #[test]
    fn each_round_has_a_receipt_once_and_its_actions_stay_in_order() {
        let rounds = rounds(entries(&["a", "b", "a", "c", "a", "b"]));
        let indexes: Vec<Vec<usize>> =
            rounds.iter().map(|round| round.iter().map(|entry| entry.index).collect()).collect();
        assert_eq!(indexes, [vec![0, 1, 3], vec![2, 5], vec![4]]);
    }
}
