//! The queue port on the `jobs`, `leases` and `sends` tables.
//!
//! The tables are designed so that a message dirties few pages: a send appends, a receive writes a small
//! lease row and never the body, an ack deletes. [`groups`] and [`recent`] keep in memory what would
//! otherwise need an index that every send dirties: which messages can be received next, and which ids are
//! known. Both are hints rebuilt from the tables: a receive checks each message under the write lock before
//! it returns it.

mod cache;
mod claim;
mod depth;
mod groups;
mod queued_jobs;
mod recent;
mod send;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rusqlite::{Connection, params};
use tokio::sync::Notify;

use self::cache::Memory;
use self::claim::Claimed;
pub use self::queued_jobs::QueuedJob;
pub(super) use self::queued_jobs::{read as read_queued, remove as remove_queued};
use super::reader::ReaderPool;
use super::writer::{Transaction, WriteError, WriterThread, lock};
use ports::clock::SharedClock;
use ports::metrics::QUEUE_DUPLICATES;
use ports::queue::{
    BatchResult, Delivery, Depth, MAX_MESSAGE_BYTES, Outgoing, Queue, QueueError, QueueRef, Receipt,
    ReceiveRequest,
};

/// How soon a waiting receive notices messages that another process has sent.
const FOREIGN_POLL: Duration = Duration::from_millis(25);

/// A waiting receive checks at least this often, even without a signal, to notice a process that died.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// Maximum wait of a receive, even if the request is longer.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Maximum number of messages per receive, even if the request is larger: they are kept in memory.
const MAX_RECEIVE: usize = 1000;

/// The queue in an open data folder.
pub(super) struct EmbeddedQueue {
    writer: Arc<WriterThread>,
    readers: Arc<ReaderPool>,
    memory: Arc<Mutex<Memory>>,
    arrivals: Arc<HashMap<QueueRef, Notify>>,
    clock: SharedClock,
    owner: i64,
}

impl EmbeddedQueue {
    pub(super) fn new(
        writer: Arc<WriterThread>,
        readers: Arc<ReaderPool>,
        clock: SharedClock,
        owner: i64,
    ) -> Self {
        let arrivals = Arc::new(QueueRef::all().map(|queue| (queue, Notify::new())).collect());
        Self { writer, readers, memory: Arc::new(Mutex::new(Memory::default())), arrivals, clock, owner }
    }

    async fn claim(&self, request: ReceiveRequest) -> Result<Claimed, QueueError> {
        let memory = Arc::clone(&self.memory);
        let undo = Arc::clone(&self.memory);
        let owner = self.owner;
        let max = request.max.min(MAX_RECEIVE);
        let work = move |transaction: &Transaction<'_>| {
            let mut memory = current(&memory, transaction)?;
            claim::claim(transaction, &mut memory, request.queue, max, request.visibility_timeout, owner)
        };
        // The caller may be gone by the time the claim is durable; the next operation then releases its
        // messages.
        let abandoned = move |claimed: Claimed| {
            lock(&undo).release_later(
                request.queue,
                claimed.deliveries.into_iter().map(|delivery| delivery.receipt),
            );
        };
        let claimed = self.writer.run_or_undo(work, abandoned).await.map_err(unavailable)?;
        if claimed.dead_letters > 0 {
            tracing::warn!(queue = %request.queue, messages = claimed.dead_letters, "moved to the dead-letter queue");
            self.announce(QueueRef::dead_letters(request.queue.name));
        }
        Ok(claimed)
    }

    fn announce(&self, queue: QueueRef) {
        if let Some(arrivals) = self.arrivals.get(&queue) {
            arrivals.notify_waiters();
        }
    }

    async fn change_leases<F>(&self, queue: QueueRef, entries: usize, change: F) -> BatchResult
    where
        F: FnMut(&Transaction<'_>, &mut Memory) -> rusqlite::Result<BatchResult> + Send + 'static,
    {
        let memory = Arc::clone(&self.memory);
        let mut change = change;
        let work = move |transaction: &Transaction<'_>| {
            let mut memory = current(&memory, transaction)?;
            change(transaction, &mut memory)
        };
        match self.writer.run(work).await {
            Ok(results) => {
                // An acked or released message may have unblocked its group.
                self.announce(queue);
                results
            }
            Err(error) => vec![Err(unavailable(error)); entries],
        }
    }
}

fn unavailable(error: WriteError) -> QueueError {
    QueueError::Unavailable(error.0)
}

