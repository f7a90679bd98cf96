//! Deliveries for workers, from Slack's requests or from a queue.
#![expect(clippy::unwrap_used, reason = "test code: an unwrap that fails is a test that fails")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ports::clock::TimestampMs;
use ports::queue::route::{Route, route};
use ports::queue::{Delivery, MessageId, Outgoing, Queue, QueueError, QueueName, Receipt, ReceiveRequest};
use serde_json::Value;
use slack::envelope::Envelope;
use slack::event::EventHeader;

use crate::corpus::{TEAM, event};

/// The time of the first request.
const BEGINNING: TimestampMs = TimestampMs(1_700_000_000_000);

/// The first delivery of a request's event. It is sent at the time of the event, but not before
/// [`BEGINNING`].
///
/// # Panics
/// If the body is not a request of Slack's, or is a direct message.
pub fn delivery(body: &str) -> Delivery {
    let envelope = Envelope::peek(body.as_bytes()).unwrap();
    let clock = envelope.event.and_then(|event| EventHeader::read(event).clock());
    let sent_at = clock.map_or(BEGINNING, |clock| TimestampMs(clock.micros() / 1_000).max(BEGINNING));
    let Route::Queues(mut sends) = route(&envelope, body) else {
        panic!("a direct message is not delivered")
    };
    Delivery { sent_at, ..delivery_of(sends.swap_remove(0)) }
}

/// The first deliveries of events of [`TEAM`], one request for each event.
///
/// # Panics
/// See [`delivery`].
pub fn deliveries(events: &[Value]) -> Vec<Delivery> {
    let numbered = events.iter().enumerate();
    numbered.map(|(number, event)| delivery(&event::envelope(TEAM, &format!("Ev{number}"), event))).collect()
}

/// Receives the visible messages of a queue.
///
/// # Panics
/// If the queue fails.
pub async fn receive_visible(queue: &dyn Queue, name: QueueName) -> Vec<Delivery> {
    receive(queue, name, 100).await
}

async fn receive(queue: &dyn Queue, name: QueueName, max: usize) -> Vec<Delivery> {
    let (visibility_timeout, wait) = (Duration::from_secs(30), Duration::ZERO);
    queue.receive(ReceiveRequest { queue: name.into(), max, visibility_timeout, wait }).await.unwrap()
}

/// The first delivery of a message, at [`BEGINNING`].
pub fn delivery_of(sent: Outgoing) -> Delivery {
    static SENT: AtomicU64 = AtomicU64::new(0);
    let number = SENT.fetch_add(1, Ordering::Relaxed);
    Delivery {
        message_id: MessageId(number.to_string()),
        group: sent.group,
        body: sent.body,
        receive_count: 1,
        sent_at: BEGINNING,
        receipt: Receipt(number.to_string()),
    }
}

/// Receives jobs and passes them to `work` until none can be received. `work` returns for each job whether it
/// is done; the other jobs become visible again when their lease of 30 s ends.
///
/// # Panics
/// If the queue fails. A lost lease is not a failure: a concurrent drain may have advanced the time.
pub async fn drain(queue: &dyn Queue, name: QueueName, work: impl AsyncFn(&[Delivery]) -> Vec<bool>) {
    loop {
        let jobs = receive(queue, name, 10).await;
        if jobs.is_empty() {
            return;
        }
        let are_done = work(&jobs).await;
        let done = jobs.into_iter().zip(are_done).filter(|(_, is_done)| *is_done);
        let receipts: Vec<Receipt> = done.map(|(job, _)| job.receipt).collect();
        for acked in queue.ack(name.into(), &receipts).await {
            assert!(matches!(acked, Ok(()) | Err(QueueError::LeaseLost)), "{acked:?}");
        }
    }
}
