//! The depth that a queue reports.

use std::time::Duration;

use ports::queue::{Depth, QueueName, QueueRef};

use super::case::{EVENTS, QueueCase, VISIBILITY, message};

/// The depth of an empty queue, the base of every expected depth.
const EMPTY: Depth = Depth { waiting: 0, delayed: 0, in_flight: 0, oldest_age_s: Some(0) };

pub(super) async fn an_empty_queue_has_no_depth(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    for empty in [QueueRef::from(QueueName::Files), QueueRef::dead_letters(EVENTS)] {
        case.expect_depth(empty, EMPTY).await;
    }
    let received = case.expect(EVENTS, &["1"]).await;
    case.finish(EVENTS, &received[0]).await;
    case.advance(Duration::from_secs(60)).await;
    case.expect_depth(EVENTS, EMPTY).await;
}

pub(super) async fn every_message_is_counted_by_its_state(case: QueueCase) {
    case.send_all(["1", "2", "3"].map(|text| message(EVENTS, "g", text)).into()).await;
    case.expect_depth(EVENTS, Depth { waiting: 3, ..EMPTY }).await;
    let first = case.receive(EVENTS, 1).await;
    // Messages behind a leased one count as waiting.
    case.expect_depth(EVENTS, Depth { waiting: 2, in_flight: 1, ..EMPTY }).await;
    case.finish(EVENTS, &first[0]).await;
    case.expect_depth(EVENTS, Depth { waiting: 2, ..EMPTY }).await;
    case.expect(EVENTS, &["2", "3"]).await;
    case.expect_depth(EVENTS, Depth { in_flight: 2, ..EMPTY }).await;
}

pub(super) async fn a_delayed_message_is_counted_as_delayed(case: QueueCase) {
    let delay = QueueName::Stats.spec().delay;
    case.send(QueueName::Stats, "g", "1").await;
    case.advance(Duration::from_secs(10)).await;
    case.send(QueueName::Stats, "g", "2").await;
    case.expect_depth(QueueName::Stats, Depth { delayed: 2, oldest_age_s: Some(10), ..EMPTY }).await;
    case.advance(delay - Duration::from_secs(10)).await;
    let oldest_age_s = Some(delay.as_secs());
    case.expect_depth(QueueName::Stats, Depth { waiting: 1, delayed: 1, oldest_age_s, ..EMPTY }).await;
}

pub(super) async fn a_backing_off_message_is_in_flight_and_an_expired_one_waits(case: QueueCase) {
    case.send_all(vec![message(EVENTS, "a", "1"), message(EVENTS, "b", "2")]).await;
    let received = case.expect_sorted(EVENTS, &["1", "2"]).await;
    case.return_delivery(EVENTS, &received[0], VISIBILITY * 2).await;
    case.return_delivery(EVENTS, &received[1], Duration::ZERO).await;
    case.expect_depth(EVENTS, Depth { waiting: 1, in_flight: 1, ..EMPTY }).await;
    case.advance(VISIBILITY * 2).await;
    let oldest_age_s = Some((VISIBILITY * 2).as_secs());
    case.expect_depth(EVENTS, Depth { waiting: 2, oldest_age_s, ..EMPTY }).await;
}

pub(super) async fn the_age_is_that_of_the_oldest_message(case: QueueCase) {
    case.send(EVENTS, "a", "1").await;
    case.advance(Duration::from_millis(4900)).await;
    case.send(EVENTS, "b", "2").await;
    case.advance(Duration::from_millis(7000)).await;
    case.expect_depth(EVENTS, Depth { waiting: 2, oldest_age_s: Some(11), ..EMPTY }).await;
    // A leased message still counts.
    let received = case.expect_sorted(EVENTS, &["1", "2"]).await;
    case.expect_depth(EVENTS, Depth { in_flight: 2, oldest_age_s: Some(11), ..EMPTY }).await;
    case.finish(EVENTS, &received[0]).await;
    case.expect_depth(EVENTS, Depth { in_flight: 1, oldest_age_s: Some(7), ..EMPTY }).await;
}
