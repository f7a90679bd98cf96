use ports::archive::{ArchiveExt, ItemKey, Update};
use rules::SlackEvent;
use rules::channel::ChannelEvent;
use rules::filled::{SpanSource, filled_update, refusal_update};
use rules::gap::GapReason;
use rules::gap::closing::GapState;
use rules::public_mark;
use serde_json::json;
use slack::envelope::Envelope;
use testkit::memory::archive::MemoryArchive;

use super::*;
use crate::fixture::{at, channel_id, filled, set, team};
use crate::gaps::{GapProgress, progress, unread_spans};

struct HistoryFixture(MemoryArchive);

impl HistoryFixture {
    /// Public channels, and a rate limit of Slack from second 10 to 70.
    async fn new(channels: &[&str]) -> Self {
        let fixture = Self(MemoryArchive::new());
        for id in channels {
            fixture.write(&public_mark::opening(&team(), &channel_id(id))).await;
        }
        let envelope = format!(r#"{{"minute_rate_limited":{}}}"#, 1_700_000_010);
        let raw = serde_json::value::RawValue::from_string(envelope).unwrap();
        fixture.write(&rules::gap::rate_limited(&team(), &raw).unwrap()).await;
        fixture
    }

    async fn write(&self, update: &Update) {
        self.0.write(update).await.unwrap();
    }

    async fn read(&self, id: &str, from: i64, to: i64) {
        filled(&self.0, id, from, to).await;
    }

    async fn refused(&self, id: &str, reason: UnreadableReason) {
        self.write(&refusal_update(&team(), &channel_id(id), &at(70), reason, &at(75))).await;
    }

    /// Writes the rows of an event of a channel.
    async fn apply(&self, event: serde_json::Value) {
        let body = json!({ "team_id": "T1", "event": event }).to_string();
        let event = SlackEvent::read(&Envelope::peek(body.as_bytes()).unwrap()).map(|event| {
            let joined = rules::gap::joined(&event).unwrap();
            (ChannelEvent::read(&event).unwrap(), joined)
        });
        let (event, joined) = event.unwrap();
        for update in event.iter().flat_map(ChannelEvent::inserts).chain(joined) {
            self.write(&update).await;
        }
    }

    async fn state(&self) -> (GapState, Option<usize>) {
        let gaps = progress(&self.0, &team()).await.unwrap();
        let [GapProgress { gap, state, channels_left }] = gaps.as_slice() else { panic!("{gaps:?}") };
        assert_eq!(gap.reason, GapReason::RateLimited);
        (*state, *channels_left)
    }
}

#[tokio::test]
async fn a_gap_of_all_channels_is_filled_once_each_was_read() {
    let fixture = HistoryFixture::new(&["C1", "C2"]).await;
    assert_eq!(fixture.state().await, (GapState::Missing, Some(2)));
    let requested = unread_spans(&fixture.0, &team(), &at(100), 9).await.unwrap();
    assert_eq!(requested.iter().map(|span| span.channel.as_str()).collect::<Vec<_>>(), ["C1", "C2"]);
    fixture.read("C1", 0, 100).await;
    assert_eq!(fixture.state().await, (GapState::Missing, Some(1)));
    for span in unread_spans(&fixture.0, &team(), &at(100), 9).await.unwrap() {
        fixture
            .write(&filled_update(&team(), &span.channel, &span.from, &span.to, SpanSource::History))
            .await;
    }
    assert_eq!(fixture.state().await, (GapState::Filled, Some(0)));
}

#[tokio::test]
async fn a_gap_skips_channels_created_later_and_channels_without_the_app() {
    let fixture = HistoryFixture::new(&["C1", "C2", "C3"]).await;
    let created = |id: &str, second: i64| {
        json!({ "type": "channel_created", "event_ts": at(second).as_str(),
            "channel": { "id": id, "name": "new", "created": 1_700_000_000 + second } })
    };
    fixture.apply(created("C2", 71)).await;
    fixture.apply(created("C3", 69)).await;
    assert_eq!(fixture.state().await, (GapState::Missing, Some(2)));
    fixture.refused("C3", UnreadableReason::NotInChannel).await;
    assert_eq!(fixture.state().await, (GapState::Missing, Some(1)));
    fixture.read("C1", 0, 100).await;
    assert_eq!(fixture.state().await, (GapState::Filled, Some(0)));
    // The app was in C3 before the gap, so messages may be missing.
    fixture
        .apply(json!({ "type": "member_joined_channel", "user": "U1", "channel": "C3", "event_ts": at(5).as_str() }))
        .await;
    assert_eq!(fixture.state().await, (GapState::Missing, Some(1)));
}

#[tokio::test]
async fn a_refused_channel_is_requested_again_once_the_app_joins_it() {
    let fixture = HistoryFixture::new(&["C1"]).await;
    let requested = async || unread_spans(&fixture.0, &team(), &at(100), 9).await.unwrap().len();
    let joined = async |second: i64| {
        fixture
            .apply(json!({ "type": "member_joined_channel", "user": "U1", "channel": "C1", "event_ts": at(second).as_str() }))
            .await;
    };
    joined(5).await;
    assert_eq!(requested().await, 1);
    fixture.refused("C1", UnreadableReason::NotInChannel).await;
    assert_eq!(requested().await, 0);
    joined(80).await;
    assert_eq!(requested().await, 1);
}

#[tokio::test]
async fn a_channel_that_continues_under_another_id_needs_no_read() {
    let fixture = HistoryFixture::new(&["C1", "C2"]).await;
    fixture.read("C2", 0, 100).await;
    fixture.refused("C1", UnreadableReason::NotFound).await;
    assert_eq!(fixture.state().await, (GapState::Missing, Some(1)));
    let key = ItemKey::channel(&team(), &channel_id("C1"), &at(80));
    let row = json!({ "type": "channel", "channel_id": "C1", "folded": "1", "name": "old", "next_channel_id": "C2" });
    set(&fixture.0, key, row).await;
    assert_eq!(fixture.state().await, (GapState::Filled, Some(0)));
}
