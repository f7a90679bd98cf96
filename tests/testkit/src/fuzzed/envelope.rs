//! A signed body: how `ingest` decodes and routes it.

use ports::queue::job::Job;
use ports::queue::route::{Route, route};
use slack::envelope::Envelope;
use slack::verification::without_token;

/// The group of events with invalid ids.
const INVALID_GROUP: &str = "invalid";

/// A body is refused, or is routed unchanged except for the verification token, in a group made only of ids,
/// and in the same way each time.
///
/// # Panics
/// If that does not hold.
pub fn check(body: &[u8]) {
    let Ok(envelope) = Envelope::peek(body) else { return };
    let text = str::from_utf8(body).expect("a peeked envelope is UTF-8");
    let Route::Queues(messages) = route(&envelope, text) else { return };
    assert!(!messages.is_empty(), "an event that goes nowhere would be lost");
    for message in &messages {
        let job = Job::decode(&message.body).expect("ingest makes jobs that workers can read");
        let event = job.event().expect("an event");
        assert_eq!(event.get(), without_token(text).trim_ascii(), "the event travels as it came");
        let group = message.group.as_str();
        let is_id = |part: &str| {
            (2..=30).contains(&part.len())
                && part.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        };
        assert!(group == INVALID_GROUP || group.split('#').all(is_id), "{group:?}");
    }
    let Route::Queues(again) = route(&envelope, text) else { panic!("not routed the second time") };
    assert!(messages.iter().map(|message| message.dedup).eq(again.iter().map(|message| message.dedup)));
}
