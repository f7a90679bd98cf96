//! The helpers of the cases: one queue, with short names for the usual steps.

use std::time::Duration;

use ports::clock::TimestampMs;
use ports::queue::{
    BatchResult, DedupId, Delivery, Depth, GroupId, Outgoing, QueueError, QueueName, QueueRef, Receipt,
    ReceiveRequest,
};

use tokio::time::{Instant, interval};

use super::{QueueFixture, QueueTraits};

/// The visibility timeout of the cases.
pub(super) const VISIBILITY: Duration = Duration::from_secs(30);

/// A wait that no test should reach the end of, even if it waits for a queue's delay in real time.
pub(super) const LONG: Duration = Duration::from_secs(180);

/// Well before the end of a [`LONG`] wait, well after that of a short one, and ample for a busy machine.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// The queue most cases use.
pub(super) const EVENTS: QueueName = QueueName::Events;

/// A fixture in use.
pub(super) struct QueueCase {
    pub(super) fixture: QueueFixture,
    pub(super) traits: QueueTraits,
}

/// A message whose deduplication id is its body's hash.
pub(super) fn message(queue: QueueName, group: &str, body: &str) -> Outgoing {
    message_with_id(queue, group, body, body)
}

/// A message with this deduplication id.
pub(super) fn message_with_id(queue: QueueName, group: &str, body: &str, id: &str) -> Outgoing {
    Outgoing {
        queue,
        group: GroupId::from_parts(&[group]),
        dedup: DedupId::from_parts(&[id.as_bytes()]),
        body: body.into(),
    }
}

pub(super) fn bodies(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.body.as_str()).collect()
}

pub(super) fn bodies_of<'a>(group: &str, deliveries: &'a [Delivery]) -> Vec<&'a str> {
    let of_group = deliveries.iter().filter(|delivery| delivery.group.as_str() == group);
    of_group.map(|delivery| delivery.body.as_str()).collect()
}

impl QueueCase {
    pub(super) fn now(&self) -> TimestampMs {
        self.fixture.clock.now()
    }

    pub(super) async fn advance(&self, by: Duration) {
        (self.fixture.advance)(by).await;
    }

    /// Moves time to when a message becomes visible, plus the backend's permitted lag.
    pub(super) async fn advance_until_visible(&self, by: Duration) {
        self.advance(by + self.traits.expiry_lag).await;
    }

    /// Sends one message that must be accepted.
    pub(super) async fn send(&self, queue: QueueName, group: &str, body: &str) {
        self.send_all(vec![message(queue, group, body)]).await;
    }

    /// Sends messages that must all be accepted.
    pub(super) async fn send_all(&self, messages: Vec<Outgoing>) {
        let accepted = vec![Ok(()); messages.len()];
        assert_eq!(self.fixture.queue.send(messages).await, accepted);
    }

    pub(super) fn request(&self, queue: impl Into<QueueRef>, max: usize, wait: Duration) -> ReceiveRequest {
        ReceiveRequest { queue: queue.into(), max, visibility_timeout: VISIBILITY, wait }
    }

    /// One receive without a wait.
    pub(super) async fn receive(&self, queue: impl Into<QueueRef>, max: usize) -> Vec<Delivery> {
        self.receive_waiting(queue, max, Duration::ZERO).await
    }

    pub(super) async fn receive_waiting(
        &self,
        queue: impl Into<QueueRef>,
        max: usize,
        wait: Duration,
    ) -> Vec<Delivery> {
        let deliveries = self.fixture.queue.receive(self.request(queue, max, wait)).await.unwrap();
        assert!(deliveries.len() <= max.min(self.traits.max_receive), "received more than requested");
        deliveries
    }

    /// Receives repeatedly until no message is visible.
    pub(super) async fn receive_all(&self, queue: impl Into<QueueRef>) -> Vec<Delivery> {
        let queue = queue.into();
        let mut all = Vec::new();
        loop {
            let some = self.receive(queue, 1000).await;
            if some.is_empty() {
                return all;
            }
            all.extend(some);
        }
    }

