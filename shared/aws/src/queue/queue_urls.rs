//! The URL of each queue.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_sqs::Client;
use tokio::sync::OnceCell;

use crate::Aws;
use ports::queue::{QueueError, QueueRef};
use s3::fault::CallSubject;

/// One SQS queue, and its URL once it is known.
#[derive(Debug)]
pub(super) struct QueueUrl {
    pub(super) queue: QueueRef,
    name: String,
    subject: CallSubject,
    /// Requested once: it contains the account number and depends only on the name. Failures are not cached,
    /// so a queue that is created later is found.
    url: OnceCell<String>,
}

impl QueueUrl {
    /// Returns the queue's URL, from SQS on first use.
    pub(super) async fn url(&self, client: &Client) -> Result<&str, QueueError> {
        self.url.get_or_try_init(|| self.request_url(client)).await.map(String::as_str)
    }

    /// Requests the queue's URL from SQS. This needs only the permission that every user of the queue has
    /// anyway, and succeeds only if the queue exists and the credentials are valid.
    pub(super) async fn request_url(&self, client: &Client) -> Result<String, QueueError> {
        let answer = client.get_queue_url().queue_name(&self.name).send().await;
        match answer {
            Ok(found) => found.queue_url.ok_or_else(|| self.unexpected("returned no URL")),
            Err(error) => Err(self.unavailable(&error)),
        }
    }

    pub(super) fn unavailable<E>(&self, error: &super::CallError<E>) -> QueueError
    where
        E: aws_smithy_types::error::metadata::ProvideErrorMetadata + std::error::Error + 'static,
    {
        QueueError::Unavailable(self.subject.explain(error))
    }

    /// The error of a call without a response in time.
    pub(super) fn timed_out(&self) -> QueueError {
        QueueError::Unavailable(self.subject.timed_out())
    }

    /// The error of a response that violates SQS's contract.
    pub(super) fn unexpected(&self, what: &str) -> QueueError {
        QueueError::Unavailable(format!("SQS {what} (queue {})", self.name))
    }
}

/// The URLs of all queues of the topology.
#[derive(Debug)]
pub(super) struct QueueUrls(HashMap<QueueRef, Arc<QueueUrl>>);

impl QueueUrls {
    pub(super) fn new(aws: &Aws) -> Self {
        let queue_url = |queue| {
            let name = aws.names().queue(queue);
            let subject = aws.queue_subject(&name);
            (queue, Arc::new(QueueUrl { queue, name, subject, url: OnceCell::new() }))
        };
        Self(QueueRef::all().map(queue_url).collect())
    }

    pub(super) fn get(&self, queue: QueueRef) -> &Arc<QueueUrl> {
        // Every queue is in the topology; a test there ensures that.
        &self.0[&queue]
    }
}
