//! An event source mapping: receives messages, invokes a function with them, and deletes those not reported
//! as failed.
//! <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html>

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName};
use ports::queue::QueueRef;
use ports::workers::WorkerSpec;
use serde_json::Value;

use super::{RunningFunction, payloads};
use crate::harness::environment::AwsInstallation;
use crate::harness::stack::Stack;

/// The maximum batch size for a FIFO queue.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-parameters.html>
const BATCH: i32 = 10;

/// An event source mapping of one queue.
pub struct Poller {
    client: Client,
    url: String,
    arn: String,
    function_timeout: Duration,
}

/// The result of a batch.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PolledBatch {
    /// The number of messages in the batch.
    pub received: usize,
    /// The ids of the failed messages, which will be received again, in the order of the report.
    pub failed: Vec<String>,
}

impl Poller {
    /// A mapping of this queue of an installation.
    ///
    /// # Panics
    /// If there is no such queue.
    pub async fn for_queue(installation: &AwsInstallation, queue: impl Into<QueueRef>) -> Self {
        let queue = queue.into();
        let client = Stack::shared().sqs().await;
        let name = installation.aws.names().queue(queue);
        let found = client.get_queue_url().queue_name(&name).send().await.expect("the queue exists");
        let url = found.queue_url.expect("it has an address");
        let arn = format!("arn:aws:sqs:{}:000000000000:{name}", installation.aws.region());
        let worker = WorkerSpec::for_queue(queue.name);
        Self { client, url, arn, function_timeout: worker.timeout }
    }

    /// Receives one batch and invokes the function with it, unless the batch is empty.
    ///
    /// # Panics
    /// If the function reports a message that was not in its batch, or the queue does not respond.
    pub async fn poll_once(&self, function: &RunningFunction) -> PolledBatch {
        let messages = self.receive().await;
        if messages.is_empty() {
            return PolledBatch::default();
        }
        let answer = function.invoke(&payloads::sqs_event(&self.arn, &messages), self.function_timeout).await;
        let failed = match answer {
            Ok(answer) => reported(&answer),
            // An error fails the whole batch.
            Err(_) => messages.iter().map(|message| id(message).to_owned()).collect(),
        };
        let ids: BTreeSet<&str> = messages.iter().map(id).collect();
        for failed in &failed {
            assert!(
                ids.contains(failed.as_str()),
                "{failed} was not in the batch: Lambda would retry the whole batch"
            );
        }
        let done = messages.iter().filter(|message| failed.iter().all(|failed| failed != id(message)));
        self.delete(done).await;
        PolledBatch { received: messages.len(), failed }
    }

    /// Polls until the queue returns no more messages.
    ///
    /// # Panics
    /// As [`Poller::poll_once`].
    pub async fn poll_until_empty(&self, function: &RunningFunction) -> Vec<PolledBatch> {
        let mut all = Vec::new();
        loop {
            let handled = self.poll_once(function).await;
            if handled.received == 0 {
                return all;
            }
            all.push(handled);
        }
    }

    /// Receives the available messages, with all attributes that Lambda passes on.
    ///
    /// # Panics
    /// If the queue does not respond.
    pub async fn receive(&self) -> Vec<Message> {
        let receive = self
            .client
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(BATCH)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All");
        receive.send().await.expect("the queue answers").messages.unwrap_or_default()
    }

    async fn delete<'a>(&self, messages: impl Iterator<Item = &'a Message>) {
        let entries: Vec<_> = messages
            .enumerate()
            .map(|(index, message)| {
                let entry = DeleteMessageBatchRequestEntry::builder().id(index.to_string());
                entry
                    .receipt_handle(message.receipt_handle().unwrap_or_default())
                    .build()
                    .expect("it is complete")
            })
            .collect();
        if !entries.is_empty() {
            let delete = self.client.delete_message_batch().queue_url(&self.url).set_entries(Some(entries));
            delete.send().await.expect("the queue answers");
        }
    }
}

fn id(message: &Message) -> &str {
    message.message_id().expect("every message has an id")
}

/// The ids in a report. Panics on a report that Lambda cannot parse, for which Lambda would retry the whole
/// batch.
fn reported(answer: &Value) -> Vec<String> {
    let failures =
        answer["batchItemFailures"].as_array().unwrap_or_else(|| panic!("{answer} is not a report"));
    let ids = failures.iter().map(|failure| failure["itemIdentifier"].as_str().filter(|id| !id.is_empty()));
    ids.map(|id| id.unwrap_or_else(|| panic!("{answer} has a failure without an id")).to_owned()).collect()
}
