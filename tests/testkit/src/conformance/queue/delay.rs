//! A queue's delay makes every new message invisible, once.

use std::time::Duration;

use ports::queue::QueueName;

use super::case::{QueueCase, VISIBILITY, message};

const STATS: QueueName = QueueName::Stats;

pub(super) async fn a_delayed_message_is_invisible_for_exactly_the_queues_delay(case: QueueCase) {
    let delay = STATS.spec().delay;
    assert!(delay > case.traits.moment, "this queue shows nothing");
    let before = case.now();
    case.send(STATS, "g", "1").await;
    let after = case.now();
    case.advance(delay - case.traits.moment).await;
    case.expect(STATS, &[]).await;
    case.advance_until_visible(case.traits.moment).await;
    let received = case.expect(STATS, &["1"]).await;
    case.assert_sent(&received[0], before, after);
    assert_eq!(received[0].receive_count, 1);
}

pub(super) async fn delays_keep_the_order_of_a_group(case: QueueCase) {
    let apart = Duration::from_secs(10);
    case.send_all(vec![message(STATS, "g", "1"), message(STATS, "g", "2")]).await;
    case.advance(apart).await;
    case.send(STATS, "g", "3").await;
    case.advance_until_visible(STATS.spec().delay - apart).await;
    let first = case.expect(STATS, &["1", "2"]).await;
    case.finish_all(STATS, &first).await;
    case.expect(STATS, &[]).await;
    case.advance_until_visible(apart).await;
    case.expect(STATS, &["3"]).await;
}

pub(super) async fn a_delay_applies_only_once(case: QueueCase) {
    case.send(STATS, "g", "1").await;
    case.advance_until_visible(STATS.spec().delay).await;
    let first = case.expect(STATS, &["1"]).await;
    case.return_delivery(STATS, &first[0], Duration::ZERO).await;
    case.expect(STATS, &["1"]).await;
    case.advance_until_visible(VISIBILITY).await;
    case.expect(STATS, &["1"]).await;
}
