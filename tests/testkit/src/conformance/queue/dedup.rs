//! A message that is sent twice is delivered once, as long as its deduplication id is remembered.

use ports::queue::{DEDUPLICATION_WINDOW, MAX_MESSAGE_BYTES, QueueError, QueueName};

use super::DedupScope;
use super::case::{EVENTS, QueueCase, message, message_with_id};

pub(super) async fn a_duplicate_is_accepted_and_not_delivered(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    case.send(EVENTS, "g", "1").await;
    let received = case.expect(EVENTS, &["1"]).await;
    case.send(EVENTS, "g", "1").await;
    case.finish(EVENTS, &received[0]).await;
    case.expect(EVENTS, &[]).await;
}

pub(super) async fn an_id_is_remembered_after_its_ack(case: QueueCase) {
    case.send(EVENTS, "g", "1").await;
    let received = case.expect(EVENTS, &["1"]).await;
    case.finish(EVENTS, &received[0]).await;
    case.send_all(vec![message(EVENTS, "g", "1"), message(EVENTS, "g", "2")]).await;
    case.expect(EVENTS, &["2"]).await;
}

pub(super) async fn an_id_is_forgotten_exactly_when_the_window_has_passed(case: QueueCase) {
    case.send_all(vec![message_with_id(EVENTS, "g", "first", "id")]).await;
    let received = case.expect(EVENTS, &["first"]).await;
    case.finish(EVENTS, &received[0]).await;
    case.advance(DEDUPLICATION_WINDOW - case.traits.moment).await;
    case.send_all(vec![message_with_id(EVENTS, "g", "too early", "id")]).await;
    case.expect(EVENTS, &[]).await;
    case.advance(case.traits.moment).await;
    case.send_all(vec![message_with_id(EVENTS, "g", "new", "id")]).await;
    let received = case.expect(EVENTS, &["new"]).await;
    case.finish(EVENTS, &received[0]).await;
    // The new one has a window of its own.
    case.send_all(vec![message_with_id(EVENTS, "g", "too early again", "id")]).await;
    case.expect(EVENTS, &[]).await;
}

pub(super) async fn a_duplicate_does_not_prolong_the_window(case: QueueCase) {
    case.send_all(vec![message_with_id(EVENTS, "g", "first", "id")]).await;
    case.advance(DEDUPLICATION_WINDOW / 2).await;
    case.send_all(vec![message_with_id(EVENTS, "g", "duplicate", "id")]).await;
    case.advance(DEDUPLICATION_WINDOW / 2).await;
    case.send_all(vec![message_with_id(EVENTS, "g", "new", "id")]).await;
    case.expect(EVENTS, &["first", "new"]).await;
}

pub(super) async fn an_id_is_remembered_for_one_queue_only(case: QueueCase) {
    case.send_all(vec![
        message_with_id(EVENTS, "g", "event", "id"),
        message_with_id(QueueName::Channels, "g", "channel", "id"),
    ])
    .await;
    case.expect(EVENTS, &["event"]).await;
    case.expect(QueueName::Channels, &["channel"]).await;
}

pub(super) async fn an_id_is_remembered_within_its_scope(case: QueueCase) {
    case.send_all(vec![message_with_id(EVENTS, "a", "first", "id")]).await;
    case.send_all(vec![message_with_id(EVENTS, "b", "of another group", "id")]).await;
    let delivered: &[&str] = match case.traits.dedup_scope {
        DedupScope::Queue => &["first"],
        DedupScope::Group => &["first", "of another group"],
    };
    case.expect_sorted(EVENTS, delivered).await;
}

pub(super) async fn a_duplicate_within_a_batch_is_dropped(case: QueueCase) {
    let sent = [("1", "id"), ("2", "other"), ("3", "id"), ("4", "last")];
    case.send_all(sent.map(|(body, id)| message_with_id(EVENTS, "g", body, id)).into()).await;
    case.expect(EVENTS, &["1", "2", "4"]).await;
}

pub(super) async fn a_refused_message_leaves_no_id_behind(case: QueueCase) {
    let bytes = MAX_MESSAGE_BYTES + 1;
    let refused = case.fixture.queue.send(vec![message_with_id(EVENTS, "g", &"x".repeat(bytes), "id")]).await;
    assert_eq!(refused, [Err(QueueError::TooLarge { bytes })]);
    case.send_all(vec![message_with_id(EVENTS, "g", "smaller", "id")]).await;
    case.expect(EVENTS, &["smaller"]).await;
}
