//! The queue port on one list of messages.
//!
//! Every operation scans the list, in the order of the contract's rules, so that the code reads as its
//! specification. It is not meant to be fast.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ports::clock::{SharedClock, TimestampMs};
use ports::lease::{MAX_LEASE, has_ended};
use ports::queue::topology::{MAX_RECEIVE_COUNT, QUEUES};
use ports::queue::{
    BatchResult, DEDUPLICATION_WINDOW, DedupId, Delivery, Depth, GroupId, MAX_MESSAGE_BYTES, MessageId,
    Outgoing, Queue, QueueError, QueueName, QueueRef, Receipt, ReceiveRequest,
};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// The poll interval of a waiting receive, because a clock that a test moves sends no notification.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How a waiting receive notices that a message has become visible.
#[derive(Debug, Clone, Copy)]
enum Waking {
    /// It polls every [`POLL_INTERVAL`].
    Polling,
    /// It sleeps until the next message is due: the clock runs with tokio's, and jumps of it send a
    /// notification.
    WhenDue,
}

/// The maximum wait of a receive, even if it asks for more.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// A queue that lives as long as the process.
pub struct MemoryQueue {
    clock: SharedClock,
    waking: Waking,
    state: Mutex<MemoryState>,
    /// One for each queue and each of the dead letters: a simulated fleet waits on all of them at once.
    changed: [Notify; 2 * QUEUES.len()],
}

#[derive(Default)]
struct MemoryState {
    /// All messages of all queues, in the order in which they entered their queue.
    messages: Vec<QueuedMessage>,
    /// Sent ids, for deduplication.
    sends: Vec<(QueueName, DedupId, TimestampMs)>,
    ids_given: u64,
    /// Replaces the topology's limit.
    max_receives: Option<u32>,
    /// Messages of a queue among which a receive looks for one.
    window: Option<usize>,
    /// How long a message stays, whatever happens to it.
    retention: Option<Duration>,
}

struct QueuedMessage {
    id: MessageId,
    queue: QueueRef,
    group: GroupId,
    body: String,
    sent_at: TimestampMs,
    /// The end of the queue's delay, or of the last lease or backoff.
    visible_at: TimestampMs,
    receive_count: u32,
    /// The receipt of the last delivery.
    receipt: Option<Receipt>,
}

impl QueuedMessage {
    fn is_visible(&self, now: TimestampMs) -> bool {
        has_ended(self.visible_at, now)
    }

    /// A message in a dead-letter queue is never exhausted.
    fn is_exhausted(&self, max_receives: u32) -> bool {
        !self.queue.dead_letters && self.receive_count >= max_receives
    }

    fn deliver(&mut self, now: TimestampMs, visibility_timeout: Duration) -> Delivery {
        self.receive_count += 1;
        self.visible_at = now.plus(visibility_timeout.min(MAX_LEASE));
        let receipt = Receipt(format!("{}/{}", self.id, self.receive_count));
        self.receipt = Some(receipt.clone());
        Delivery {
            message_id: self.id.clone(),
            group: self.group.clone(),
            body: self.body.clone(),
            receive_count: self.receive_count,
            sent_at: self.sent_at,
            receipt,
        }
    }
}

impl MemoryState {
    fn send(&mut self, message: Outgoing, now: TimestampMs) -> Result<(), QueueError> {
        if message.body.len() > MAX_MESSAGE_BYTES {
            return Err(QueueError::TooLarge { bytes: message.body.len() });
        }
        // An id from further ahead was sent before the clock was set back.
        self.sends.retain(|(_, _, sent_at)| {
            now < sent_at.plus(DEDUPLICATION_WINDOW) && *sent_at < now.plus(DEDUPLICATION_WINDOW)
        });
        if self.sends.iter().any(|(queue, dedup, _)| (*queue, *dedup) == (message.queue, message.dedup)) {
            return Ok(());
        }
        self.sends.push((message.queue, message.dedup, now));
        self.append(message.queue.into(), message.group, message.body, now, message.queue.spec().delay);
        Ok(())
    }

