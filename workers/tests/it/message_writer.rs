//! Tests of the rows that the message-writer writes, event by event.

use std::sync::Arc;
use std::time::Duration;

use ports::archive::{Archive, ArchiveExt, ItemKey, Query, key, query_all};
use ports::clock::{ManualClock, TimestampMs};
use ports::queue::{Delivery, QueueName};
use rules::view::MessageView;
use rules::{message, project, public_mark};
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::{TEAM, event};
use testkit::faults::{FaultyArchive, RecordedCalls};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::queue::MemoryQueue;
use workers::channel_indexer::ChannelIndexer;
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};

use testkit::deliveries::{deliveries, delivery, receive_visible};

mod erased;
mod pins;
mod versions;
mod waiting;

struct WriterFixture {
    clock: Arc<ManualClock>,
    archive: Arc<MemoryArchive>,
    queue: Arc<MemoryQueue>,
    writer: MessageWriter,
}

impl WriterFixture {
    fn new() -> Self {
        let archive = Arc::new(MemoryArchive::new());
        let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
        let queue = Arc::new(MemoryQueue::new(clock.clone()));
        let writer = MessageWriter::new(archive.clone(), queue.clone()).timed_by(clock.clone());
        Self { clock, archive, queue, writer }
    }

    async fn handle(&self, events: &[Value]) -> Vec<JobOutcome> {
        self.writer.handle(&deliveries(events)).await
    }

    /// Handles events that must all succeed.
    async fn store(&self, events: &[Value]) {
        let outcomes = self.handle(events).await;
        assert!(outcomes.iter().all(|outcome| *outcome == JobOutcome::Done), "{outcomes:?}");
    }

    /// Jobs sent to another worker.
    async fn sent_to(&self, queue: QueueName) -> Vec<Delivery> {
        receive_visible(&*self.queue, queue).await
    }

    async fn message(&self, channel: &str, ts: &str) -> Option<Value> {
        let key = ItemKey::message(&team(), &ChannelId::parse(channel).unwrap(), &Ts::parse(ts).unwrap());
        self.archive
            .get(&key)
            .await
            .unwrap()
            .and_then(|item| project::message(&item))
            .map(MessageView::into_json)
    }

    async fn rows(&self, partition: String) -> Vec<Value> {
        let items = query_all(&*self.archive, Query::partition(partition)).await.unwrap();
        items.iter().map(project::directory).collect()
    }

    async fn revisions(&self, ts: &str) -> Vec<String> {
        let (channel, ts) = (ChannelId::parse("C01").unwrap(), Ts::parse(ts).unwrap());
        let revisions = Query::partition(key::revisions(&team(), &channel, &ts));
        let rows = query_all(&*self.archive, revisions).await.unwrap();
        let message = self.archive.get(&ItemKey::message(&team(), &channel, &ts)).await.unwrap();
        let versions = message::versions(&rows, message.as_ref()).replaced;
        versions.iter().map(|version| version.row.text("text").unwrap().to_owned()).collect()
    }
}

fn team() -> TeamId {
    TeamId::parse(TEAM).unwrap()
}

const TS: &str = "1700000000.000100";

#[tokio::test]
async fn every_edit_keeps_the_version_before_it() {
    let fixture = WriterFixture::new();
    let first = event::message(TS, "U01", "first");
    let second = event::edited(&first, "1700000010.000000", "second");
    let third = event::edited(&second, "1700000020.000000", "third");
    fixture
        .store(&[
            event::posted("C01", &first),
            event::changed("C01", &first, &second, "1700000010.000100"),
            event::changed("C01", &second, &third, "1700000020.000100"),
        ])
        .await;
    let row = fixture.message("C01", TS).await.unwrap();
    assert_eq!(row["text"], "third");
    assert_eq!(row["updated_ts"], "2023-11-14T22:13:40.000000Z");
    assert_eq!(fixture.revisions(TS).await, ["first", "second"]);
}

#[tokio::test]
async fn a_new_process_writes_no_mark_of_a_channel_and_a_workspace_that_are_marked() {
    let fixture = WriterFixture::new();
    let mut writes = Vec::new();
    // The last is in the next hour.
    for ts in [TS, "1700000001.000100", "1700003600.000100"] {
        let calls = Arc::new(RecordedCalls::default());
        let counted = FaultyArchive::with_schedule(fixture.archive.clone(), calls.clone());
        let writer = MessageWriter::new(Arc::new(counted), fixture.queue.clone());
        let posted = event::posted("C01", &event::message(ts, "U01", "text"));
        let outcomes = writer.handle(&deliveries(&[posted])).await;
        assert_eq!(outcomes, [JobOutcome::Done]);
        writes.push(calls.take_writes());
    }
    // The message; before the first, its workspace, its channel, and that it is public in this hour.
    assert_eq!(writes, [4, 1, 2]);
}

