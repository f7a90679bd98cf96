//! A queue's delay holds every message back, once.

use std::time::Duration;

use ports::queue::QueueName;

use super::bench::{Bench, VISIBILITY, message};

const STATS: QueueName = QueueName::Stats;

pub(super) async fn a_delayed_message_is_held_back_exactly_as_long_as_the_queue_says(bench: Bench) {
    let delay = STATS.spec().delay;
    assert!(delay > bench.traits.moment, "this queue shows nothing");
    let before = bench.now();
    bench.send(STATS, "g", "1").await;
    let after = bench.now();
    bench.advance(delay - bench.traits.moment).await;
    bench.expect(STATS, &[]).await;
    bench.advance_until_visible(bench.traits.moment).await;
    let received = bench.expect(STATS, &["1"]).await;
    bench.assert_sent(&received[0], before, after);
    assert_eq!(received[0].receive_count, 1);
}

pub(super) async fn delays_keep_the_order_of_a_group(bench: Bench) {
    let apart = Duration::from_secs(10);
    bench.send_all(vec![message(STATS, "g", "1"), message(STATS, "g", "2")]).await;
    bench.advance(apart).await;
    bench.send(STATS, "g", "3").await;
    bench.advance_until_visible(STATS.spec().delay - apart).await;
    let first = bench.expect(STATS, &["1", "2"]).await;
    for delivery in &first {
        bench.finish(STATS, delivery).await;
    }
    bench.expect(STATS, &[]).await;
    bench.advance_until_visible(apart).await;
    bench.expect(STATS, &["3"]).await;
}

pub(super) async fn a_delay_happens_once(bench: Bench) {
    bench.send(STATS, "g", "1").await;
    bench.advance_until_visible(STATS.spec().delay).await;
    let first = bench.expect(STATS, &["1"]).await;
    bench.give_back(STATS, &first[0], Duration::ZERO).await;
    bench.expect(STATS, &["1"]).await;
    bench.advance_until_visible(VISIBILITY).await;
    bench.expect(STATS, &["1"]).await;
}
