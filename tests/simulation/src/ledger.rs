//! A queue that records every message and checks each step of the fleet against the invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::ItemKey;
use ports::clock::{Clock, TimestampMs};
use ports::lease::has_ended;
use ports::queue::job::Origin;
use ports::queue::route::{Route, route};
use ports::queue::{
    BatchResult, DedupId, Delivery, Depth, GroupId, MessageId, Outgoing, Queue, QueueError, QueueName,
    QueueRef, Receipt, ReceiveRequest,
};
use ports::workers::WORKERS;
use slack::envelope::Envelope;

use super::erasing::{erased_jobs, is_erased};
use super::world::{FaultKind, Invariant, JumpyClock, World, lock};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::queue::MemoryQueue;

/// Suffix of the attempt state of a job that the runtime has found to be poison.
const POISON: &str = " poison";

/// The queue and a record of everything that happened on it.
pub(super) struct Ledger {
    world: Arc<World>,
    clock: JumpyClock,
    queue: MemoryQueue,
    archive: Arc<MemoryArchive>,
    keeps_bodies: bool,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    /// The queue and body of each accepted message, in the order of acceptance, unless there are too many.
    accepted: Vec<(QueueName, String)>,
    sent: BTreeSet<(QueueName, DedupId)>,
    /// Messages that were received and are not acked.
    delivered: BTreeMap<MessageId, DeliveredMessage>,
    /// The end of each message's lease.
    leases: BTreeMap<MessageId, TimestampMs>,
    /// Messages whose effects are durable, according to their handler.
    done: BTreeSet<MessageId>,
    /// Jobs that were sent back, by their origin.
    returned: BTreeSet<(QueueName, String)>,
    /// The messages in `done`, and those that their handler quarantined or that wait.
    decided: BTreeSet<MessageId>,
}

impl Book {
    fn delivered_as(&self, receipt: &Receipt) -> Option<&DeliveredMessage> {
        self.delivered.get(&message_id(receipt))
    }

    /// Forgets an acked message.
    fn forget(&mut self, receipt: &Receipt) {
        let id = message_id(receipt);
        self.delivered.remove(&id);
        self.leases.remove(&id);
        self.done.remove(&id);
        self.decided.remove(&id);
    }
}

/// The message of a receipt, which the memory queue makes from its id and the number of its receives.
fn message_id(receipt: &Receipt) -> MessageId {
    MessageId(receipt.0.rsplit_once('/').map_or("", |(id, _)| id).to_owned())
}

#[derive(Clone)]
struct DeliveredMessage {
    id: MessageId,
    origin: Origin,
    group: GroupId,
    body: String,
}

fn quarantine_key(queue: QueueName, origin: &Origin) -> ItemKey {
    ItemKey::new(format!("quarantine#{queue}"), sort_key(origin))
}

fn sort_key(origin: &Origin) -> String {
    format!("{:013}-{}", origin.sent_at_ms, origin.message_id)
}

impl Ledger {
    pub(super) fn new(world: &Arc<World>, archive: &Arc<MemoryArchive>) -> Arc<Self> {
        let queue = MemoryQueue::on_virtual_time(Arc::new(JumpyClock(Arc::clone(world))));
        if world.is_enabled(FaultKind::DeadLetters) && world.chance_percent(30) {
            queue.set_max_receives(Some(12));
        }
        Self::with_queue(world, archive, queue, true)
    }

    /// A queue that finds messages only among the first ones, and loses them in the end. It keeps no bodies.
    pub(super) fn bounded(
        world: &Arc<World>,
        archive: &Arc<MemoryArchive>,
        window: usize,
        retention: Duration,
    ) -> Arc<Self> {
        let queue = MemoryQueue::on_virtual_time(Arc::new(JumpyClock(Arc::clone(world))));
        queue.set_window(window);
        queue.set_retention(retention);
        Self::with_queue(world, archive, queue, false)
    }

