//! Sends messages to SQS and evaluates its responses.

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

/// The type of a message attribute with text.
const TEXT: &str = "String";

/// Sends through one task per queue.
pub(super) struct SqsSender {
    client: Client,
    queue_urls: Arc<QueueUrls>,
    /// The senders of the tasks. The tasks hold no reference to this, so they end when it is dropped.
    tasks: Mutex<HashMap<QueueName, mpsc::Sender<Vec<WaitingSend>>>>,
}

impl SqsSender {
    pub(super) fn new(client: Client, queue_urls: Arc<QueueUrls>) -> Self {
        Self { client, queue_urls, tasks: Mutex::default() }
    }

    /// Returns one result per message, at the latest after the timeout of a send.
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
            // Messages that are not accepted in time are dropped, and their answers with them.
            drop(timeout_at(deadline, self.task(queue).send(call)).await);
        }
        let mut results = Vec::with_capacity(answers.len());
        for (queue, answered) in answers {
            results.push(match timeout_at(deadline, answered).await {
                Ok(Ok(result)) => result,
                Ok(Err(_)) | Err(_) => Err(self.queue_urls.get(queue.into()).timed_out()),
            });
        }
        results
    }

    /// The sender of a queue's task. The first message starts the task, because only then a runtime certainly
    /// exists. A task that ended with its runtime is started again.
    fn task(&self, queue: QueueName) -> mpsc::Sender<Vec<WaitingSend>> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        match tasks.get(&queue) {
            Some(task) if !task.is_closed() => task.clone(),
            Some(_) | None => {
                let task = coalesce::start_dispatcher(self.transport(queue));
                tasks.insert(queue, task.clone());
                task
            }
        }
    }

    fn transport(&self, queue: QueueName) -> BatchTransport {
        let (client, queue_url) = (self.client.clone(), Arc::clone(self.queue_urls.get(queue.into())));
        Box::new(move |entries| {
            let (client, queue_url) = (client.clone(), Arc::clone(&queue_url));
            Box::pin(async move { send_batch(&client, &queue_url, entries).await })
        })
    }
}

/// The form in which a message is sent.
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

/// Sends one batch with one call to SQS.
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
            let done = answer.successful().iter().map(|sent| sent.id());
            let failed = answer.failed().iter().map(|failed| (failed.id(), refusal(queue_url, failed)));
            let unreported = queue_url.unexpected("did not report the result for a message");
            batch_results(vec![Err(unreported); count], done, failed)
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

/// The results of a batch: `results`, except those that SQS reported. The id of an entry is its index.
pub(super) fn batch_results<'a>(
    mut results: BatchResult,
    done: impl Iterator<Item = &'a str>,
    failed: impl Iterator<Item = (&'a str, QueueError)>,
) -> BatchResult {
    for (id, result) in done.map(|id| (id, Ok(()))).chain(failed.map(|(id, error)| (id, Err(error)))) {
        if let Some(unreported) = id.parse::<usize>().ok().and_then(|index| results.get_mut(index)) {
            *unreported = result;
        }
    }
    results
}

/// The error of a message that SQS refused. Every refusal is retryable: a message that is larger than the
/// queue allows fits once the queue has the correct settings, and until then the caller must not drop it.
fn refusal(queue_url: &QueueUrl, failed: &BatchResultErrorEntry) -> QueueError {
    let message = failed.message().unwrap_or_default();
    // Only the text distinguishes the size from other invalid values: "Message must be shorter than 262144
    // bytes".
    let advice = if failed.code() == "InvalidParameterValue" && message.contains("shorter than") {
        " (the queue's size limit is lower than it should be: run `annalist provision`)"
    } else {
        ""
    };
    queue_url.unexpected(&format!("did not accept a message: {}: {message}{advice}", failed.code()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ports::queue::{DedupId, GroupId};

    fn outgoing(body: String) -> Outgoing {
        Outgoing {
            queue: QueueName::Events,
            group: GroupId::from_parts(&["g"]),
            dedup: DedupId::from_parts(&[b"id"]),
            body,
        }
    }

    #[test]
    fn the_size_limit_applies_to_the_encoded_message() {
        let largest = entry(outgoing("x".repeat(MAX_MESSAGE_BYTES))).unwrap();
        assert_eq!((largest.bytes, largest.escaped), (MAX_MESSAGE_BYTES, false));
        let bytes = MAX_MESSAGE_BYTES + 1;
        assert_eq!(entry(outgoing("x".repeat(bytes))), Err(QueueError::TooLarge { bytes }));
        // The encoding adds one character and the attribute.
        let escaped = "x".repeat(MAX_MESSAGE_BYTES - 27) + "\0";
        let bytes = escaped.len() + 1 + "annalist-body".len() + "String".len() + "escaped".len();
        assert!(escaped.len() < MAX_MESSAGE_BYTES && bytes > MAX_MESSAGE_BYTES);
        assert_eq!(entry(outgoing(escaped)), Err(QueueError::TooLarge { bytes }));
    }
}
