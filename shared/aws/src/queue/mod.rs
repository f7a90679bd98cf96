//! The queue port on SQS FIFO.
//!
//! * [`send`]: sends messages; [`coalesce`] and [`pending`] combine single sends into batches; [`text`]
//!   encodes any text in the characters that SQS accepts.
//! * [`receive`], [`settle`]: receive messages, and ack them or change their visibility timeout; [`receipt`]:
//!   the receipt of a delivery. [`lambda_batch`]: converts the messages of a Lambda invocation into deliveries.
//! * [`queue_urls`]: the URL of each queue.

mod coalesce;
pub(super) mod lambda_batch;
mod pending;
mod queue_urls;
mod receipt;
mod receive;
mod send;
mod settle;
mod text;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;

use crate::{Aws, policy};
use ports::queue::{
    BatchResult, Delivery, Depth, Outgoing, Queue, QueueError, QueueName, QueueRef, Receipt, ReceiveRequest,
};
use queue_urls::QueueUrls;
use send::SqsSender;
use settle::{ReceiptAction, settle_receipts};

/// The error of an SQS call.
type CallError<E> = SdkError<E, HttpResponse>;

/// How long the counts may lag behind: AWS says they become consistent about a minute after the last send.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html>
const DEPTH_LAG: Duration = Duration::from_secs(60);

/// The longest visibility timeout of SQS: twelve hours.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>
const MAX_VISIBILITY: Duration = Duration::from_secs(43_200);

/// The counts of waiting, delayed and in-flight messages.
const COUNTS: [QueueAttributeName; 3] = [
    QueueAttributeName::ApproximateNumberOfMessages,
    QueueAttributeName::ApproximateNumberOfMessagesDelayed,
    QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
];

/// The queue port on SQS FIFO.
pub(super) struct SqsQueue {
    queue_urls: Arc<QueueUrls>,
    sender: SqsSender,
    sends: Client,
    receives: Client,
    settles: Client,
}

impl SqsQueue {
    /// Sends no request to SQS yet.
    pub(super) fn new(aws: &Aws) -> Self {
        let queue_urls = Arc::new(QueueUrls::new(aws));
        let sends = policy::sqs(&aws.sdk, policy::SEND);
        Self {
            sender: SqsSender::new(sends.clone(), Arc::clone(&queue_urls)),
            queue_urls,
            sends,
            receives: policy::sqs(&aws.sdk, policy::RECEIVE),
            settles: policy::sqs(&aws.sdk, policy::SETTLE),
        }
    }
}

#[async_trait]
impl Queue for SqsQueue {
    async fn send(&self, messages: Vec<Outgoing>) -> BatchResult {
        self.sender.send(messages).await
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, QueueError> {
        receive::receive(&self.receives, self.queue_urls.get(request.queue), request).await
    }

    async fn change_visibility(&self, queue: QueueRef, entries: &[(Receipt, Duration)]) -> BatchResult {
        let entries = entries.iter().map(|(receipt, timeout)| (receipt, ReceiptAction::Invisible(*timeout)));
        settle_receipts(&self.settles, self.queue_urls.get(queue), entries).await
    }

    async fn ack(&self, queue: QueueRef, receipts: &[Receipt]) -> BatchResult {
        let entries = receipts.iter().map(|receipt| (receipt, ReceiptAction::Ack));
        settle_receipts(&self.settles, self.queue_urls.get(queue), entries).await
    }

    async fn depth(&self, queue: QueueRef) -> Result<Depth, QueueError> {
        let queue_url = self.queue_urls.get(queue);
        let url = queue_url.url(&self.settles).await?;
        let request =
            self.settles.get_queue_attributes().queue_url(url).set_attribute_names(Some(COUNTS.into()));
        let answer = request.send().await.map_err(|error| queue_url.unavailable(&error))?;
        let attributes = answer.attributes.unwrap_or_default();
        let [waiting, delayed, in_flight] =
            COUNTS.map(|count| attributes.get(&count).and_then(|number| number.parse().ok()));
        let (Some(waiting), Some(delayed), Some(in_flight)) = (waiting, delayed, in_flight) else {
            // Counted as zero, it would make a busy queue look idle.
            return Err(queue_url.unexpected("did not report the number of messages"));
        };
        Ok(Depth { waiting, delayed, in_flight, oldest_age_s: None })
    }

    fn depth_lag(&self) -> Duration {
        DEPTH_LAG
    }

    async fn ready(&self) -> Result<(), QueueError> {
        // Not from the cache: a known URL does not show that the queue is available now.
        self.queue_urls.get(QueueName::Events.into()).request_url(&self.sends).await.map(|_| ())
    }
}

/// Whole seconds, rounded up: a lease must not end before its holder thinks it does.
fn seconds(duration: Duration, max: Duration) -> u64 {
    let duration = duration.min(max);
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

/// A visibility timeout in the seconds that SQS accepts.
fn visibility(timeout: Duration) -> i32 {
    i32::try_from(seconds(timeout, MAX_VISIBILITY)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_rounded_up_to_whole_seconds_and_bounded() {
        for (timeout, expected_s) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_secs(30), 30),
            (Duration::from_millis(30_001), 31),
            (Duration::from_secs(43_201), 43_200),
            (Duration::MAX, 43_200),
        ] {
            assert_eq!(visibility(timeout), expected_s, "{timeout:?}");
        }
        assert_eq!(seconds(Duration::MAX, Duration::MAX), u64::MAX);
    }
}