    fn with_queue(
        world: &Arc<World>,
        archive: &Arc<MemoryArchive>,
        queue: MemoryQueue,
        keeps_bodies: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            keeps_bodies,
            world: Arc::clone(world),
            clock: JumpyClock(Arc::clone(world)),
            queue,
            archive: Arc::clone(archive),
            book: Mutex::default(),
        })
    }

    /// Ends early dead letters: a parked event is received 20 times before it ends.
    pub(super) fn restore_max_receives(&self) {
        self.queue.set_max_receives(None);
    }

    /// Notifies the queue of a clock jump.
    pub(super) fn clock_jumped(&self) {
        self.queue.clock_jumped();
    }

    /// Ends a random lease early, while its holder is still working.
    pub(super) fn end_random_lease(&self) {
        let pick = |leased| usize::try_from(self.world.random_below(leased as u64)).unwrap_or_default();
        if let Some(id) = self.queue.end_lease(pick) {
            self.world.fault(FaultKind::Redelivered, "queue", || id.to_string());
            lock(&self.book).leases.remove(&id);
        }
    }

    /// Returns the messages accepted on a queue, in order.
    pub(super) fn accepted(&self, queue: QueueName) -> Vec<String> {
        let book = lock(&self.book);
        book.accepted.iter().filter(|(on, _)| *on == queue).map(|(_, body)| body.clone()).collect()
    }

    /// Whether every queue that a worker consumes is empty, and no job waits aside.
    pub(super) async fn is_idle(&self) -> bool {
        for name in WORKERS.iter().map(|worker| worker.queue.name) {
            for queue in [name.into(), QueueRef::dead_letters(name)] {
                if !self.queue.depth(queue).await.is_ok_and(|depth| depth.is_empty()) {
                    return false;
                }
            }
        }
        // Read last: it takes the longest.
        self.archive.items_with("waiting#").is_empty()
    }

    /// Checks, after a 200 response, that the event was sent to every queue of its route.
    pub(super) fn check_acked(&self, body: &str) {
        let Ok(envelope) = Envelope::peek(body.as_bytes()) else { return };
        let Route::Queues(messages) = route(&envelope, body) else { return };
        let book = lock(&self.book);
        for message in messages {
            if !book.sent.contains(&(message.queue, message.dedup)) {
                let what = format!("{} was answered 200 but is not on {}", event_id_in(body), message.queue);
                self.world.report_violation(Invariant::Lost, what);
            }
        }
    }

    /// Checks, when a worker begins jobs, that no earlier job of their groups is undecided.
    pub(super) fn check_order(&self, queue: QueueName, jobs: &[&Delivery]) {
        let mut before: BTreeMap<&GroupId, &MessageId> = BTreeMap::new();
        for job in jobs {
            if let Some(earlier) = before.insert(&job.group, &job.message_id)
                && number(earlier) >= number(&job.message_id)
            {
                let what =
                    format!("{} was passed to the worker before {earlier} in {}", job.message_id, job.group);
                self.world.report_violation(Invariant::OutOfOrder, what);
            }
            for ahead in self.queue.unacked_before(queue.into(), &job.message_id) {
                let together = jobs.iter().any(|other| other.message_id == ahead);
                if !together && !self.is_decided(queue, &ahead) {
                    let what = format!("{} began before {ahead} in {}", job.message_id, job.group);
                    self.world.report_violation(Invariant::OutOfOrder, what);
                }
            }
        }
    }

    /// Records the outcome of a job: `done`, or quarantined.
    pub(super) fn record_outcome(&self, job: &Delivery, done: bool) {
        let mut book = lock(&self.book);
        book.decided.insert(job.message_id.clone());
        if done {
            book.done.insert(job.message_id.clone());
        }
    }

    /// Whether the later messages of the group may begin.
    fn is_decided(&self, queue: QueueName, id: &MessageId) -> bool {
        let (decided, delivered) = {
            let book = lock(&self.book);
            (book.decided.contains(id), book.delivered.get(id).cloned())
        };
        let has_verdict =
            |delivered| self.is_poison(queue, &delivered) || self.is_quarantined(queue, &delivered);
        decided || delivered.is_some_and(has_verdict)
    }

    fn is_poison(&self, queue: QueueName, delivered: &DeliveredMessage) -> bool {
        let team = delivered.group.as_str().split('#').next().unwrap_or_default();
        let key = ItemKey::new(format!("meta#attempts#{queue}#{team}"), delivered.id.to_string());
        self.archive
            .item(&key)
            .is_some_and(|item| item.text("attempts").is_some_and(|state| state.ends_with(POISON)))
    }

    /// Whether the effects of a message are durable or the message is in quarantine.
    fn is_settled(&self, queue: QueueRef, delivered: &DeliveredMessage) -> bool {
        // What a wake does is checked by its effects: no job may be left aside.
        delivered.group.as_str().ends_with("#wake")
            || lock(&self.book).done.contains(&delivered.id)
            || self.is_quarantined(queue.name, delivered)
            || self.is_aside(queue.name, delivered)
    }

    /// Whether a message waits aside, or has waited and was sent back.
    fn is_aside(&self, queue: QueueName, delivered: &DeliveredMessage) -> bool {
        let sort_key = sort_key(&delivered.origin);
        let team = delivered.group.as_str().split('#').next().unwrap_or_default();
        self.archive.item(&ItemKey::new(format!("waiting#{queue}#{team}"), &*sort_key)).is_some()
            || lock(&self.book).returned.contains(&(queue, sort_key))
    }

    /// Whether a message is in quarantine, or left it or was kept out because its content was erased.
    fn is_quarantined(&self, queue: QueueName, delivered: &DeliveredMessage) -> bool {
        let key = quarantine_key(queue, &delivered.origin);
        self.archive.item(&key).is_some()
            || !erased_jobs(&self.world, &self.archive, Some(&key)).is_empty()
            || is_erased(&self.archive, &delivered.body)
    }

    fn check_ack(
        &self,
        queue: QueueRef,
        receipts: &[Receipt],
        results: &BatchResult,
        ahead: &[Vec<MessageId>],
    ) {
        for ((receipt, result), ahead) in receipts.iter().zip(results).zip(ahead) {
            let Some(delivered) = lock(&self.book).delivered_as(receipt).cloned() else { continue };
            self.world.note("queue", || format!("ack {} on {queue}: {}", delivered.id, word(result)));
            if result.is_err() {
                continue;
            }
            if !self.is_settled(queue, &delivered) {
                let what = format!("{} was acked on {queue} but its effects are not durable", delivered.id);
                self.world.report_violation(Invariant::Lost, what);
            }
            if !lock(&self.book).done.contains(&delivered.id) && is_erased(&self.archive, &delivered.body) {
                let key = quarantine_key(queue.name, &delivered.origin);
                lock(&self.world.left_quarantine).entry(key).or_insert_with(|| delivered.body.clone());
            }
            // Dead letters go to quarantine one by one, in any order.
            for earlier in ahead.iter().filter(|_| !queue.dead_letters) {
                let known = lock(&self.book).delivered.get(earlier).cloned();
                if !known.is_some_and(|earlier| self.is_settled(queue, &earlier)) {
                    let what = format!("{} was acked on {queue} past {earlier}", delivered.id);
                    self.world.report_violation(Invariant::OutOfOrder, what);
                }
            }
        }
        let acked = receipts.iter().zip(results).filter(|(_, result)| result.is_ok());
        let mut book = lock(&self.book);
        acked.for_each(|(receipt, _)| book.forget(receipt));
    }

    fn note_deliveries(&self, request: &ReceiveRequest, deliveries: &[Delivery]) {
        let now = self.clock.now();
        let mut book = lock(&self.book);
        for delivery in deliveries {
            let origin = Origin::of(&delivery.body).unwrap_or_else(|| Origin {
                sent_at_ms: delivery.sent_at.0,
                message_id: delivery.message_id.to_string(),
                trips: 0,
                trial: None,
            });
            let (id, body) = (delivery.message_id.clone(), delivery.body.clone());
            let delivered = DeliveredMessage { id: id.clone(), origin, group: delivery.group.clone(), body };
            book.delivered.insert(id, delivered);
            let until = now.plus(request.visibility_timeout);
            let before = book.leases.insert(delivery.message_id.clone(), until);
            if before.is_some_and(|before| !has_ended(before, now)) {
                let what = format!("{} is leased twice at the same time", delivery.message_id);
                self.world.report_violation(Invariant::Doubled, what);
            }
        }
        if deliveries.len() > request.max {
            self.world.report_violation(Invariant::Bounded, format!("{} received at once", deliveries.len()));
        }
        drop(book);
        if !deliveries.is_empty() {
            self.world.note("queue", || {
                let ids: Vec<String> = deliveries
                    .iter()
                    .map(|delivery| format!("{}x{}", delivery.message_id, delivery.receive_count))
                    .collect();
                format!("deliver on {}: {}", request.queue, ids.join(" "))
            });
            if request.queue.dead_letters {
                for delivery in deliveries {
                    self.world.fault(FaultKind::DeadLetters, "queue", || delivery.message_id.to_string());
                }
            }
        }
    }

    /// Interleaves the groups at random. Each group keeps its order.
    fn reordered(&self, deliveries: Vec<Delivery>) -> Vec<Delivery> {
        let mut groups: BTreeMap<GroupId, std::collections::VecDeque<Delivery>> = BTreeMap::new();
        for delivery in deliveries {
            groups.entry(delivery.group.clone()).or_default().push_back(delivery);
        }
        let mut order = Vec::new();
        while !groups.is_empty() {
            let pick = usize::try_from(self.world.random_below(groups.len() as u64)).unwrap_or_default();
            let Some(group) = groups.keys().nth(pick).cloned() else { break };
            let emptied = groups.get_mut(&group).is_none_or(|waiting| {
                order.extend(waiting.pop_front());
                waiting.is_empty()
            });
            if emptied {
                groups.remove(&group);
            }
        }
        order
    }
}

