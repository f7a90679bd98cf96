//! Sending: what becomes of a message on its way to SQS, and what SQS says to it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{BatchResultErrorEntry, MessageAttributeValue, SendMessageBatchRequestEntry};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::coalesce::{self, BatchTransport};
use super::pending::{SendEntry, WaitingSend};
use super::queue_urls::{QueueUrl, QueueUrls};
use super::text;
use crate::policy;
use ports::queue::{BatchResult, MAX_MESSAGE_BYTES, Outgoing, QueueError, QueueName};

/// The type of a message attribute that holds text.
const TEXT: &str = "String";

/// Sends through one task per queue.
pub(super) struct SqsSender {
    client: Client,
    queue_urls: Arc<QueueUrls>,
    /// The ways into the tasks. The tasks know nothing of this, so they end when it goes.
    tasks: Mutex<HashMap<QueueName, mpsc::Sender<Vec<WaitingSend>>>>,
}

impl SqsSender {
    pub(super) fn new(client: Client, queue_urls: Arc<QueueUrls>) -> Self {
        Self { client, queue_urls, tasks: Mutex::default() }
    }

    /// One result per message, at the latest after the time a send may take.
    pub(super) async fn send(&self, messages: Vec<Outgoing>) -> BatchResult {
        let since = Instant::now();
        let deadline = since + policy::SEND.operation;
        let mut calls: BTreeMap<QueueName, Vec<WaitingSend>> = BTreeMap::new();
        let mut answers = Vec::with_capacity(messages.len());
        for message in messages {
            let queue = message.queue;
            let (answer, answered) = oneshot::channel();
            match entry(message) {
                Ok(entry) => {
                    calls.entry(queue).or_default().push(WaitingSend { entry, since, deadline, answer })
                }
                // The caller is still waiting.
                Err(refused) => drop(answer.send(Err(refused))),
            }
            answers.push((queue, answered));
        }
        for (queue, call) in calls {
            // What is not taken in is dropped, and its answer with it.
            drop(timeout_at(deadline, self.task(queue).send(call)).await);
        }
        let mut results = Vec::with_capacity(answers.len());
        for (queue, answered) in answers {
            results.push(match timeout_at(deadline, answered).await {
                Ok(Ok(result)) => result,
                Ok(Err(_)) | Err(_) => Err(self.queue_urls.of(queue.into()).late()),
            });
        }
        results
    }

    /// The way into a queue's task, which is started by its first message: only then is there a runtime for sure. One
    /// that is gone, with the runtime it ran in, is started again.
    fn task(&self, queue: QueueName) -> mpsc::Sender<Vec<WaitingSend>> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        match tasks.get(&queue) {
            Some(task) if !task.is_closed() => task.clone(),
            Some(_) | None => {
                let task = coalesce::start(self.transport(queue));
                tasks.insert(queue, task.clone());
                task
            }
        }
    }

    fn transport(&self, queue: QueueName) -> BatchTransport {
        let (client, queue_url) = (self.client.clone(), Arc::clone(self.queue_urls.of(queue.into())));
        Box::new(move |entries| {
            let (client, queue_url) = (client.clone(), Arc::clone(&queue_url));
            Box::pin(async move { send_batch(&client, &queue_url, entries).await })
        })
    }
}

/// The form in which a message travels.
fn entry(message: Outgoing) -> Result<SendEntry, QueueError> {
    let dedup = message.dedup.to_hex();
    let entry = match text::escape(&message.body) {
        None => {
            let bytes = message.body.len();
            SendEntry { group: message.group, dedup, body: message.body, escaped: false, bytes }
        }
        Some(body) => {
            // <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html>:
            // an attribute's name, type and value count.
            let bytes = body.len() + text::FORM.len() + TEXT.len() + text::ESCAPED.len();
            SendEntry { group: message.group, dedup, body, escaped: true, bytes }
        }
    };
    if entry.bytes > MAX_MESSAGE_BYTES {
        return Err(QueueError::TooLarge { bytes: entry.bytes });
    }
    Ok(entry)
}

