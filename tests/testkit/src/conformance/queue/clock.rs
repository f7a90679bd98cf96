//! A queue on a local clock, which may be set back: no wait lasts as long as the clock was ahead.

use std::time::Duration;

use ports::lease::MAX_LEASE;
use ports::queue::QueueError;

use super::case::{EVENTS, QueueCase, message, message_with_id};

const HOURS: Duration = Duration::from_secs(4 * 3600);

pub(super) async fn a_lease_lasts_no_longer_because_a_clock_was_hours_ahead(case: QueueCase) {
    let Some(clock) = case.fixture.local_clock.clone() else { return };
    case.send_all(vec![message(EVENTS, "g", "1"), message(EVENTS, "g", "2")]).await;
    clock.advance(HOURS);
    let ahead = case.expect(EVENTS, &["1", "2"]).await;
    clock.set_back(HOURS);
    let again = case.expect(EVENTS, &["1", "2"]).await;
    let acked = case.fixture.queue.ack(EVENTS.into(), &[ahead[0].receipt.clone()]).await;
    assert_eq!(acked, [Err(QueueError::LeaseLost)]);
    case.finish(EVENTS, &again[0]).await;
    case.finish(EVENTS, &again[1]).await;
}

pub(super) async fn a_lease_outlives_a_small_step_back_of_the_clock(case: QueueCase) {
    let Some(clock) = case.fixture.local_clock.clone() else { return };
    case.send(EVENTS, "g", "1").await;
    let received = case.expect(EVENTS, &["1"]).await;
    clock.set_back(Duration::from_secs(60));
    case.expect(EVENTS, &[]).await;
    case.finish(EVENTS, &received[0]).await;
}

pub(super) async fn a_message_of_a_clock_that_was_ahead_does_not_wait_for_it(case: QueueCase) {
    let Some(clock) = case.fixture.local_clock.clone() else { return };
    for ahead in [Duration::from_secs(300), HOURS] {
        let text = ahead.as_secs().to_string();
        clock.advance(ahead);
        case.send(EVENTS, &text, &text).await;
        clock.set_back(ahead);
        let received = case.expect(EVENTS, &[&text]).await;
        case.finish(EVENTS, &received[0]).await;
    }
}

pub(super) async fn an_id_is_remembered_after_a_small_step_back_and_forgotten_after_hours(case: QueueCase) {
    let Some(clock) = case.fixture.local_clock.clone() else { return };
    case.send_all(vec![message_with_id(EVENTS, "g", "first", "id")]).await;
    let received = case.expect(EVENTS, &["first"]).await;
    case.finish(EVENTS, &received[0]).await;
    clock.set_back(Duration::from_secs(60));
    case.send_all(vec![message_with_id(EVENTS, "g", "duplicate", "id")]).await;
    case.expect(EVENTS, &[]).await;
    clock.set_back(HOURS);
    for (text, expected) in [("new", &["new"][..]), ("duplicate of the new one", &[])] {
        case.send_all(vec![message_with_id(EVENTS, "g", text, "id")]).await;
        for delivery in case.expect(EVENTS, expected).await {
            case.finish(EVENTS, &delivery).await;
        }
    }
}

pub(super) async fn no_lease_is_longer_than_the_maximum(case: QueueCase) {
    let Some(clock) = case.fixture.local_clock.clone() else { return };
    case.send(EVENTS, "g", "1").await;
    let mut request = case.request(EVENTS, 1, Duration::ZERO);
    request.visibility_timeout = HOURS;
    let received = case.fixture.queue.receive(request).await.unwrap();
    case.return_delivery(EVENTS, &received[0], HOURS).await;
    clock.advance(MAX_LEASE - case.traits.moment);
    case.expect(EVENTS, &[]).await;
    clock.advance(case.traits.moment);
    case.expect(EVENTS, &["1"]).await;
}