#[async_trait]
impl Queue for Ledger {
    async fn send(&self, messages: Vec<Outgoing>) -> BatchResult {
        let results = self.queue.send(messages.clone()).await;
        let mut book = lock(&self.book);
        for (message, result) in messages.into_iter().zip(&results) {
            self.world
                .note("queue", || format!("send to {} {}: {}", message.queue, message.group, word(result)));
            if result.is_ok()
                && let Some(origin) = Origin::of(&message.body)
            {
                book.returned.insert((message.queue, sort_key(&origin)));
            }
            if result.is_ok() && book.sent.insert((message.queue, message.dedup)) && self.keeps_bodies {
                book.accepted.push((message.queue, message.body));
            }
        }
        results
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, QueueError> {
        // A real queue may return fewer messages than requested, as SQS does.
        let max =
            1 + usize::try_from(self.world.random_below(request.max.min(20) as u64)).unwrap_or_default();
        let deliveries = self.queue.receive(ReceiveRequest { max, ..request }).await?;
        self.note_deliveries(&request, &deliveries);
        if deliveries.len() > 1 && self.world.should_inject(FaultKind::Reordered) {
            self.world.fault(FaultKind::Reordered, "queue", || format!("{} messages", deliveries.len()));
            return Ok(self.reordered(deliveries));
        }
        Ok(deliveries)
    }

    async fn change_visibility(&self, queue: QueueRef, entries: &[(Receipt, Duration)]) -> BatchResult {
        let results = self.queue.change_visibility(queue, entries).await;
        let now = self.clock.now();
        let mut book = lock(&self.book);
        for ((receipt, timeout), result) in entries.iter().zip(&results) {
            let Some(id) = book.delivered_as(receipt).map(|delivered| delivered.id.clone()) else {
                continue;
            };
            self.world.note("queue", || format!("{id} on {queue} for {timeout:?}: {}", word(result)));
            if result.is_ok() {
                book.leases.insert(id, now.plus(*timeout));
            }
        }
        results
    }

    async fn ack(&self, queue: QueueRef, receipts: &[Receipt]) -> BatchResult {
        let ids: Vec<Option<MessageId>> = {
            let book = lock(&self.book);
            receipts.iter().map(|receipt| Some(book.delivered_as(receipt)?.id.clone())).collect()
        };
        let ahead: Vec<Vec<MessageId>> = ids
            .iter()
            .map(|id| id.as_ref().map(|id| self.queue.unacked_before(queue, id)).unwrap_or_default())
            .collect();
        let results = self.queue.ack(queue, receipts).await;
        self.check_ack(queue, receipts, &results, &ahead);
        results
    }

    async fn depth(&self, queue: QueueRef) -> Result<Depth, QueueError> {
        self.queue.depth(queue).await
    }

    async fn ready(&self) -> Result<(), QueueError> {
        self.queue.ready().await
    }
}

fn word(result: &Result<(), QueueError>) -> &'static str {
    match result {
        Ok(()) => "ok",
        Err(QueueError::LeaseLost) => "lease lost",
        Err(QueueError::Unavailable(_)) => "unavailable",
        Err(QueueError::TooLarge { .. }) => "too large",
    }
}

/// Returns the number of a message: messages are numbered in the order of sending.
fn number(id: &MessageId) -> u64 {
    id.0.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Returns the event id in a body.
pub(super) fn event_id_in(body: &str) -> String {
    let after = body.split("\"event_id\":\"").nth(1).unwrap_or_default();
    after.split('"').next().unwrap_or_default().to_owned()
}