/// One call to SQS.
async fn send_batch(client: &Client, queue_url: &QueueUrl, entries: Vec<SendEntry>) -> BatchResult {
    let count = entries.len();
    let all = |error: QueueError| vec![Err(error); count];
    let url = match queue_url.url(client).await {
        Ok(url) => url,
        Err(error) => return all(error),
    };
    let entries = entries.into_iter().enumerate().map(|(number, entry)| request_entry(number, entry));
    let entries: Result<Vec<_>, QueueError> = entries.collect();
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => return all(error),
    };
    match client.send_message_batch().queue_url(url).set_entries(Some(entries)).send().await {
        Ok(answer) => {
            let mut results = all(queue_url.odd("did not say what became of a message"));
            for sent in answer.successful() {
                if let Some(result) = result_of(&mut results, sent.id()) {
                    *result = Ok(());
                }
            }
            for failed in answer.failed() {
                if let Some(result) = result_of(&mut results, failed.id()) {
                    *result = Err(refusal(queue_url, failed));
                }
            }
            results
        }
        Err(error) => all(queue_url.unavailable(&error)),
    }
}

fn request_entry(number: usize, entry: SendEntry) -> Result<SendMessageBatchRequestEntry, QueueError> {
    let incomplete = |error: aws_sdk_sqs::error::BuildError| QueueError::Unavailable(error.to_string());
    let mut request = SendMessageBatchRequestEntry::builder()
        .id(number.to_string())
        .message_body(entry.body)
        .message_group_id(entry.group.as_str())
        .message_deduplication_id(entry.dedup);
    if entry.escaped {
        let form = MessageAttributeValue::builder().data_type(TEXT).string_value(text::ESCAPED);
        request = request.message_attributes(text::FORM, form.build().map_err(incomplete)?);
    }
    request.build().map_err(incomplete)
}

/// The index of an entry's result: entries are numbered as they are in the batch.
pub(super) fn result_of<'a>(
    results: &'a mut BatchResult,
    id: &str,
) -> Option<&'a mut Result<(), QueueError>> {
    results.get_mut(id.parse::<usize>().ok()?)
}

/// Why SQS refused a message. Every refusal is retryable: a message that is larger than a queue allows
/// fits once the queue has its proper settings, and until then the caller must not drop it.
fn refusal(queue_url: &QueueUrl, failed: &BatchResultErrorEntry) -> QueueError {
    let message = failed.message().unwrap_or_default();
    // Only the text tells the size from the other invalid values: "Message must be shorter than 262144 bytes".
    let advice = if failed.code() == "InvalidParameterValue" && message.contains("shorter than") {
        " (the queue takes smaller messages than it should: run `annalist provision`)"
    } else {
        ""
    };
    queue_url.odd(&format!("did not take a message: {}: {message}{advice}", failed.code()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ports::queue::{DedupId, GroupId};

    fn outgoing(body: String) -> Outgoing {
        Outgoing { queue: QueueName::Events, group: GroupId::of(&["g"]), dedup: DedupId::of(&[b"id"]), body }
    }

    #[test]
    fn the_size_of_what_travels_counts() {
        let largest = entry(outgoing("x".repeat(MAX_MESSAGE_BYTES))).unwrap();
        assert_eq!((largest.bytes, largest.escaped), (MAX_MESSAGE_BYTES, false));
        let bytes = MAX_MESSAGE_BYTES + 1;
        assert_eq!(entry(outgoing("x".repeat(bytes))), Err(QueueError::TooLarge { bytes }));
        // One character more on the way, and the attribute.
        let escaped = "x".repeat(MAX_MESSAGE_BYTES - 27) + "\0";
        let bytes = escaped.len() + 1 + "annalist-body".len() + "String".len() + "escaped".len();
        assert!(escaped.len() < MAX_MESSAGE_BYTES && bytes > MAX_MESSAGE_BYTES);
        assert_eq!(entry(outgoing(escaped)), Err(QueueError::TooLarge { bytes }));
    }
}