#[async_trait]
impl Queue for EmbeddedQueue {
    async fn send(&self, messages: Vec<Outgoing>) -> BatchResult {
        let sizes: Vec<usize> = messages.iter().map(|message| message.body.len()).collect();
        let fitting: Vec<Outgoing> =
            messages.into_iter().filter(|message| message.body.len() <= MAX_MESSAGE_BYTES).collect();
        let mut queues: Vec<QueueRef> = fitting.iter().map(|message| message.queue.into()).collect();
        queues.sort_unstable();
        queues.dedup();
        let memory = Arc::clone(&self.memory);
        let work = move |transaction: &Transaction<'_>| {
            let mut memory = current(&memory, transaction)?;
            send::send(transaction, &mut memory, &fitting)
        };
        let sent = self.writer.run(work).await;
        if let Ok(duplicates) = &sent {
            for queue in duplicates {
                metrics::counter!(QUEUE_DUPLICATES, "queue" => queue.spec().label).increment(1);
            }
            queues.into_iter().for_each(|queue| self.announce(queue));
        }
        sizes
            .into_iter()
            .map(|bytes| {
                if bytes > MAX_MESSAGE_BYTES {
                    return Err(QueueError::TooLarge { bytes });
                }
                sent.as_ref().map(|_| ()).map_err(|error| unavailable(error.clone()))
            })
            .collect()
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, QueueError> {
        let deadline = Instant::now() + request.wait.min(LONGEST_WAIT);
        let Some(arrivals) = self.arrivals.get(&request.queue) else { return Ok(Vec::new()) };
        loop {
            let arrival = arrivals.notified();
            tokio::pin!(arrival);
            // Listening starts before checking, so that no send in between is missed, of this process or
            // another one.
            arrival.as_mut().enable();
            let version = self.readers.data_version();
            let claimed = self.claim(request).await?;
            if !claimed.deliveries.is_empty() {
                return Ok(claimed.deliveries);
            }
            let checked_at = Instant::now();
            if checked_at >= deadline {
                return Ok(Vec::new());
            }
            let nap = claimed.visible_in.map_or(LONGEST_NAP, |wait| wait.min(LONGEST_NAP));
            let wake = deadline.min(checked_at + nap.max(Duration::from_millis(1)));
            loop {
                let tick = wake.min(Instant::now() + FOREIGN_POLL);
                tokio::select! {
                    () = &mut arrival => break,
                    () = tokio::time::sleep_until(tick.into()) => {}
                }
                if Instant::now() >= wake || self.readers.data_version() != version {
                    break;
                }
            }
        }
    }

    async fn change_visibility(&self, queue: QueueRef, entries: &[(Receipt, Duration)]) -> BatchResult {
        if entries.is_empty() {
            return Vec::new();
        }
        let owned = entries.to_vec();
        self.change_leases(queue, entries.len(), move |transaction, memory| {
            claim::change_visibility(transaction, memory, queue, &owned)
        })
        .await
    }

    async fn ack(&self, queue: QueueRef, receipts: &[Receipt]) -> BatchResult {
        if receipts.is_empty() {
            return Vec::new();
        }
        let owned = receipts.to_vec();
        self.change_leases(queue, receipts.len(), move |transaction, memory| {
            claim::ack(transaction, memory, queue, &owned)
        })
        .await
    }

    async fn depth(&self, queue: QueueRef) -> Result<Depth, QueueError> {
        let now = self.clock.now();
        self.readers
            .read(move |connection| depth::depth(connection, queue, now))
            .await
            .map_err(QueueError::Unavailable)
    }

    async fn ready(&self) -> Result<(), QueueError> {
        let memory = Arc::clone(&self.memory);
        // What the send of an event does, so that it fails if that would: a transaction that writes nothing,
        // or only one page, succeeds on a full disk or a damaged table.
        let write_as_an_event = move |transaction: &Transaction<'_>| {
            let mut memory = current(&memory, transaction)?;
            send::probe(transaction, &mut memory)
        };
        self.writer.run(write_as_an_event).await.map_err(unavailable)
    }
}

/// The cache, as the transaction sees the tables. Messages that were received for a caller that is gone are released.
fn current<'m>(
    memory: &'m Arc<Mutex<Memory>>,
    transaction: &Transaction<'_>,
) -> rusqlite::Result<MutexGuard<'m, Memory>> {
    let mut memory = lock(memory);
    memory.catch_up(transaction)?;
    for (queue, receipt) in memory.take_abandoned() {
        claim::change_visibility(transaction, &mut memory, queue, &[(receipt, Duration::ZERO)])?;
    }
    Ok(memory)
}

/// The name of a queue in the tables.
fn label(queue: QueueRef) -> String {
    queue.to_string()
}

/// Adds a message after all others.
fn append(
    connection: &Connection,
    seq: i64,
    queue: &str,
    dedup: &[u8],
    group: &str,
    sent_at_ms: i64,
    body: &str,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO sends (seq, queue, dedup, sent_at_ms) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![seq, queue, dedup, sent_at_ms])?;
    connection
        .prepare_cached(
            "INSERT INTO jobs (seq, queue, group_id, sent_at_ms, body) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![seq, queue, group, sent_at_ms, body])?;
    Ok(())
}