#[tokio::test]
async fn an_edit_that_arrives_first_still_stores_the_version_it_replaced() {
    let fixture = WriterFixture::new();
    let first = event::message(TS, "U01", "first");
    let second = event::edited(&first, "1700000010.000000", "second");
    fixture.store(&[event::changed("C01", &first, &second, "1700000010.000100")]).await;
    assert_eq!(fixture.message("C01", TS).await.unwrap()["text"], "second");
    assert_eq!(fixture.revisions(TS).await, ["first"]);
}

#[tokio::test]
async fn an_unfurl_is_stored_and_is_not_an_edit() {
    let fixture = WriterFixture::new();
    let first = event::message(TS, "U01", "see https://example.com");
    let unfurled = event::unfurled(&first, "https://example.com");
    fixture
        .store(&[event::posted("C01", &first), event::changed("C01", &first, &unfurled, "1700000001.000000")])
        .await;
    let row = fixture.message("C01", TS).await.unwrap();
    assert!(row["raw_event"].as_str().unwrap().contains("attachments"));
    assert_eq!(row.get("updated_ts"), None);
    assert!(fixture.revisions(TS).await.is_empty());
}

#[tokio::test]
async fn a_delete_that_arrives_first_keeps_the_text() {
    let fixture = WriterFixture::new();
    let message = event::message(TS, "U01", "gone");
    fixture.store(&[event::deleted("C01", &message, "1700000005.000000")]).await;
    let row = fixture.message("C01", TS).await.unwrap();
    assert_eq!((&row["deleted"], &row["text"]), (&json!(true), &json!("gone")));
    fixture.store(&[event::posted("C01", &message)]).await;
    assert_eq!(fixture.message("C01", TS).await.unwrap()["deleted"], true);
}

#[tokio::test]
async fn a_tombstone_keeps_the_text_that_was_there() {
    let fixture = WriterFixture::new();
    let root = event::message(TS, "U01", "the root");
    fixture
        .store(&[
            event::posted("C01", &root),
            event::changed("C01", &root, &event::tombstone(&root), "1700000005.000000"),
        ])
        .await;
    let row = fixture.message("C01", TS).await.unwrap();
    assert_eq!((&row["deleted"], &row["text"]), (&json!(true), &json!("the root")));
}

#[tokio::test]
async fn reactions_are_a_set_and_wait_for_their_message() {
    let fixture = WriterFixture::new();
    let other = event::posted("C01", &event::message("1700000000.000001", "U01", "hello"));
    let added = |user: &str, at: &str| event::reaction_added("C01", TS, user, "tada", at);
    fixture
        .store(&[
            other,
            added("U02", "1700000001.000000"),
            added("U01", "1700000002.000000"),
            added("U03", "1700000003.000000"),
            event::reaction_removed("C01", TS, "U03", "tada", "1700000004.000000"),
        ])
        .await;
    assert_eq!(fixture.message("C01", TS).await, None, "a reaction alone shows nowhere");
    fixture.store(&[event::posted("C01", &event::message(TS, "U01", "party"))]).await;
    let row = fixture.message("C01", TS).await.unwrap();
    assert_eq!(row["reactions"], json!([{ "name": "tada", "count": 2, "users": ["U01", "U02"] }]));
    assert!(row.as_object().unwrap().keys().all(|name| !name.contains('#')), "{row}");
}

#[tokio::test]
async fn a_private_channel_is_stored_only_once_it_was_public() {
    let fixture = WriterFixture::new();
    let private = |ts: &str, text: &str| {
        event::with_fields(
            event::posted("C01", &event::message(ts, "U01", text)),
            [("channel_type", "group".into())],
        )
    };
    let untyped = |ts: &str| {
        let mut event = event::posted("C01", &event::message(ts, "U01", "untyped"));
        event.as_object_mut().unwrap().remove("channel_type");
        event
    };
    fixture.store(&[private("1700000001.000000", "secret"), untyped("1700000001.500000")]).await;
    assert_eq!(fixture.message("C01", "1700000001.000000").await, None);
    assert_eq!(fixture.message("C01", "1700000001.500000").await, None);

    let conversion = event::subtyped(
        private("1700000002.000000", "made private"),
        "channel_convert_to_private",
        json!({}),
    );
    fixture
        .store(&[
            private("1700000001.900000", "before the conversion"),
            conversion,
            private("1700000003.000000", "still stored"),
            untyped("1700000004.000000"),
        ])
        .await;
    assert_eq!(fixture.message("C01", "1700000001.900000").await, None, "judged before the conversion");
    assert_eq!(fixture.message("C01", "1700000003.000000").await.unwrap()["text"], "still stored");
    assert!(fixture.message("C01", "1700000004.000000").await.is_some());
}

