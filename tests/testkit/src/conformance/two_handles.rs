//! Two handles on one backend, used in turn, as by two processes on one data folder.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{Archive, ArchiveError, Item, ItemKey, Page, Query, Update, WriteOutcome};
use ports::claims::{Claim, ClaimAnswer, ClaimMode, Claims, ClaimsError};
use ports::files::{FileKey, FileReader, FileWriter, Files, FilesError, ListedFile};
use ports::queue::{
    BatchResult, Delivery, Depth, Outgoing, Queue, QueueError, QueueRef, Receipt, ReceiveRequest,
};

/// How the calls of a queue are distributed over the handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleTurns {
    /// One handle sends, the other does everything else.
    SenderAndReceiver,
    /// The handles alternate with every call, except for calls with receipts: these go to the handle that
    /// returned the receipt, because a worker acks the messages that it received itself.
    Alternating,
}

/// The handles of [`HandleTurns::SenderAndReceiver`].
const SENDER: usize = 0;
const RECEIVER: usize = 1;

/// A queue behind two handles.
pub struct TwoQueues {
    handles: [Arc<dyn Queue>; 2],
    turns: HandleTurns,
    calls: AtomicUsize,
    received_by: Mutex<HashMap<Receipt, usize>>,
}

impl TwoQueues {
    /// Two handles on the same queues.
    pub fn new(first: Arc<dyn Queue>, second: Arc<dyn Queue>, turns: HandleTurns) -> Self {
        Self { handles: [first, second], turns, calls: AtomicUsize::new(0), received_by: Mutex::default() }
    }

    /// The handle of the next call, given the one that makes such calls if the handles do not alternate.
    fn handle(&self, fixed: usize) -> usize {
        match self.turns {
            HandleTurns::SenderAndReceiver => fixed,
            HandleTurns::Alternating => self.calls.fetch_add(1, Ordering::SeqCst) % 2,
        }
    }

    /// The handle that returned this receipt, or the second one for an unknown receipt.
    fn issuing_handle(&self, receipt: &Receipt) -> usize {
        self.received_by().get(receipt).copied().unwrap_or(RECEIVER)
    }

    fn received_by(&self) -> MutexGuard<'_, HashMap<Receipt, usize>> {
        self.received_by.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Queue for TwoQueues {
    async fn send(&self, messages: Vec<Outgoing>) -> BatchResult {
        self.handles[self.handle(SENDER)].send(messages).await
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, QueueError> {
        let receiver = self.handle(RECEIVER);
        let deliveries = self.handles[receiver].receive(request).await?;
        self.received_by().extend(deliveries.iter().map(|delivery| (delivery.receipt.clone(), receiver)));
        Ok(deliveries)
    }

    async fn change_visibility(&self, queue: QueueRef, entries: &[(Receipt, Duration)]) -> BatchResult {
        let mut results = BatchResult::new();
        for entries in
            entries.chunk_by(|(one, _), (next, _)| self.issuing_handle(one) == self.issuing_handle(next))
        {
            let issuing_handle = self.issuing_handle(&entries[0].0);
            results.extend(self.handles[issuing_handle].change_visibility(queue, entries).await);
        }
        results
    }

    async fn ack(&self, queue: QueueRef, receipts: &[Receipt]) -> BatchResult {
        let mut results = BatchResult::new();
        for receipts in receipts.chunk_by(|one, next| self.issuing_handle(one) == self.issuing_handle(next)) {
            results.extend(self.handles[self.issuing_handle(&receipts[0])].ack(queue, receipts).await);
        }
        results
    }

    async fn depth(&self, queue: QueueRef) -> Result<Depth, QueueError> {
        self.handles[self.handle(RECEIVER)].depth(queue).await
    }

    async fn ready(&self) -> Result<(), QueueError> {
        self.handles[self.handle(SENDER)].ready().await
    }
}

/// A port behind two handles that alternate with every call.
pub struct AlternatingHandles<P: ?Sized> {
    handles: [Arc<P>; 2],
    calls: AtomicUsize,
}

impl<P: ?Sized> AlternatingHandles<P> {
    /// Two handles on the same backend.
    pub fn new(first: Arc<P>, second: Arc<P>) -> Self {
        Self { handles: [first, second], calls: AtomicUsize::new(0) }
    }

    fn next(&self) -> &P {
        &self.handles[self.calls.fetch_add(1, Ordering::SeqCst) % 2]
    }
}

#[async_trait]
impl Archive for AlternatingHandles<dyn Archive> {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>> {
        let mut outcomes = Vec::with_capacity(updates.len());
        for update in updates {
            outcomes.extend(self.next().apply_once(&[update]).await);
        }
        outcomes
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        self.next().get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        self.next().query(query).await
    }

    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError> {
        self.next().delete_unchanged(expected).await
    }

    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.next().erase(key).await
    }

    async fn expire(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.next().expire(key).await
    }

    async fn ready(&self) -> Result<(), ArchiveError> {
        self.next().ready().await
    }
}

#[async_trait]
impl Files for AlternatingHandles<dyn Files> {
    async fn create(&self, key: &FileKey) -> Result<Box<dyn FileWriter>, FilesError> {
        self.next().create(key).await
    }

    async fn open(&self, key: &FileKey) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        self.next().open(key).await
    }

    async fn delete(&self, key: &FileKey) -> Result<bool, FilesError> {
        self.next().delete(key).await
    }

    async fn list(&self, after: Option<&FileKey>) -> Result<Vec<ListedFile>, FilesError> {
        self.next().list(after).await
    }

    async fn ready(&self) -> Result<(), FilesError> {
        self.next().ready().await
    }
}

#[async_trait]
impl Claims for AlternatingHandles<dyn Claims> {
    async fn claim(&self, claim: &Claim, take: ClaimMode) -> Result<ClaimAnswer, ClaimsError> {
        self.next().claim(claim, take).await
    }

    async fn renew(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.next().renew(claim).await
    }

    async fn complete(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.next().complete(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.next().release(claim).await
    }

    async fn ready(&self) -> Result<(), ClaimsError> {
        self.next().ready().await
    }
}
