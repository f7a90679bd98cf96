//! The URL of each queue.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_sqs::Client;
use tokio::sync::OnceCell;

use crate::Aws;
use crate::fault::CallSubject;
use ports::queue::topology::QUEUES;
use ports::queue::{QueueError, QueueRef};

/// One queue of SQS, and its URL once it is known.
#[derive(Debug)]
pub(super) struct QueueUrl {
    pub(super) queue: QueueRef,
    name: String,
    subject: CallSubject,
    /// Asked for once: it holds the account's number, and does not change as long as the name is the same. A failure is
    /// not kept, so a queue that is made later is found.
    url: OnceCell<String>,
}

impl QueueUrl {
    /// The queue's address.
    pub(super) async fn url(&self, client: &Client) -> Result<&str, QueueError> {
        self.url.get_or_try_init(|| self.ask(client)).await.map(String::as_str)
    }

    /// Asks SQS for the queue's address. That takes the permission every user of the queue needs anyway, and is answered
    /// only where the queue exists and the credentials are good.
    pub(super) async fn ask(&self, client: &Client) -> Result<String, QueueError> {
        let answer = client.get_queue_url().queue_name(&self.name).send().await;
        match answer {
            Ok(found) => found.queue_url.ok_or_else(|| self.odd("gave no address for it")),
            Err(error) => Err(self.unavailable(&error)),
        }
    }

    /// A call failed.
    pub(super) fn unavailable<E>(&self, error: &super::CallError<E>) -> QueueError
    where
        E: aws_smithy_types::error::metadata::ProvideErrorMetadata + std::error::Error + 'static,
    {
        QueueError::Unavailable(self.subject.explain(error))
    }

    /// There was no answer, or not in time.
    pub(super) fn late(&self) -> QueueError {
        QueueError::Unavailable(self.subject.late())
    }

    /// SQS answered, but not what it promises to.
    pub(super) fn odd(&self, what: &str) -> QueueError {
        QueueError::Unavailable(format!("SQS {what} (queue {})", self.name))
    }
}

/// The URLs of all queues of the topology.
#[derive(Debug)]
pub(super) struct QueueUrls(HashMap<QueueRef, Arc<QueueUrl>>);

impl QueueUrls {
    pub(super) fn new(aws: &Aws) -> Self {
        let queues = QUEUES.iter().flat_map(|spec| [spec.name.into(), QueueRef::dead_letters(spec.name)]);
        let queue_url = |queue| {
            let name = aws.names().queue(queue);
            let subject = CallSubject::queue(aws, &name);
            (queue, Arc::new(QueueUrl { queue, name, subject, url: OnceCell::new() }))
        };
        Self(queues.map(queue_url).collect())
    }

    pub(super) fn of(&self, queue: QueueRef) -> &Arc<QueueUrl> {
        // Every queue is in the topology; a test there holds both together.
        &self.0[&queue]
    }
}