#[tokio::test]
async fn the_public_mark_moves_with_a_changed_id() {
    let fixture = WriterFixture::new();
    fixture
        .store(&[
            event::posted("C01", &event::message(TS, "U01", "public")),
            json!({ "type": "channel_id_changed", "old_channel_id": "C01", "new_channel_id": "C02" }),
        ])
        .await;
    let moved = event::posted("C02", &event::message("1700000009.000000", "U01", "after the move"));
    fixture.store(&[event::with_fields(moved, [("channel_type", "group".into())])]).await;
    assert!(fixture.message("C02", "1700000009.000000").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_a_person_takes_back_ends_within_a_minute_and_a_later_public_event_restores_it() {
    let fixture = WriterFixture::new();
    let private = |ts: &str| {
        let message = event::posted("C01", &event::message(ts, "U01", "in private"));
        event::with_fields(message, [("channel_type", "group".into())])
    };
    fixture.store(&[event::posted("C01", &event::message(TS, "U01", "public"))]).await;
    let at = Ts::parse("1700000100.000000").unwrap();
    let taken_back = public_mark::withdrawal(&team(), &ChannelId::parse("C01").unwrap(), &at);
    fixture.archive.write(&taken_back).await.unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;
    // A public event from before that time no longer counts.
    let earlier = event::posted("C01", &event::message("1700000099.000000", "U01", "public"));
    fixture.store(&[earlier, private("1700000101.000000")]).await;
    assert_eq!(fixture.message("C01", "1700000101.000000").await, None);
    let later = event::posted("C01", &event::message("1700000102.000000", "U01", "public"));
    fixture.store(&[later, private("1700000103.000000")]).await;
    assert!(fixture.message("C01", "1700000103.000000").await.is_some());
}

#[tokio::test]
async fn people_and_emoji_are_stored_in_their_newest_version() {
    let fixture = WriterFixture::new();
    fixture
        .store(&[
            event::user_change("U01", "new name", "1700000009.000000"),
            event::team_join("U01", "old name", "1700000001.000000"),
            event::emoji_added("party", "https://example.com/1", "1700000001.000000"),
            json!({ "type": "emoji_changed", "subtype": "rename", "old_name": "party", "new_name": "tada2",
                    "value": "https://example.com/1", "event_ts": "1700000002.000000" }),
        ])
        .await;
    let users = fixture.rows(format!("user#{TEAM}")).await;
    assert_eq!((&users[0]["user_id"], &users[0]["name"]), (&json!("U01"), &json!("new name")));
    assert_eq!(users[0]["insert_timestamp"], "1700000001.000000");
    let profiles = fixture.rows(format!("userhistory#{TEAM}#U01")).await;
    let mut names: Vec<_> = profiles.iter().map(|row| row["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["new name", "old name"], "replaced versions are kept");
    let emoji = fixture.rows(format!("meta#{TEAM}#emoji")).await;
    let values: Vec<_> =
        emoji.iter().map(|row| (row["name"].as_str().unwrap(), row.get("value").is_some())).collect();
    assert_eq!(values, [("party", false), ("tada2", true)]);
}

#[tokio::test]
async fn a_malformed_event_is_quarantined_and_an_unknown_one_is_done() {
    let fixture = WriterFixture::new();
    let outcomes = fixture
        .handle(&[
            json!({ "type": "message", "channel": "not an id", "channel_type": "channel", "ts": TS }),
            json!({ "type": "message", "channel": "C01", "channel_type": "channel", "ts": "yesterday" }),
            json!({ "type": "a_type_of_tomorrow", "channel": "C01" }),
            json!({ "type": "reaction_added", "user": "U01", "reaction": "x", "item": { "type": "file", "file": "F1" } }),
            json!([1, 2]),
        ])
        .await;
    let quarantined = |outcome: &JobOutcome| matches!(outcome, JobOutcome::Quarantine(_));
    assert_eq!(
        outcomes.iter().map(quarantined).collect::<Vec<_>>(),
        [true, true, false, false, false],
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn all_events_of_a_channel_end_up_in_its_partition() {
    let fixture = WriterFixture::new();
    let events: Vec<Value> = (0..50)
        .map(|n| event::posted("C01", &event::message(&format!("17000000{n:02}.000000"), "U01", "x")))
        .collect();
    fixture.store(&events).await;
    assert_eq!(fixture.rows(format!("message#{TEAM}#C01")).await.len(), 50);
    assert_eq!(fixture.rows("meta#teams".into()).await.len(), 1);
}

#[tokio::test]
async fn channel_changes_that_only_messages_contain_are_forwarded_once() {
    let fixture = WriterFixture::new();
    let with_subtype = |subtype: &str| {
        let message = event::message("1700000000.000100", "U1", "set the topic");
        event::posted("C1", &event::subtyped(message, subtype, json!({ "topic": "news" })))
    };
    fixture
        .store(&[with_subtype("channel_topic"), with_subtype("channel_join"), with_subtype("channel_name")])
        .await;
    let sent = fixture.sent_to(QueueName::Channels).await;
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].group.as_str(), TEAM);
    assert!(sent[0].body.contains("channel_topic"));
    // The queue remembers the event's id for five minutes; a redelivery of its job adds nothing.
    fixture.store(&[with_subtype("channel_topic")]).await;
    assert!(fixture.sent_to(QueueName::Channels).await.is_empty());
}

#[tokio::test]
async fn an_event_without_its_channels_visibility_is_stored_if_the_channel_is_known_to_be_public() {
    let fixture = WriterFixture::new();
    let react = || event::reaction_added("C7", "1700000000.000100", "U1", "eyes", "1700000001.000000");
    fixture.store(&[react()]).await;
    assert!(fixture.archive.items().is_empty(), "the reaction waits");
    let indexer = ChannelIndexer::new(fixture.archive.clone(), None);
    let created = event::channel_created("C7", "news", "1700000000.000000");
    let job = delivery(&event::envelope(TEAM, "EvCreated", &created));
    assert_eq!(indexer.handle(&[job]).await, [JobOutcome::Done]);
    fixture.store(&[react()]).await;
    let mark = ItemKey::public_mark(&team(), &ChannelId::parse("C7").unwrap());
    assert!(fixture.archive.get(&mark).await.unwrap().is_some());
}

fn reaction(channel: &str) -> Value {
    event::reaction_added(channel, TS, "U1", "eyes", "1700000001.000000")
}

/// Whether the message of the reaction has a row; the message itself never arrives.
fn has_reaction(fixture: &WriterFixture, channel: &str) -> bool {
    let partition = format!("message#{TEAM}#{channel}");
    fixture.archive.items().iter().any(|row| row.key.item_id == partition && row.key.timestamp == TS)
}

fn opener(channel: &str) -> Value {
    event::posted(channel, &event::message("1700000002.000100", "U1", "hello"))
}

#[tokio::test]
async fn a_reaction_before_its_channel_is_known_is_stored_with_the_next_message() {
    let fixture = WriterFixture::new();
    fixture.store(&[reaction("C7"), opener("C7")]).await;
    assert!(has_reaction(&fixture, "C7"));
    assert!(fixture.sent_to(QueueName::Events).await.is_empty());
}

#[tokio::test]
async fn a_reaction_waits_outside_its_message_group_for_ten_minutes_and_delays_no_message() {
    let fixture = WriterFixture::new();
    fixture.store(&[reaction("C7"), reaction("C8")]).await;
    assert!(fixture.archive.items().is_empty());
    let parked = fixture.sent_to(QueueName::Events).await;
    for (job, channel) in parked.iter().zip(["C7", "C8"]) {
        let group = job.group.as_str();
        assert!(group.starts_with(&format!("{TEAM}#{channel}#")) && group.ends_with("#waiting"), "{group}");
    }
    for outcome in fixture.writer.handle(&parked).await {
        assert!(matches!(&outcome, JobOutcome::Retry(retry) if retry.after.is_some()), "{outcome:?}");
    }
    fixture.store(&[opener("C7")]).await;
    let outcomes = fixture.writer.handle(&parked).await;
    assert!(matches!(outcomes[..], [JobOutcome::Done, JobOutcome::Retry(_)]), "{outcomes:?}");
    assert!(has_reaction(&fixture, "C7"));
    // Without a call to Slack, the channel may be private: after ten minutes the reaction is dropped.
    fixture.clock.advance(Duration::from_secs(600));
    assert_eq!(fixture.writer.handle(&parked[1..]).await, [JobOutcome::Done]);
    assert!(!fixture.archive.items().iter().any(|item| item.key.item_id.contains("C8")));
}

#[tokio::test]
async fn a_reaction_in_a_channel_just_seen_as_private_does_not_wait() {
    let fixture = WriterFixture::new();
    let private = event::with_fields(opener("C7"), [("channel_type", "group".into())]);
    fixture.store(&[private, reaction("C7")]).await;
    assert!(fixture.archive.items().is_empty() && fixture.sent_to(QueueName::Events).await.is_empty());
}
