use testkit::memory::archive::MemoryArchive;

use super::*;
use crate::fixture::{at, channel_id, filled, message, team};

async fn backfilled(archive: &MemoryArchive, seconds: std::ops::Range<i64>) {
    for second in seconds {
        message(archive, second, &version::zero()).await;
    }
}

async fn found(archive: &MemoryArchive) -> Option<Ts> {
    first_post(archive, &team(), &channel_id("C1"), &at(0)).await.unwrap()
}

#[tokio::test]
async fn the_search_skips_any_number_of_backfilled_messages_in_filled_spans() {
    let archive = MemoryArchive::new();
    backfilled(&archive, 1..1_500).await;
    message(&archive, 1_500, &at(1_500)).await;
    assert_eq!(found(&archive).await, None, "no filled span covers them");
    filled(&archive, "C10", 0, 1_500).await;
    assert_eq!(found(&archive).await, None, "another channel");
    // Two spans that overlap, and a message right after the second.
    filled(&archive, "C1", 0, 900).await;
    filled(&archive, "C1", 800, 1_500).await;
    assert_eq!(found(&archive).await, Some(at(1_500)));
}

#[tokio::test]
async fn a_delivered_message_before_a_filled_span_is_found() {
    let archive = MemoryArchive::new();
    message(&archive, 1, &at(1)).await;
    backfilled(&archive, 2..10).await;
    filled(&archive, "C1", 0, 10).await;
    assert_eq!(found(&archive).await, Some(at(1)));
}

#[tokio::test]
async fn a_span_without_later_messages_ends_the_search() {
    let archive = MemoryArchive::new();
    backfilled(&archive, 1..600).await;
    for (from, to) in [(0, 600), (0, 1), (2, 600)] {
        filled(&archive, "C1", from, to).await;
        assert_eq!(found(&archive).await, None);
    }
}
