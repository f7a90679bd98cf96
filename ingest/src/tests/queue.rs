//! A queue with scripted behaviour that records sent messages.

use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use ports::queue::{
    BatchResult, Delivery, Depth, MAX_MESSAGE_BYTES, Outgoing, Queue, QueueError, QueueRef, Receipt,
    ReceiveRequest,
};
use tokio::sync::Semaphore;

/// The behaviour of a send.
pub(super) enum Behaviour {
    /// Stores the messages.
    Keep,
    /// Stores the messages once the test permits it.
    KeepWhenPermitted,
    /// Every entry fails.
    Fail,
    /// Every entry of the first send fails.
    FailOnce,
    /// All entries but the first fail.
    FailAfterFirst,
    /// Every entry is too large.
    TooLarge,
    /// Returns fewer results than entries.
    TooFewResults,
    /// Never returns.
    Hang,
}

pub(super) struct TestQueue {
    behaviour: Behaviour,
    sent: Mutex<Vec<Outgoing>>,
    /// Gains a permit for each send that waits for `gate`.
    pub(super) arrived: Semaphore,
    pub(super) gate: Semaphore,
}

impl TestQueue {
    pub(super) fn new(behaviour: Behaviour) -> Self {
        let sent = Mutex::new(Vec::new());
        Self { behaviour, sent, arrived: Semaphore::new(0), gate: Semaphore::new(0) }
    }

    /// The stored messages.
    pub(super) fn kept(&self) -> Vec<Outgoing> {
        self.sent.lock().unwrap().clone()
    }

    fn failure() -> Result<(), QueueError> {
        Err(QueueError::Unavailable("the disk is full".to_owned()))
    }
}

#[async_trait]
impl Queue for TestQueue {
    async fn send(&self, messages: Vec<Outgoing>) -> BatchResult {
        let entries = messages.len();
        match self.behaviour {
            Behaviour::Keep => {}
            Behaviour::KeepWhenPermitted => {
                self.arrived.add_permits(1);
                self.gate.acquire().await.unwrap().forget();
            }
            Behaviour::Fail => return vec![Self::failure(); entries],
            Behaviour::FailOnce if self.arrived.available_permits() == 0 => {
                self.arrived.add_permits(1);
                return vec![Self::failure(); entries];
            }
            Behaviour::FailOnce => {}
            Behaviour::FailAfterFirst => {
                return (0..entries).map(|index| if index == 0 { Ok(()) } else { Self::failure() }).collect();
            }
            Behaviour::TooLarge => return vec![Err(QueueError::TooLarge { bytes: usize::MAX }); entries],
            Behaviour::TooFewResults => return Vec::new(),
            Behaviour::Hang => pending().await,
        }
        assert!(messages.iter().all(|message| message.body.len() <= MAX_MESSAGE_BYTES));
        self.sent.lock().unwrap().extend(messages);
        vec![Ok(()); entries]
    }

    async fn receive(&self, _: ReceiveRequest) -> Result<Vec<Delivery>, QueueError> {
        panic!("ingest receives nothing")
    }

    async fn change_visibility(&self, _: QueueRef, _: &[(Receipt, Duration)]) -> BatchResult {
        panic!("ingest receives nothing")
    }

    async fn ack(&self, _: QueueRef, _: &[Receipt]) -> BatchResult {
        panic!("ingest receives nothing")
    }

    async fn depth(&self, _: QueueRef) -> Result<Depth, QueueError> {
        panic!("ingest does not read depths")
    }

    async fn ready(&self) -> Result<(), QueueError> {
        match self.behaviour {
            Behaviour::Hang => pending().await,
            Behaviour::Fail => Self::failure(),
            Behaviour::Keep
            | Behaviour::KeepWhenPermitted
            | Behaviour::FailOnce
            | Behaviour::FailAfterFirst
            | Behaviour::TooLarge
            | Behaviour::TooFewResults => Ok(()),
        }
    }
}
