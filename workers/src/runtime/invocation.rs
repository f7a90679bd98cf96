//! Runs a worker on messages that another program received, such as those of a Lambda invocation: they become a
//! queue that ends. No other process can receive them, and Lambda deletes the ones acked here.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ports::queue::{
    BatchResult, Delivery, Depth, GroupId, MessageId, Outgoing, Queue, QueueError, QueueName, QueueRef,
    Receipt, ReceiveRequest,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::consumer::consume;
use super::dead_letters::return_dead_letters;
use super::{Batch, Ports, RuntimeSettings, Worker};

/// Handles the messages of one invocation. Returns those that Lambda must deliver again, in their order: in
/// each group, the first that failed and all after it.
pub async fn handle_messages(
    worker: &Arc<dyn Worker>,
    ports: &Ports,
    settings: RuntimeSettings,
    queue: QueueRef,
    messages: Vec<Delivery>,
    until: Instant,
) -> Vec<MessageId> {
    let pending = Arc::new(InvocationQueue::new(Arc::clone(&ports.queue), queue, messages));
    let ports = Ports { queue: pending.clone(), ..ports.clone() };
    if queue.dead_letters {
        // Dead letters that do not fit into the time left are delivered again.
        drop(
            timeout_at(until, return_dead_letters(&ports, queue, pending.take_all(), settings.longest_wait))
                .await,
        );
        return pending.failed();
    }
    let worker = Arc::new(PermitWhilePending { worker: Arc::clone(worker), queue: Arc::clone(&pending) });
    let (end, shutdown) = watch::channel(false);
    let ends = async {
        tokio::select! {
            () = pending.settled() => {}
            () = sleep_until(until) => {}
        }
        end.send_replace(true);
    };
    tokio::join!(consume(worker, ports, settings, shutdown), ends);
    pending.return_unstarted().await;
    pending.failed()
}

/// A queue with the messages of one invocation, in front of the queue they came from.
struct InvocationQueue {
    source: Arc<dyn Queue>,
    queue: QueueRef,
    state: Mutex<InvocationState>,
    changed: watch::Sender<()>,
}

struct InvocationState {
    /// In order of arrival.
    waiting: VecDeque<Delivery>,
    /// Received and not settled.
    in_progress: HashMap<Receipt, GroupId>,
    /// Groups with a returned message: no later message of the group may be handled.
    stopped: HashSet<GroupId>,
    /// Handled messages.
    acked: HashSet<Receipt>,
    all: Vec<(MessageId, Receipt)>,
}

impl InvocationState {
    fn is_free(&self, group: &GroupId) -> bool {
        !self.stopped.contains(group) && self.in_progress.values().all(|other| other != group)
    }

    fn has_more(&self) -> bool {
        self.waiting.iter().any(|delivery| self.is_free(&delivery.group))
    }

    fn is_settled(&self) -> bool {
        self.in_progress.is_empty() && !self.has_more()
    }

    /// The next messages of free groups, in the order of each group.
    fn take_next(&mut self, max: usize) -> Vec<Delivery> {
        let (mut next, mut left) = (Vec::new(), VecDeque::new());
        for delivery in std::mem::take(&mut self.waiting) {
            if next.len() < max && self.is_free(&delivery.group) {
                next.push(delivery);
            } else {
                left.push_back(delivery);
            }
        }
        self.waiting = left;
        self.in_progress
            .extend(next.iter().map(|delivery| (delivery.receipt.clone(), delivery.group.clone())));
        next
    }
}

impl InvocationQueue {
    fn new(source: Arc<dyn Queue>, queue: QueueRef, deliveries: Vec<Delivery>) -> Self {
        let all = deliveries.iter().map(|delivery| (delivery.message_id.clone(), delivery.receipt.clone()));
        let state = InvocationState {
            all: all.collect(),
            waiting: deliveries.into(),
            in_progress: HashMap::new(),
            stopped: HashSet::new(),
            acked: HashSet::new(),
        };
        Self { source, queue, state: Mutex::new(state), changed: watch::Sender::new(()) }
    }