    /// Receives everything and asserts these bodies in this order.
    pub(super) async fn expect(&self, queue: impl Into<QueueRef>, expected: &[&str]) -> Vec<Delivery> {
        let deliveries = self.receive_all(queue).await;
        assert_eq!(bodies(&deliveries), expected);
        deliveries
    }

    /// Like [`QueueCase::expect`] for messages of several groups, which arrive in any order: sorted by their
    /// bodies.
    pub(super) async fn expect_sorted(&self, queue: impl Into<QueueRef>, expected: &[&str]) -> Vec<Delivery> {
        let mut deliveries = self.receive_all(queue).await;
        deliveries.sort_by(|a, b| a.body.cmp(&b.body));
        assert_eq!(bodies(&deliveries), expected);
        deliveries
    }

    pub(super) async fn ack(&self, queue: impl Into<QueueRef>, receipts: &[&Receipt]) -> BatchResult {
        let receipts: Vec<Receipt> = receipts.iter().map(|receipt| (*receipt).clone()).collect();
        self.fixture.queue.ack(queue.into(), &receipts).await
    }

    pub(super) async fn change(
        &self,
        queue: impl Into<QueueRef>,
        receipt: &Receipt,
        timeout: Duration,
    ) -> Result<(), QueueError> {
        let mut results =
            self.fixture.queue.change_visibility(queue.into(), &[(receipt.clone(), timeout)]).await;
        assert_eq!(results.len(), 1, "one result per entry");
        results.remove(0)
    }

    /// Acks a delivery whose lease holds.
    pub(super) async fn finish(&self, queue: impl Into<QueueRef>, delivery: &Delivery) {
        assert_eq!(self.ack(queue, &[&delivery.receipt]).await, [Ok(())]);
    }

    /// Acks deliveries whose leases hold.
    pub(super) async fn finish_all(&self, queue: QueueName, deliveries: &[Delivery]) {
        for delivery in deliveries {
            self.finish(queue, delivery).await;
        }
    }

    /// Asserts the answer to a second ack.
    pub(super) fn expect_second_ack(&self, answer: Result<(), QueueError>) {
        let refused = Err(QueueError::LeaseLost);
        assert!(answer == refused || (answer == Ok(()) && !self.traits.ack_twice_is_refused), "{answer:?}");
    }

    /// Returns a delivery whose lease holds; it becomes visible after `backoff`.
    pub(super) async fn return_delivery(
        &self,
        queue: impl Into<QueueRef>,
        delivery: &Delivery,
        backoff: Duration,
    ) {
        assert_eq!(self.change(queue, &delivery.receipt, backoff).await, Ok(()));
    }

    /// Waits until the depth is as expected, at most for the backend's lag.
    pub(super) async fn expect_depth(&self, queue: impl Into<QueueRef>, expected: Depth) {
        let queue = queue.into();
        let oldest_age_s = expected.oldest_age_s.filter(|_| self.traits.reports_age);
        let expected = Depth { oldest_age_s, ..expected };
        let settled = Instant::now() + self.fixture.queue.depth_lag();
        let mut poll = interval(Duration::from_secs(1));
        loop {
            poll.tick().await;
            let last = Instant::now() >= settled;
            let depth = self.fixture.queue.depth(queue).await.unwrap();
            if depth == expected {
                return;
            }
            assert!(!last, "{depth:?}, expected {expected:?}");
        }
    }

    /// Asserts that a message was sent between these times of the fixture, within the permitted clock skew.
    pub(super) fn assert_sent(&self, delivery: &Delivery, after: TimestampMs, before: TimestampMs) {
        let skew = self.traits.clock_skew;
        let sent_at = delivery.sent_at;
        assert!(
            sent_at.plus(skew) >= after && sent_at <= before.plus(skew),
            "sent at {sent_at:?}, which is not between {after:?} and {before:?}"
        );
    }
}
