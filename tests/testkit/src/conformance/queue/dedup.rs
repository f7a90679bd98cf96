//! What was sent twice is delivered once, for as long as its id is remembered.

use ports::queue::{DEDUPLICATION_WINDOW, MAX_MESSAGE_BYTES, QueueError, QueueName};

use super::DedupScope;
use super::bench::{Bench, EVENTS, message, message_with_id};

pub(super) async fn a_duplicate_is_accepted_and_not_delivered(bench: Bench) {
    bench.send(EVENTS, "g", "1").await;
    bench.send(EVENTS, "g", "1").await;
    let received = bench.expect(EVENTS, &["1"]).await;
    bench.send(EVENTS, "g", "1").await;
    bench.finish(EVENTS, &received[0]).await;
    bench.expect(EVENTS, &[]).await;
}

pub(super) async fn an_id_is_remembered_after_its_ack(bench: Bench) {
    bench.send(EVENTS, "g", "1").await;
    let received = bench.expect(EVENTS, &["1"]).await;
    bench.finish(EVENTS, &received[0]).await;
    bench.send_all(vec![message(EVENTS, "g", "1"), message(EVENTS, "g", "2")]).await;
    bench.expect(EVENTS, &["2"]).await;
}

pub(super) async fn an_id_is_forgotten_exactly_when_the_window_has_passed(bench: Bench) {
    bench.send_all(vec![message_with_id(EVENTS, "g", "first", "id")]).await;
    let received = bench.expect(EVENTS, &["first"]).await;
    bench.finish(EVENTS, &received[0]).await;
    bench.advance(DEDUPLICATION_WINDOW - bench.traits.moment).await;
    bench.send_all(vec![message_with_id(EVENTS, "g", "too early", "id")]).await;
    bench.expect(EVENTS, &[]).await;
    bench.advance(bench.traits.moment).await;
    bench.send_all(vec![message_with_id(EVENTS, "g", "new", "id")]).await;
    let received = bench.expect(EVENTS, &["new"]).await;
    bench.finish(EVENTS, &received[0]).await;
    // The new one has a window of its own.
    bench.send_all(vec![message_with_id(EVENTS, "g", "too early again", "id")]).await;
    bench.expect(EVENTS, &[]).await;
}

pub(super) async fn a_duplicate_does_not_prolong_the_window(bench: Bench) {
    bench.send_all(vec![message_with_id(EVENTS, "g", "first", "id")]).await;
    bench.advance(DEDUPLICATION_WINDOW / 2).await;
    bench.send_all(vec![message_with_id(EVENTS, "g", "duplicate", "id")]).await;
    bench.advance(DEDUPLICATION_WINDOW / 2).await;
    bench.send_all(vec![message_with_id(EVENTS, "g", "new", "id")]).await;
    bench.expect(EVENTS, &["first", "new"]).await;
}

pub(super) async fn an_id_is_remembered_for_one_queue_only(bench: Bench) {
    bench
        .send_all(vec![
            message_with_id(EVENTS, "g", "event", "id"),
            message_with_id(QueueName::Channels, "g", "channel", "id"),
        ])
        .await;
    bench.expect(EVENTS, &["event"]).await;
    bench.expect(QueueName::Channels, &["channel"]).await;
}

pub(super) async fn an_id_is_remembered_within_its_scope(bench: Bench) {
    bench.send_all(vec![message_with_id(EVENTS, "a", "first", "id")]).await;
    bench.send_all(vec![message_with_id(EVENTS, "b", "of another group", "id")]).await;
    let delivered: &[&str] = match bench.traits.dedup_scope {
        DedupScope::Queue => &["first"],
        DedupScope::Group => &["first", "of another group"],
    };
    bench.expect_sorted(EVENTS, delivered).await;
}

pub(super) async fn a_duplicate_within_a_batch_is_dropped(bench: Bench) {
    let sent = [("1", "id"), ("2", "other"), ("3", "id"), ("4", "last")];
    bench.send_all(sent.map(|(body, id)| message_with_id(EVENTS, "g", body, id)).into()).await;
    bench.expect(EVENTS, &["1", "2", "4"]).await;
}

pub(super) async fn a_refused_message_leaves_no_id_behind(bench: Bench) {
    let bytes = MAX_MESSAGE_BYTES + 1;
    let refused =
        bench.fixture.queue.send(vec![message_with_id(EVENTS, "g", &"x".repeat(bytes), "id")]).await;
    assert_eq!(refused, [Err(QueueError::TooLarge { bytes })]);
    bench.send_all(vec![message_with_id(EVENTS, "g", "smaller", "id")]).await;
    bench.expect(EVENTS, &["smaller"]).await;
}
