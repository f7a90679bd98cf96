//! Pages of history and exports between events: the archive's messages are a function of the set of all
//! three, regardless of their order, of duplicates, and of crashes.

use std::collections::BTreeMap;
use std::sync::Arc;

use ports::archive::{Archive, Item};
use ports::clock::TimestampMs;
use proptest::prelude::*;
use rules::history::{self, HistoryMessage};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId};
use testkit::corpus::{TEAM, event};
use testkit::deliveries::delivery;
use testkit::faults::{CrashPoint, FaultyArchive};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::files::MemoryFiles;
use workers::import::{FileTarget, ImportFiles, ImportOptions, ImportTarget, import};
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};
use workers::store::store_history;

use super::messages::{MessageEvent, events_of, message_event};
use super::{Interleaved, check_property, only_in, queue};
use crate::import::overlapping::InMemoryExport;

const CHANNEL: &str = "C01";

/// An input of the archive: an event, a page, or the one day of an export.
#[derive(Debug, Clone)]
enum Arrival {
    Event(usize, Value),
    Page(Vec<Value>),
    Export(Vec<Value>),
}

#[derive(Debug, Clone)]
struct Arrived {
    in_order: Vec<Arrival>,
    shuffled: Vec<Arrival>,
    /// The number of archive steps after which each successive process crashes.
    lives: Vec<u64>,
    interleaving: u64,
}

/// The messages in an event, as Slack's history returns them.
fn carried(event: &Value) -> Vec<Value> {
    if event["type"] != "message" {
        return Vec::new();
    }
    let messages = [event, &event["message"], &event["previous_message"], &event["root"]];
    let with_ts = messages.into_iter().filter(|message| message["ts"].is_string());
    // The event itself is a message only if it changes no other one.
    let is_change = event["message"].is_object() || event["deleted_ts"].is_string();
    let mut messages: Vec<Value> = with_ts.skip(usize::from(is_change)).cloned().collect();
    for message in &mut messages {
        for name in ["channel", "channel_type", "event_ts"] {
            message.as_object_mut().map(|message| message.remove(name));
        }
    }
    messages
}

/// Pages with the messages of the events, each with members that change from page to page.
fn pages(events: &[Value], volatile: &[u8]) -> Vec<Arrival> {
    let page = |(event, count): (&Value, &u8)| {
        let mut messages = carried(event);
        for message in &mut messages {
            message["reply_count"] = (*count).into();
            message["user_profile"] = json!({ "real_name": count.to_string() });
        }
        Arrival::Page(messages)
    };
    let is_kept = |event: &&Value| event["type"] == "message";
    events.iter().filter(is_kept).zip(volatile).map(page).collect()
}

/// The export that Slack creates after some of the events: each message once, in its state at that time.
fn export(events: &[Value]) -> Arrival {
    let mut day: BTreeMap<String, Value> = BTreeMap::new();
    for mut message in events.iter().flat_map(carried) {
        for name in ["team", "user_team", "source_team"] {
            message[name] = TEAM.into();
        }
        message["user_profile"] = json!({ "name": "volatile" });
        day.insert(message["ts"].to_string(), message);
    }
    Arrival::Export(day.into_values().collect())
}

fn arrived() -> impl Strategy<Value = Arrived> {
    let volatile = prop::collection::vec(0..3u8, 12);
    let exported = prop::collection::vec(any::<prop::sample::Index>(), 0..3);
    let happenings = (prop::collection::vec(message_event(), 1..8), volatile, exported);
    happenings.prop_flat_map(|(message_events, volatile, exported): (Vec<MessageEvent>, Vec<u8>, Vec<_>)| {
        let events = events_of(&message_events);
        let pages = pages(&events, &volatile);
        let after = |index: prop::sample::Index| export(&events[..=index.index(events.len())]);
        let exports: Vec<Arrival> = exported.into_iter().map(after).collect();
        let arrivals = events.into_iter().enumerate().map(|(number, event)| Arrival::Event(number, event));
        let in_order: Vec<Arrival> = arrivals.chain(pages).chain(exports).collect();
        let twice: Vec<Arrival> = in_order.iter().chain(&in_order).cloned().collect();
        let lives = prop::collection::vec(0..40u64, 0..5);
        (Just(in_order), Just(twice).prop_shuffle(), lives, any::<u64>()).prop_map(
            |(in_order, shuffled, lives, interleaving)| Arrived { in_order, shuffled, lives, interleaving },
        )
    })
}

