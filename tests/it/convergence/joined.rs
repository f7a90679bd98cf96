//! Messages of a channel with several partitions: readers see the same as if one partition had received every
//! event.

use std::collections::BTreeMap;
use std::sync::Arc;

use ports::archive::key::thread_parent;
use ports::archive::{Item, Query};
use proptest::prelude::*;
use reader::joined::{ChannelOfTeam, JoinedChannel};
use rules::view::MessageView;
use rules::{message, project};
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::{TEAM, event};
use testkit::memory::archive::MemoryArchive;
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};

use super::messages::{events_of, message_event};
use super::{check_property, queue};
use testkit::deliveries::delivery;

/// A channel's old id, its new id, and the new id in a workspace that shares the channel.
const PARTITIONS: [(&str, &str); 3] = [(TEAM, "C01"), (TEAM, "C02"), ("T2", "C02")];

/// Events, and the partition and order in which each is received: at least once, and sometimes again in
/// another partition.
#[derive(Debug, Clone)]
struct Scattered {
    events: Vec<Value>,
    received: Vec<(usize, usize)>,
}

fn scattered() -> impl Strategy<Value = Scattered> {
    let events = prop::collection::vec(message_event(), 1..10).prop_map(|happenings| events_of(&happenings));
    events.prop_flat_map(|events| {
        let once = prop::collection::vec(0..PARTITIONS.len(), events.len())
            .prop_map(|places| places.into_iter().enumerate().collect::<Vec<_>>());
        let again = prop::collection::vec((0..events.len(), 0..PARTITIONS.len()), 0..6);
        let received = (once, again).prop_map(|(once, again)| [once, again].concat()).prop_shuffle();
        (Just(events), received).prop_map(|(events, received)| Scattered { events, received })
    })
}

/// The same event with another channel id.
fn in_channel(event: &Value, channel: &str) -> Value {
    let mut event = event.clone();
    for pointer in ["/channel", "/channel_id", "/item/channel"] {
        if let Some(named) = event.pointer_mut(pointer) {
            *named = channel.into();
        }
    }
    event
}

/// An archive that received these events in these partitions. An event marks each of them as public first.
async fn archive_of(events: &[Value], received: &[(usize, usize)]) -> Arc<MemoryArchive> {
    let archive = Arc::new(MemoryArchive::new());
    let writer = MessageWriter::new(archive.clone(), queue());
    let opened = (0..PARTITIONS.len()).map(|partition| (0, partition));
    for (number, (event, partition)) in opened.chain(received.iter().copied()).enumerate() {
        let (team, channel) = PARTITIONS[partition];
        let event = in_channel(&events[event], channel);
        let job = delivery(&event::envelope(team, &format!("Ev{number}"), &event));
        assert_eq!(writer.handle(&[job]).await, [JobOutcome::Done]);
    }
    archive
}

fn partition(number: usize) -> ChannelOfTeam {
    let (team, channel) = PARTITIONS[number];
    ChannelOfTeam { team: TeamId::parse(team).unwrap(), channel: ChannelId::parse(channel).unwrap() }
}

/// Every row of a query, read in small pages.
async fn all(channel: &JoinedChannel<'_>, query: Query) -> Vec<Item> {
    let mut query = Query { limit: 3, ..query };
    let mut rows = Vec::new();
    loop {
        let page = channel.query(&query).await.unwrap();
        rows.extend(page.items);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return rows,
        }
    }
}

/// Each message as readers see it, without its partition: its current state, its earlier texts, and its
/// thread.
async fn seen(channel: &JoinedChannel<'_>) -> BTreeMap<String, Value> {
    let query = Query::partition(channel.current_location().messages());
    let rows = all(channel, query.clone()).await;
    let mut backwards = all(channel, Query { descending: true, ..query }).await;
    backwards.reverse();
    assert_eq!(rows, backwards, "a descending query returns other rows");
    let mut seen = BTreeMap::new();
    for row in rows {
        let ts = Ts::parse(&row.key.timestamp).unwrap();
        assert_eq!(channel.message(&ts).await.unwrap().as_ref(), Some(&row));
        let Some(mut message) = project::message(&row).map(MessageView::into_json) else { continue };
        let revisions = channel.revisions(&ts).await.unwrap();
        let versions = message::versions(&revisions, Some(&row));
        let before: Vec<_> = versions.replaced.iter().map(|version| version.row.text("text")).collect();
        let parent = Query::parent(thread_parent(&channel.current_location().team, &ts));
        let thread: Vec<String> =
            all(channel, parent).await.into_iter().map(|row| row.key.timestamp).collect();
        for identity in ["itemId", "team_id", "channel_id", "parent", "raw_event"] {
            message.as_object_mut().unwrap().remove(identity);
        }
        seen.insert(ts.to_string(), json!({ "now": message, "before": before, "thread": thread }));
    }
    seen
}

#[test]
fn a_channel_in_several_partitions_reads_like_one_partition() {
    check_property(500, &scattered(), async |Scattered { events, received }| {
        let in_one: Vec<(usize, usize)> = (0..events.len()).map(|event| (event, 0)).collect();
        let one = archive_of(&events, &in_one).await;
        let expected = seen(&JoinedChannel::new(&*one, partition(0), Vec::new())).await;
        let archive = archive_of(&events, &received).await;
        for main in 0..PARTITIONS.len() {
            let others = (0..PARTITIONS.len()).rev().map(partition).collect();
            let found = seen(&JoinedChannel::new(&*archive, partition(main), others)).await;
            prop_assert_eq!(&expected, &found);
        }
        Ok(())
    });
}
