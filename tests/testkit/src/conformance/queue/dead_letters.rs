//! Messages that are received too often move to the dead-letter queue.

use std::time::Duration;

use ports::queue::topology::MAX_RECEIVE_COUNT;
use ports::queue::{Delivery, Depth, QueueRef};

use super::case::{EVENTS, QueueCase, bodies, message};

/// Receives these messages up to the queue's maximum receive count.
async fn exhaust(case: &QueueCase, queue: QueueRef, expected: &[&str], received_before: u32) {
    let mut request = case.request(queue, expected.len(), Duration::ZERO);
    request.visibility_timeout = Duration::ZERO;
    for round in 1..=MAX_RECEIVE_COUNT {
        let received = case.fixture.queue.receive(request).await.unwrap();
        assert_eq!(bodies(&received), expected);
        let counted = |delivery: &Delivery| delivery.receive_count == received_before + round;
        assert!(received.iter().all(counted), "{received:?}");
    }
}

/// One case for everything, because it takes a thousand receives to exhaust a message.
pub(super) async fn a_message_received_too_often_becomes_a_dead_letter(case: QueueCase) {
    let dead_letters = QueueRef::dead_letters(EVENTS);
    case.send_all(vec![message(EVENTS, "poison", "p1"), message(EVENTS, "poison", "p2 \u{1f9ea}")]).await;
    exhaust(&case, EVENTS.into(), &["p1", "p2 \u{1f9ea}"], 0).await;
    case.send_all(vec![message(EVENTS, "poison", "p3"), message(EVENTS, "well", "w1")]).await;
    case.expect(dead_letters, &[]).await;

    // The next receive moves them and continues with the messages behind them.
    let mut rest = case.receive(EVENTS, 10).await;
    rest.extend(case.receive_all(EVENTS).await);
    rest.sort_by(|a, b| a.body.cmp(&b.body));
    assert_eq!(bodies(&rest), ["p3", "w1"]);
    case.expect_depth(EVENTS, Depth { in_flight: 2, oldest_age_s: Some(0), ..Depth::default() }).await;
    case.expect_depth(dead_letters, Depth { waiting: 2, oldest_age_s: Some(0), ..Depth::default() }).await;

    let dead = case.expect(dead_letters, &["p1", "p2 \u{1f9ea}"]).await;
    assert!(dead.iter().all(|delivery| delivery.group.as_str() == "poison"), "{dead:?}");

    // Dead letters are leased and acked like any message.
    case.expect(dead_letters, &[]).await;
    case.finish(dead_letters, &dead[1]).await;
    case.return_delivery(dead_letters, &dead[0], Duration::ZERO).await;
    exhaust(&case, dead_letters, &["p1"], dead[0].receive_count).await;
    // A dead letter is not moved again.
    let again = case.expect(dead_letters, &["p1"]).await;
    assert_eq!(again[0].receive_count, dead[0].receive_count + MAX_RECEIVE_COUNT + 1);
    case.finish(dead_letters, &again[0]).await;
    case.expect_depth(dead_letters, Depth { oldest_age_s: Some(0), ..Depth::default() }).await;
    case.finish_all(EVENTS, &rest).await;
    case.expect_depth(EVENTS, Depth { oldest_age_s: Some(0), ..Depth::default() }).await;
}
