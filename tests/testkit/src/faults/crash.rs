//! A process that dies between two steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{Archive, ArchiveError, Item, ItemKey, Page, Query, Update, WriteOutcome};
use ports::queue::{
    BatchResult, Delivery, Depth, Outgoing, Queue, QueueError, QueueRef, Receipt, ReceiveRequest,
};

/// The step after which nothing works any more. Shared by all the ports of one process, whose steps it counts together.
#[derive(Debug)]
pub struct CrashPoint {
    after: u64,
    steps: AtomicU64,
}

impl CrashPoint {
    /// After `steps` steps.
    #[must_use]
    pub fn after(steps: u64) -> Arc<Self> {
        Arc::new(Self { after: steps, steps: AtomicU64::new(0) })
    }

    /// No crash: only the steps are counted, so that a second run can crash after each of them.
    #[must_use]
    pub fn never() -> Arc<Self> {
        Self::after(u64::MAX)
    }

    /// Steps that were done.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::SeqCst).min(self.after)
    }

    /// Whether a step was tried after the crash.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.steps.load(Ordering::SeqCst) > self.after
    }

    pub(crate) fn step(&self) -> Result<(), String> {
        let before = self.steps.fetch_add(1, Ordering::SeqCst);
        if before < self.after { Ok(()) } else { Err(format!("the process died after step {}", self.after)) }
    }
}

/// An archive as a process sees it that dies at the crash point.
pub struct CrashingArchive {
    inner: Arc<dyn Archive>,
    point: Arc<CrashPoint>,
}

impl CrashingArchive {
    /// `inner`, until the crash.
    #[must_use]
    pub fn new(inner: Arc<dyn Archive>, point: Arc<CrashPoint>) -> Self {
        Self { inner, point }
    }

    fn step(&self) -> Result<(), ArchiveError> {
        self.point.step().map_err(ArchiveError::Unavailable)
    }
}

#[async_trait]
impl Archive for CrashingArchive {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>> {
        let mut outcomes = Vec::with_capacity(updates.len());
        for update in updates {
            match self.step() {
                Ok(()) => outcomes.extend(self.inner.apply_once(&[update]).await),
                Err(crashed) => outcomes.push(Err(crashed)),
            }
        }
        outcomes
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        self.step()?;
        self.inner.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        self.step()?;
        self.inner.query(query).await
    }

    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError> {
        self.step()?;
        self.inner.delete_unchanged(expected).await
    }

    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.step()?;
        self.inner.erase(key).await
    }

    async fn ready(&self) -> Result<(), ArchiveError> {
        self.step()?;
        self.inner.ready().await
    }
}

/// A queue as a process sees it that dies at the crash point.
pub struct CrashingQueue {
    inner: Arc<dyn Queue>,
    point: Arc<CrashPoint>,
}

impl CrashingQueue {
    /// `inner`, until the crash.
    #[must_use]
    pub fn new(inner: Arc<dyn Queue>, point: Arc<CrashPoint>) -> Self {
        Self { inner, point }
    }

    fn step(&self) -> Result<(), QueueError> {
        self.point.step().map_err(QueueError::Unavailable)
    }
}

#[async_trait]
impl Queue for CrashingQueue {
    async fn send(&self, messages: Vec<Outgoing>) -> BatchResult {
        match self.step() {
            Ok(()) => self.inner.send(messages).await,
            Err(crashed) => vec![Err(crashed); messages.len()],
        }
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, QueueError> {
        self.step()?;
        self.inner.receive(request).await
    }

    async fn change_visibility(&self, queue: QueueRef, entries: &[(Receipt, Duration)]) -> BatchResult {
        match self.step() {
            Ok(()) => self.inner.change_visibility(queue, entries).await,
            Err(crashed) => vec![Err(crashed); entries.len()],
        }
    }

    async fn ack(&self, queue: QueueRef, receipts: &[Receipt]) -> BatchResult {
        match self.step() {
            Ok(()) => self.inner.ack(queue, receipts).await,
            Err(crashed) => vec![Err(crashed); receipts.len()],
        }
    }

    async fn depth(&self, queue: QueueRef) -> Result<Depth, QueueError> {
        self.step()?;
        self.inner.depth(queue).await
    }

    async fn ready(&self) -> Result<(), QueueError> {
        self.step()?;
        self.inner.ready().await
    }
}

#[cfg(test)]
mod tests {
    use ports::archive::{ArchiveExt, Update};
    use ports::clock::{ManualClock, TimestampMs};
    use ports::queue::QueueName;

    use super::*;
    use crate::memory::archive::MemoryArchive;
    use crate::memory::queue::MemoryQueue;

    #[tokio::test]
    async fn nothing_works_after_the_crash_on_either_port() {
        let point = CrashPoint::after(2);
        let memory = Arc::new(MemoryArchive::new());
        let archive = CrashingArchive::new(Arc::clone(&memory) as Arc<dyn Archive>, Arc::clone(&point));
        let queue = MemoryQueue::new(ManualClock::starting_at(TimestampMs(0)));
        let queue = CrashingQueue::new(Arc::new(queue), Arc::clone(&point));

        archive.write(&Update::new(ItemKey::new("a", "1"))).await.unwrap();
        queue.ready().await.unwrap();
        assert!(!point.has_crashed());
        assert!(archive.write(&Update::new(ItemKey::new("a", "2"))).await.is_err());
        assert!(queue.depth(QueueName::Events.into()).await.is_err());
        assert!(point.has_crashed());
        assert_eq!((point.steps(), memory.items().len()), (2, 1));
    }
}
