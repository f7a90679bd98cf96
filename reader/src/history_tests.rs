use ports::archive::{ArchiveExt, Item, ItemKey, Update};
use rules::SlackEvent;
use rules::channel::ChannelEvent;
use rules::filled::{SpanSource, reached, refused};
use rules::gap::Reason;
use rules::gap::closing::GapState;
use rules::public_mark;
use serde_json::json;
use slack::envelope::Envelope;
use testkit::memory::archive::MemoryArchive;

use super::*;
use crate::gaps::{GapProgress, progress, wanted};

fn team() -> TeamId {
    TeamId::parse("T1").unwrap()
}

fn channel(id: &str) -> ChannelId {
    ChannelId::parse(id).unwrap()
}

fn ts(second: i64) -> Ts {
    Ts::parse(&format!("{}.000000", 1_700_000_000 + second)).unwrap()
}

struct Story(MemoryArchive);

impl Story {
    /// Channels that are public, and requests that Slack held back from second 10 to 70.
    async fn of(channels: &[&str]) -> Self {
        let story = Self(MemoryArchive::new());
        for id in channels {
            story.write(&public_mark::opening(&team(), &channel(id))).await;
        }
        let envelope = format!(r#"{{"minute_rate_limited":{}}}"#, 1_700_000_010);
        let raw = serde_json::value::RawValue::from_string(envelope).unwrap();
        story.write(&rules::gap::rate_limited(&team(), &raw).unwrap()).await;
        story
    }

    async fn write(&self, update: &Update) {
        self.0.write(update).await.unwrap();
    }

    async fn read(&self, id: &str, from: i64, to: i64) {
        self.write(&reached(&team(), &channel(id), &ts(from), &ts(to), SpanSource::History)).await;
    }

    async fn refused(&self, id: &str, reason: UnreadableReason) {
        self.write(&refused(&team(), &channel(id), &ts(70), reason, &ts(75))).await;
    }

    /// What happens to a channel, as its rows keep it.
    async fn told(&self, event: serde_json::Value) {
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
        assert_eq!(gap.reason, Reason::RateLimited);
        (*state, *channels_left)
    }
}

#[tokio::test]
async fn a_gap_of_all_channels_is_filled_once_each_was_read() {
    let story = Story::of(&["C1", "C2"]).await;
    assert_eq!(story.state().await, (GapState::Missing, Some(2)));
    let asked = wanted(&story.0, &team(), &ts(100), 9).await.unwrap();
    assert_eq!(asked.iter().map(|span| span.channel.as_str()).collect::<Vec<_>>(), ["C1", "C2"]);
    story.read("C1", 0, 100).await;
    assert_eq!(story.state().await, (GapState::Missing, Some(1)));
    for span in wanted(&story.0, &team(), &ts(100), 9).await.unwrap() {
        story.write(&reached(&team(), &span.channel, &span.from, &span.to, SpanSource::History)).await;
    }
    assert_eq!(story.state().await, (GapState::Filled, Some(0)));
}

#[tokio::test]
async fn a_channel_that_was_created_later_or_that_the_app_was_never_in_misses_nothing() {
    let story = Story::of(&["C1", "C2", "C3"]).await;
    let created = |id: &str, second: i64| {
        json!({ "type": "channel_created", "event_ts": ts(second).as_str(),
            "channel": { "id": id, "name": "new", "created": 1_700_000_000 + second } })
    };
    story.told(created("C2", 71)).await;
    story.told(created("C3", 69)).await;
    assert_eq!(story.state().await, (GapState::Missing, Some(2)));
    story.refused("C3", UnreadableReason::NotInChannel).await;
    assert_eq!(story.state().await, (GapState::Missing, Some(1)));
    story.read("C1", 0, 100).await;
    assert_eq!(story.state().await, (GapState::Filled, Some(0)));
    // It was there before: something of C3 may be missing.
    story
        .told(json!({ "type": "member_joined_channel", "user": "U1", "channel": "C3", "event_ts": ts(5).as_str() }))
        .await;
    assert_eq!(story.state().await, (GapState::Missing, Some(1)));
}

#[tokio::test]
async fn a_channel_that_slack_refused_to_show_is_asked_for_once_the_app_joins_it() {
    let story = Story::of(&["C1"]).await;
    let asked = async || wanted(&story.0, &team(), &ts(100), 9).await.unwrap().len();
    let joined = async |second: i64| {
        story
            .told(json!({ "type": "member_joined_channel", "user": "U1", "channel": "C1", "event_ts": ts(second).as_str() }))
            .await;
    };
    joined(5).await;
    assert_eq!(asked().await, 1);
    story.refused("C1", UnreadableReason::NotInChannel).await;
    assert_eq!(asked().await, 0);
    joined(80).await;
    assert_eq!(asked().await, 1);
}

#[tokio::test]
async fn a_channel_that_goes_on_under_another_id_is_read_there() {
    let story = Story::of(&["C1", "C2"]).await;
    story.read("C2", 0, 100).await;
    story.refused("C1", UnreadableReason::NotFound).await;
    assert_eq!(story.state().await, (GapState::Missing, Some(1)));
    let key = ItemKey::channel(&team(), &channel("C1"), &ts(80));
    let set = json!({ "type": "channel", "channel_id": "C1", "folded": "1", "name": "old", "next_channel_id": "C2" });
    let Item { key, attributes } = Item { key, attributes: set.as_object().cloned().unwrap() };
    story.write(&Update { set: attributes, ..Update::new(key) }).await;
    assert_eq!(story.state().await, (GapState::Filled, Some(0)));
}
