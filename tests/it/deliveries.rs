//! Requests from Slack as a worker receives them.

use std::sync::atomic::{AtomicU64, Ordering};

use shared::clock::TimestampMs;
use shared::queue::route::{Route, route};
use shared::queue::{Delivery, MessageId, Receipt};
use shared::slack::envelope::Envelope;

/// The first delivery of a request's event.
pub(crate) fn delivery(body: &str) -> Delivery {
    static SENT: AtomicU64 = AtomicU64::new(0);
    let Route::Queues(mut sends) = route(&Envelope::peek(body.as_bytes()).unwrap(), body) else {
        panic!("a direct message is not delivered")
    };
    let sent = sends.swap_remove(0);
    let number = SENT.fetch_add(1, Ordering::Relaxed);
    Delivery {
        message_id: MessageId(number.to_string()),
        group: sent.group,
        body: sent.body,
        receive_count: 1,
        sent_at: TimestampMs(1_700_000_000_000),
        receipt: Receipt(number.to_string()),
    }
}
