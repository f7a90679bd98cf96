//! Requests from Slack as a worker receives them.
#![expect(clippy::unwrap_used, reason = "it is test code: what it unwraps is what it claims")]

use std::sync::atomic::{AtomicU64, Ordering};

use ports::clock::TimestampMs;
use ports::queue::route::{Route, route};
use ports::queue::{Delivery, MessageId, Outgoing, Receipt};
use slack::envelope::Envelope;
use slack::event::EventHeader;

/// When the first request comes.
const BEGINNING: TimestampMs = TimestampMs(1_700_000_000_000);

/// The first delivery of a request's event, which comes when it happens and not before [`BEGINNING`].
///
/// # Panics
/// If Slack sends no such request, or it is of a direct message.
pub fn delivery(body: &str) -> Delivery {
    let envelope = Envelope::peek(body.as_bytes()).unwrap();
    let clock = envelope.event.and_then(|event| EventHeader::read(event).clock());
    let sent_at = clock.map_or(BEGINNING, |clock| TimestampMs(clock.micros() / 1_000).max(BEGINNING));
    let Route::Queues(mut sends) = route(&envelope, body) else {
        panic!("a direct message is not delivered")
    };
    Delivery { sent_at, ..delivery_of(sends.swap_remove(0)) }
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