    fn append(&mut self, queue: QueueRef, group: GroupId, body: String, now: TimestampMs, delay: Duration) {
        self.ids_given += 1;
        self.messages.push(QueuedMessage {
            id: MessageId(format!("memory-{}", self.ids_given)),
            queue,
            group,
            body,
            sent_at: now,
            // Without a delay it is visible at once, also if the clock is set back.
            visible_at: if delay.is_zero() { TimestampMs(i64::MIN) } else { now.plus(delay) },
            receive_count: 0,
            receipt: None,
        });
    }

    /// Delivers messages in the order in which they were sent, each group up to its first invisible message.
    fn receive(&mut self, request: &ReceiveRequest, now: TimestampMs) -> Vec<Delivery> {
        if let Some(retention) = self.retention {
            self.messages.retain(|message| now < message.sent_at.plus(retention));
        }
        let max_receives = self.max_receives.unwrap_or(MAX_RECEIVE_COUNT);
        let mut stopped: Vec<GroupId> = Vec::new();
        let mut deliveries = Vec::new();
        let mut index = 0;
        let mut left = self.window.unwrap_or(usize::MAX);
        while index < self.messages.len() && deliveries.len() < request.max && left > 0 {
            let message = &mut self.messages[index];
            left -= usize::from(message.queue == request.queue);
            if message.queue != request.queue || stopped.contains(&message.group) {
                index += 1;
            } else if !message.is_visible(now) {
                stopped.push(message.group.clone());
            } else if message.is_exhausted(max_receives) {
                let dead = self.messages.remove(index);
                let dead_letters = QueueRef::dead_letters(dead.queue.name);
                self.append(dead_letters, dead.group, dead.body, now, Duration::ZERO);
            } else {
                deliveries.push(message.deliver(now, request.visibility_timeout));
                index += 1;
            }
        }
        deliveries
    }

    /// The index of the message whose lease this receipt still holds.
    fn leased(&self, queue: QueueRef, receipt: &Receipt, now: TimestampMs) -> Result<usize, QueueError> {
        self.messages
            .iter()
            .position(|message| {
                message.queue == queue
                    && message.receipt.as_ref() == Some(receipt)
                    && message.visible_at > now
            })
            .ok_or(QueueError::LeaseLost)
    }

    /// The time until the next invisible message of this queue becomes visible.
    fn next_due(&self, queue: QueueRef, now: TimestampMs) -> Duration {
        let due = self.messages.iter().filter(|message| message.queue == queue && !message.is_visible(now));
        due.map(|message| message.visible_at.since(now)).min().unwrap_or(LONGEST_WAIT)
    }

    fn depth(&self, queue: QueueRef, now: TimestampMs) -> Depth {
        let mut depth = Depth { oldest_age_s: Some(0), ..Depth::default() };
        for message in self.messages.iter().filter(|message| message.queue == queue) {
            match message {
                visible if visible.is_visible(now) => depth.waiting += 1,
                never_received if never_received.receive_count == 0 => depth.delayed += 1,
                _ => depth.in_flight += 1,
            }
            depth.oldest_age_s = depth.oldest_age_s.max(Some(now.since(message.sent_at).as_secs()));
        }
        depth
    }
}

