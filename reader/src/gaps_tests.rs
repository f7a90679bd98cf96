use ports::archive::{ArchiveExt, Attributes, Update};
use rules::filled::SpanSource;
use serde_json::json;
use testkit::memory::archive::MemoryArchive;

use super::*;

const FIRST: i64 = 1_700_000_000;

fn team() -> TeamId {
    TeamId::parse("T1").unwrap()
}

fn channel() -> ChannelId {
    ChannelId::parse("C1").unwrap()
}

fn ts(second: i64) -> Ts {
    Ts::parse(&format!("{}.000000", FIRST + second)).unwrap()
}

async fn set(archive: &MemoryArchive, key: ItemKey, set: serde_json::Value) {
    let set: Attributes = serde_json::from_value(set).unwrap();
    archive.write(&Update { set, ..Update::new(key) }).await.unwrap();
}

/// Writes a message whose content has this clock.
async fn message(archive: &MemoryArchive, second: i64, clock: &Ts) {
    let ts = ts(second);
    let version = format!("{}/{}/hash", ts.padded(), clock.padded());
    let key = ItemKey::message(&team(), &channel(), &ts);
    set(archive, key, json!({"ts": ts.as_str(), "content_version": version})).await;
}

async fn backfilled(archive: &MemoryArchive, seconds: std::ops::Range<i64>) {
    for second in seconds {
        message(archive, second, &version::zero()).await;
    }
}

async fn filled(archive: &MemoryArchive, channel: &str, from: i64, to: i64) {
    let channel = ChannelId::parse(channel).unwrap();
    let fact = filled::filled_update(&team(), &channel, &ts(from), &ts(to), SpanSource::History);
    archive.write(&fact).await.unwrap();
}

async fn found(archive: &MemoryArchive) -> Option<Ts> {
    first_post(archive, &team(), &channel(), &ts(0)).await.unwrap()
}

#[tokio::test]
async fn the_search_skips_any_number_of_backfilled_messages_in_filled_spans() {
    let archive = MemoryArchive::new();
    backfilled(&archive, 1..1_500).await;
    message(&archive, 1_500, &ts(1_500)).await;
    assert_eq!(found(&archive).await, None, "no filled span covers them");
    filled(&archive, "C10", 0, 1_500).await;
    assert_eq!(found(&archive).await, None, "another channel");
    // Two spans that overlap, and a message right after the second.
    filled(&archive, "C1", 0, 900).await;
    filled(&archive, "C1", 800, 1_500).await;
    assert_eq!(found(&archive).await, Some(ts(1_500)));
}

#[tokio::test]
async fn a_delivered_message_before_a_filled_span_is_found() {
    let archive = MemoryArchive::new();
    message(&archive, 1, &ts(1)).await;
    backfilled(&archive, 2..10).await;
    filled(&archive, "C1", 0, 10).await;
    assert_eq!(found(&archive).await, Some(ts(1)));
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
