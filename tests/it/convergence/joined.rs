//! Messages of a channel that lies in several places: readers see what one place would have that heard of everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use ports::archive::key::thread_parent;
use ports::archive::{Item, Query};
use proptest::prelude::*;
use reader::joined::{ChannelOfTeam, JoinedChannel};
use rules::{message, project};
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::{TEAM, event};
use testkit::memory::archive::MemoryArchive;
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};

use super::messages::{happening, told};
use super::{hold, queue};
use testkit::deliveries::delivery;

/// An id, the one it was changed to, and the same in a workspace that shares the channel.
const PLACES: [(&str, &str); 3] = [(TEAM, "C01"), (TEAM, "C02"), ("T2", "C02")];

/// Events, and where each is heard of, in which order: at least once, and sometimes again somewhere else.
#[derive(Debug, Clone)]
struct Scattered {
    events: Vec<Value>,
    heard: Vec<(usize, usize)>,
}

fn scattered() -> impl Strategy<Value = Scattered> {
    let events = prop::collection::vec(happening(), 1..10).prop_map(|happenings| told(&happenings));
    events.prop_flat_map(|events| {
        let once = prop::collection::vec(0..PLACES.len(), events.len())
            .prop_map(|places| places.into_iter().enumerate().collect::<Vec<_>>());
        let again = prop::collection::vec((0..events.len(), 0..PLACES.len()), 0..6);
        let heard = (once, again).prop_map(|(once, again)| [once, again].concat()).prop_shuffle();
        (Just(events), heard).prop_map(|(events, heard)| Scattered { events, heard })
    })
}

/// The same event as the channel of another id has it.
fn in_channel(event: &Value, channel: &str) -> Value {
    let mut event = event.clone();
    for place in ["/channel", "/item/channel"] {
        if let Some(named) = event.pointer_mut(place) {
            *named = channel.into();
        }
    }
    event
}

/// What an archive has that heard of these events in these places. The first event opens each of them.
async fn archive_of(events: &[Value], heard: &[(usize, usize)]) -> Arc<MemoryArchive> {
    let archive = Arc::new(MemoryArchive::new());
    let writer = MessageWriter::new(archive.clone(), queue());
    let opened = (0..PLACES.len()).map(|place| (0, place));
    for (number, (event, place)) in opened.chain(heard.iter().copied()).enumerate() {
        let (team, channel) = PLACES[place];
        let event = in_channel(&events[event], channel);
        let job = delivery(&event::envelope(team, &format!("Ev{number}"), &event));
        assert_eq!(writer.handle(&[job]).await, [JobOutcome::Done]);
    }
    archive
}

fn place(number: usize) -> ChannelOfTeam {
    let (team, channel) = PLACES[number];
    ChannelOfTeam { team: TeamId::parse(team).unwrap(), channel: ChannelId::parse(channel).unwrap() }
}

/// Every row of a query, a few at a time.
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

/// What readers see of each message, but for where it lies: what it says, what it said, and its thread.
async fn seen(channel: &JoinedChannel<'_>) -> BTreeMap<String, Value> {
    let query = Query::partition(channel.main().messages());
    let rows = all(channel, query.clone()).await;
    let mut backwards = all(channel, Query { descending: true, ..query }).await;
    backwards.reverse();
    assert_eq!(rows, backwards, "a page backwards has other rows");
    let mut seen = BTreeMap::new();
    for row in rows {
        let ts = Ts::parse(&row.key.timestamp).unwrap();
        assert_eq!(channel.message(&ts).await.unwrap().as_ref(), Some(&row));
        let Some(mut message) = project::message(&row) else { continue };
        let revisions = channel.revisions(&ts).await.unwrap();
        let versions = message::versions(&revisions, Some(&row));
        let before: Vec<_> = versions.replaced.iter().map(|said| said.row.text("text")).collect();
        let parent = Query::parent(thread_parent(&channel.main().team, &ts));
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
fn a_channel_in_several_places_reads_as_if_it_were_in_one() {
    hold(500, &scattered(), async |Scattered { events, heard }| {
        let in_one: Vec<(usize, usize)> = (0..events.len()).map(|event| (event, 0)).collect();
        let one = archive_of(&events, &in_one).await;
        let expected = seen(&JoinedChannel::new(&*one, place(0), Vec::new())).await;
        let archive = archive_of(&events, &heard).await;
        for main in 0..PLACES.len() {
            let others = (0..PLACES.len()).rev().map(place).collect();
            let found = seen(&JoinedChannel::new(&*archive, place(main), others)).await;
            prop_assert_eq!(&expected, &found);
        }
        Ok(())
    });
}