    /// All messages at once, without regard to order.
    fn take_all(&self) -> Vec<Delivery> {
        self.lock().take_next(usize::MAX)
    }

    /// Resolves when every message that can be handled is handled or returned.
    async fn settled(&self) {
        self.wait_until(InvocationState::is_settled).await;
    }

    /// Returns the messages that were never started: a failure of their group blocks them, or there was no
    /// time left.
    async fn return_unstarted(&self) {
        let rest: Vec<(Receipt, Duration)> =
            self.lock().waiting.drain(..).map(|delivery| (delivery.receipt, Duration::ZERO)).collect();
        if rest.is_empty() {
            return;
        }
        for error in
            self.source.change_visibility(self.queue, &rest).await.into_iter().filter_map(Result::err)
        {
            tracing::warn!(queue = %self.queue, %error, "a job could not be given back; it comes back when its lease ends");
        }
    }

    /// The messages that Lambda must deliver again, in their order.
    fn failed(&self) -> Vec<MessageId> {
        let state = self.lock();
        let failed = state.all.iter().filter(|(_, receipt)| !state.acked.contains(receipt));
        failed.map(|(message_id, _)| message_id.clone()).collect()
    }

    async fn wait_until(&self, condition: impl Fn(&InvocationState) -> bool) {
        let mut changed = self.changed.subscribe();
        while !condition(&self.lock()) {
            // The sender lives as long as `self`.
            drop(changed.changed().await);
        }
    }

    fn lock(&self) -> MutexGuard<'_, InvocationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Queue for InvocationQueue {
    async fn send(&self, messages: Vec<Outgoing>) -> BatchResult {
        self.source.send(messages).await
    }

    /// Waits while a message of each group is in progress, and forever once everything is settled: the
    /// consumer is then shut down.
    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, QueueError> {
        self.wait_until(InvocationState::has_more).await;
        Ok(self.lock().take_next(request.max))
    }

    /// Leases outlive the function, so none is ever renewed here: a change of visibility always returns the
    /// message.
    async fn change_visibility(&self, queue: QueueRef, entries: &[(Receipt, Duration)]) -> BatchResult {
        let results = self.source.change_visibility(queue, entries).await;
        let mut state = self.lock();
        for (receipt, _) in entries {
            if let Some(group) = state.in_progress.remove(receipt) {
                state.stopped.insert(group);
            }
        }
        drop(state);
        self.changed.send_replace(());
        results
    }

    async fn ack(&self, _: QueueRef, receipts: &[Receipt]) -> BatchResult {
        let mut state = self.lock();
        for receipt in receipts {
            state.in_progress.remove(receipt);
            state.acked.insert(receipt.clone());
        }
        drop(state);
        self.changed.send_replace(());
        vec![Ok(()); receipts.len()]
    }

    async fn depth(&self, queue: QueueRef) -> Result<Depth, QueueError> {
        self.source.depth(queue).await
    }

    fn depth_lag(&self) -> Duration {
        self.source.depth_lag()
    }

    async fn ready(&self) -> Result<(), QueueError> {
        self.source.ready().await
    }
}

/// A worker that takes a permit only while messages are waiting: an unused permit would be lost to the next
/// invocation.
struct PermitWhilePending {
    worker: Arc<dyn Worker>,
    queue: Arc<InvocationQueue>,
}

#[async_trait]
impl Worker for PermitWhilePending {
    fn queue(&self) -> QueueName {
        self.worker.queue()
    }

    fn max_batch(&self) -> usize {
        self.worker.max_batch()
    }

    async fn permit(&self) {
        self.queue.wait_until(InvocationState::has_more).await;
        self.worker.permit().await;
    }

    async fn work(&self, batch: &Batch<'_>) {
        self.worker.work(batch).await;
    }
}