async fn process_arrival(archive: Arc<dyn Archive>, arrival: &Arrival) -> bool {
    match arrival {
        Arrival::Event(number, event) => {
            let job = delivery(&event::envelope(TEAM, &format!("Ev{number}"), event));
            MessageWriter::new(archive, queue()).handle(&[job]).await == [JobOutcome::Done]
        }
        Arrival::Page(messages) => {
            let (team, channel) = (TeamId::parse(TEAM).unwrap(), ChannelId::parse(CHANNEL).unwrap());
            let read =
                |message: &Value| history::read(&team, &channel, &to_raw_value(message).unwrap()).unwrap();
            let messages: Vec<HistoryMessage> = messages.iter().map(read).collect();
            store_history(&*archive, &messages).await.iter().all(Result::is_ok)
        }
        Arrival::Export(day) => {
            let export = InMemoryExport::with_entries([
                ("users.json", json!([{ "id": "U00", "team_id": TEAM, "name": "ada" }])),
                ("channels.json", json!([{ "id": CHANNEL, "name": "general" }])),
                ("general/2023-11-14.json", day.clone().into()),
            ]);
            let files = FileTarget { queue: queue(), files: Arc::new(MemoryFiles::new()) };
            let target = ImportTarget { archive, files: ImportFiles::Imported(files) };
            let options = ImportOptions { team: None, tokens: None, now: TimestampMs(1_700_100_000_000) };
            let imported = import(export, &target, &options, &mut |_| {}).await;
            assert!(imported.as_ref().ok().is_none_or(|sum| sum.skipped == 0), "{imported:?}");
            imported.is_ok()
        }
    }
}

async fn rows(arrivals: &[Arrival], lives: &[u64], interleaving: Option<u64>) -> Vec<Item> {
    let memory = Arc::new(MemoryArchive::new());
    let archive: Arc<dyn Archive> = memory.clone();
    // Events that do not state that a channel is public would be dropped if the channel was never seen as
    // public.
    let opener = event::posted(CHANNEL, &event::message("1600000000.000100", "U00", "opens the channel"));
    assert!(process_arrival(Arc::clone(&archive), &Arrival::Event(999, opener)).await);
    let archive = interleaving.map_or(Arc::clone(&archive), |seed| Interleaved::interleave(archive, seed));
    let mut lives = lives.iter();
    for arrival in arrivals {
        loop {
            let point = lives.next().map_or_else(CrashPoint::never, |steps| CrashPoint::after(*steps));
            let mortal = Arc::new(FaultyArchive::with_crash_point(Arc::clone(&archive), Arc::clone(&point)));
            if process_arrival(mortal, arrival).await {
                break;
            }
            assert!(point.has_crashed(), "{arrival:?}");
        }
    }
    // Rows of users and channels may depend on which listing came first; messages may not.
    let kept = |item: &Item| ["message#", "revision#"].iter().any(|kind| item.key.item_id.starts_with(kind));
    let items = memory.items();
    if arrivals.iter().any(|arrival| matches!(arrival, Arrival::Export(_))) {
        return items.into_iter().filter(kept).collect();
    }
    items
}

#[test]
fn pages_exports_and_events_in_any_order_twice_and_with_crashes_give_the_same_messages() {
    check_property(600, &arrived(), async |arrived| {
        let expected = rows(&arrived.in_order, &[], None).await;
        let found = rows(&arrived.shuffled, &arrived.lives, Some(arrived.interleaving)).await;
        prop_assert_eq!(only_in(&expected, &found), only_in(&found, &expected));
        Ok(())
    });
}