impl MemoryQueue {
    /// All queues of the topology, empty.
    pub fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            waking: Waking::Polling,
            state: Mutex::new(MemoryState::default()),
            changed: std::array::from_fn(|_| Notify::new()),
        }
    }

    /// The same for a clock that runs with tokio's, so that waiting costs nothing on virtual time. If the
    /// clock also jumps, the caller must call [`MemoryQueue::clock_jumped`].
    pub fn on_virtual_time(clock: SharedClock) -> Self {
        Self { waking: Waking::WhenDue, ..Self::new(clock) }
    }

    /// Makes a message a dead letter after `max_receives` receives; `None` is the topology's much higher
    /// limit.
    pub fn set_max_receives(&self, max_receives: Option<u32>) {
        self.lock().max_receives = max_receives;
    }

    /// Finds messages only among the first ones of a queue, as SQS does among its first 120,000.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/avoiding-processing-large-message-backlogs-with-same-group-id.html>
    pub fn set_window(&self, messages: usize) {
        self.lock().window = Some(messages);
    }

    /// Loses messages that were sent this long ago, as SQS does after 14 days at most.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html>
    pub fn set_retention(&self, retention: Duration) {
        self.lock().retention = Some(retention);
    }

    /// Makes waiting receives check the clock again.
    pub fn clock_jumped(&self) {
        self.changed.iter().for_each(Notify::notify_waiters);
    }

    /// The messages before this one in its group, oldest first, that are not acked.
    pub fn unacked_before(&self, queue: QueueRef, id: &MessageId) -> Vec<MessageId> {
        let state = self.lock();
        let Some(index) = state.messages.iter().position(|message| message.id == *id) else {
            return Vec::new();
        };
        let group = &state.messages[index].group;
        let ahead = state.messages[..index].iter();
        let ahead = ahead.filter(|message| message.queue == queue && message.group == *group);
        ahead.map(|message| message.id.clone()).collect()
    }

    /// Ends the lease of one leased message, as if it had expired, and returns the message's id.
    pub fn end_lease(&self, pick: impl FnOnce(usize) -> usize) -> Option<MessageId> {
        let now = self.clock.now();
        let mut state = self.lock();
        let leased = state.messages.iter_mut();
        let mut leased: Vec<&mut QueuedMessage> =
            leased.filter(|message| message.receipt.is_some() && !message.is_visible(now)).collect();
        let index = pick(leased.len());
        let message = leased.get_mut(index)?;
        message.visible_at = now;
        self.changed(message.queue).notify_waiters();
        Some(message.id.clone())
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        // No operation leaves the list half changed, so a panic elsewhere does not matter.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, queue: QueueRef) -> &Notify {
        &self.changed[2 * queue.name as usize + usize::from(queue.dead_letters)]
    }

    fn change<T>(&self, queue: QueueRef, change: impl FnOnce(&mut MemoryState, TimestampMs) -> T) -> T {
        let result = change(&mut self.lock(), self.clock.now());
        self.changed(queue).notify_waiters();
        result
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn send(&self, messages: Vec<Outgoing>) -> BatchResult {
        let send =
            |message: Outgoing| self.change(message.queue.into(), |state, now| state.send(message, now));
        messages.into_iter().map(send).collect()
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, QueueError> {
        let deadline = Instant::now() + request.wait.min(LONGEST_WAIT);
        loop {
            // Listen before the check, so that a change in between is not missed.
            let changed = self.changed(request.queue).notified();
            let (deliveries, dead_letters) = {
                let mut state = self.lock();
                let ids_given = state.ids_given;
                let deliveries = state.receive(&request, self.clock.now());
                (deliveries, state.ids_given > ids_given)
            };
            if dead_letters {
                self.changed(QueueRef::dead_letters(request.queue.name)).notify_waiters();
            }
            let checked_at = Instant::now();
            if !deliveries.is_empty() || checked_at >= deadline {
                return Ok(deliveries);
            }
            let wait = match self.waking {
                Waking::Polling => POLL_INTERVAL,
                Waking::WhenDue => self.lock().next_due(request.queue, self.clock.now()),
            };
            // Check again after a notification as well as after a timeout.
            drop(timeout_at(deadline.min(checked_at + wait), changed).await);
        }
    }

    async fn change_visibility(&self, queue: QueueRef, entries: &[(Receipt, Duration)]) -> BatchResult {
        self.change(queue, |state, now| {
            let change = |(receipt, timeout): &(Receipt, Duration)| {
                let index = state.leased(queue, receipt, now)?;
                state.messages[index].visible_at = now.plus((*timeout).min(MAX_LEASE));
                Ok(())
            };
            entries.iter().map(change).collect()
        })
    }

    async fn ack(&self, queue: QueueRef, receipts: &[Receipt]) -> BatchResult {
        self.change(queue, |state, now| {
            let ack = |receipt: &Receipt| {
                let index = state.leased(queue, receipt, now)?;
                state.messages.remove(index);
                Ok(())
            };
            receipts.iter().map(ack).collect()
        })
    }

    async fn depth(&self, queue: QueueRef) -> Result<Depth, QueueError> {
        Ok(self.lock().depth(queue, self.clock.now()))
    }

    async fn ready(&self) -> Result<(), QueueError> {
        Ok(())
    }
}
