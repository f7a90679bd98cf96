//! The queue port: durable FIFO per message group, with the semantics of SQS FIFO on every backend.
//!
//! * A message group is delivered in order and only up to its first invisible message.
//! * A received message is invisible until its visibility timeout ends or it is acked; if it is not acked, it
//!   is delivered again.
//! * A deduplication id is remembered for five minutes, even after its message was acked: a second send with
//!   the same id to the same message group is accepted and not delivered. Only some backends deduplicate
//!   across groups; ids include everything that determines the group, so nothing depends on the difference.
//! * After [`topology::MAX_RECEIVE_COUNT`] receives a message moves to the dead-letter queue.

pub mod job;
pub mod route;
pub mod run;
pub mod topology;
mod wait_cause;
pub mod waiting;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest, Sha256};

use crate::clock::TimestampMs;
use slack::hex::to_hex;

pub use crate::workers::QueueName;

/// The largest message body: SQS's limit since 2025.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// How long a deduplication id is remembered.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html>
pub const DEDUPLICATION_WINDOW: Duration = Duration::from_secs(300);

/// A queue or its dead-letter queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueRef {
    /// The queue in the topology.
    pub name: QueueName,
    pub dead_letters: bool,
}

impl QueueRef {
    /// Every queue of the topology, each followed by its dead-letter queue.
    pub fn all() -> impl Iterator<Item = Self> {
        topology::QUEUES.into_iter().flat_map(|spec| [spec.name.into(), Self::dead_letters(spec.name)])
    }

    /// The dead-letter queue of the same name.
    pub fn dead_letters(name: QueueName) -> Self {
        Self { name, dead_letters: true }
    }
}

impl From<QueueName> for QueueRef {
    fn from(name: QueueName) -> Self {
        Self { name, dead_letters: false }
    }
}

impl fmt::Display for QueueRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.dead_letters { "-dlq" } else { "" };
        write!(f, "{}{suffix}", self.name)
    }
}

/// A message group: its messages are handled serially.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(Arc<str>);

impl GroupId {
    /// Joins parts with `#`. Parts are Slack ids, days or fixed words, so the result stays within the 128
    /// letters, digits and punctuation characters that SQS allows.
    pub fn from_parts(parts: &[&str]) -> Self {
        Self(parts.join("#").into())
    }

    /// The group's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for GroupId {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A deduplication id: the SHA-256 of its parts, so that a queue accepts it whatever the parts contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DedupId([u8; 32]);

impl DedupId {
    /// Hashes the parts, each with its length, so that `ab`+`c` is not `a`+`bc`.
    pub fn from_parts(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// The raw hash.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The hash in hex, as sent to SQS.
    pub fn to_hex(&self) -> String {
        to_hex(&self.0)
    }
}

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The destination queue.
    pub queue: QueueName,
    /// Its message group.
    pub group: GroupId,
    /// Identifies the message if it is sent again.
    pub dedup: DedupId,
    /// An encoded [`job::Job`].
    pub body: String,
}

/// The parameters of a receive.
#[derive(Debug, Clone, Copy)]
pub struct ReceiveRequest {
    pub queue: QueueRef,
    /// The maximum number of messages; a backend may return fewer (SQS: 10).
    pub max: usize,
    /// How long received messages stay invisible to other consumers.
    pub visibility_timeout: Duration,
    /// How long to wait for the first message. A send wakes the wait.
    pub wait: Duration,
}

/// Identifies a message for its whole lifetime; a redelivery has the same id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub String);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The receipt of one delivery; opaque except to the backend that made it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Receipt(pub String);

/// A received message, invisible to other consumers until its lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub message_id: MessageId,
    pub group: GroupId,
    /// Its body as sent.
    pub body: String,
    /// How often it was received, including this delivery.
    pub receive_count: u32,
    pub sent_at: TimestampMs,
    /// The receipt for acking it or changing its visibility.
    pub receipt: Receipt,
}

/// How full a queue is. Approximate on some backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Messages that can be received now or once the messages before them are gone.
    pub waiting: u64,
    /// Messages that are still delayed by the queue's delay.
    pub delayed: u64,
    /// Messages that are received and not acked, or backing off.
    pub in_flight: u64,
    /// Age of the oldest message in seconds; `None` if the backend does not report it.
    pub oldest_age_s: Option<u64>,
}

impl Depth {
    /// Whether nothing is waiting, delayed, backing off or in flight.
    pub fn is_empty(&self) -> bool {
        self.waiting + self.delayed + self.in_flight == 0
    }
}

/// A failed queue operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The backend did not answer in time or failed. The outcome of the call is unknown; retrying it is safe.
    #[error("the queue is unavailable: {0}")]
    Unavailable(String),
    /// The body exceeds [`MAX_MESSAGE_BYTES`]. Retrying cannot help.
    #[error("the message has {bytes} bytes, more than {MAX_MESSAGE_BYTES}")]
    TooLarge {
        /// The size of the body.
        bytes: usize,
    },
    /// The lease ended: another consumer may have the message, and work for this receipt must stop.
    #[error("the lease has ended")]
    LeaseLost,
}

/// One result per entry of a batch, in the order of the entries.
pub type BatchResult = Vec<Result<(), QueueError>>;

/// A FIFO queue. Every method can be retried safely.
#[async_trait]
pub trait Queue: Send + Sync + 'static {
    /// Sends messages in order. `Ok` means that the message is durable, or that its deduplication id was seen
    /// within [`DEDUPLICATION_WINDOW`]. A failed entry does not affect the others.
    async fn send(&self, messages: Vec<Outgoing>) -> BatchResult;

    /// Receives messages, each group in order and only up to its first invisible message. The result is empty
    /// if `wait` elapses.
    ///
    /// Dropping the future loses nothing: messages it had received become visible again, at the latest when
    /// the visibility timeout ends.
    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, QueueError>;

    /// Makes each message invisible for the given duration from now: longer to keep a lease, shorter (or
    /// zero) to return the message. [`QueueError::LeaseLost`] for a lease that has ended.
    async fn change_visibility(&self, queue: QueueRef, entries: &[(Receipt, Duration)]) -> BatchResult;

    /// Removes messages for good. [`QueueError::LeaseLost`] for a lease that has ended.
    async fn ack(&self, queue: QueueRef, receipts: &[Receipt]) -> BatchResult;

    /// How full the queue is.
    async fn depth(&self, queue: QueueRef) -> Result<Depth, QueueError>;

    /// How far [`Queue::depth`] may lag behind. If it lags, a queue counts as empty only after two empty
    /// readings this far apart.
    fn depth_lag(&self) -> Duration {
        Duration::ZERO
    }

    /// Checks whether the queue can accept a send now.
    async fn ready(&self) -> Result<(), QueueError>;
}
