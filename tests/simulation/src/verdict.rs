//! Compares the final archive with the models of the events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ports::archive::{
    Archive, ArchiveExt, Attributes, ErasureFact, ErasureFacts, ErasureScope, Item, ItemKey, Update, key,
};
use ports::clock::{ManualClock, TimestampMs};
use ports::queue::job::Job;
use ports::queue::{Delivery, GroupId, MessageId, Queue, QueueName, Receipt};
use reader::directory;
use rules::pin;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId};
use workers::channel_indexer::ChannelIndexer;
use workers::message_writer::MessageWriter;
use workers::quarantine;
use workers::runtime::Worker;

use super::api::{LISTED_CHANNELS, LISTED_PEOPLE, listed_channel, listed_person};
use super::erasing::ErasedJobs;
use super::fleet::SimulationState;
use super::irregular;
use super::ledger::event_id_in;
use super::model::{self, MessageLocation, ModelledMessage};
use super::operator::is_hostile;
use super::slack_files;
use super::unaccepted::Unaccepted;
use super::workload::{self, DIRECT_CHANNEL, INVENTED_CHANNEL, INVENTED_PERSON, PRIVATE_CHANNEL};
use super::world::{Invariant, lock};
use testkit::corpus::TEAM;
use testkit::memory::archive::MemoryArchive;
use testkit::memory::queue::MemoryQueue;

/// Runs every check of the final archive.
pub(super) async fn check_archive(all: &SimulationState, channels: usize) {
    let (events, indexed) =
        (all.ledger.accepted(QueueName::Events), all.ledger.accepted(QueueName::Channels));
    let requests: Vec<Value> = events.iter().filter_map(|body| request(body)).collect();
    let erased = ErasedJobs::collect(all);
    check_genuine(all, &requests);
    if let Some(host) = &all.socket {
        host.check_runs(&events);
        host.check_runs(&indexed);
    }
    check_quarantine(all, events.iter().chain(&indexed), &erased).await;
    let messages = model::messages(&requests);
    let unaccepted = Unaccepted::collect(&all.truth, &requests, all.fills_at_once);
    check_modelled(all, &messages, &unaccepted, &erased);
    irregular::check_readable(all, &messages, &unaccepted, &erased);
    irregular::check_authors(all, &requests);
    check_folded(all, (&events, &indexed), channels, &unaccepted, &erased).await;
    slack_files::check_files(all, &messages, &model::canvas_edits(&requests), &erased);
    check_directory(all).await;
    super::erasing::check_erasures(all);
}

/// Returns the request that a job contains.
pub(super) fn request(body: &str) -> Option<Value> {
    serde_json::from_str(Job::decode(body).ok()?.event()?.get()).ok()
}

fn check_genuine(all: &SimulationState, requests: &[Value]) {
    for request in requests {
        if request["event_id"].as_str().is_some_and(|id| id.starts_with("EvForged")) {
            all.world.report_violation(
                Invariant::Genuine,
                format!("{} was forged but is stored", request["event_id"]),
            );
        }
    }
    let erasures = lock(&all.erasures).clone();
    let is_erased_message = |item_id: &str| {
        erasures.iter().any(|fact| {
            matches!(&fact.scope, ErasureScope::Message(channel, _) if item_id.ends_with(channel.as_str()))
        })
    };
    for item in all.archive.items() {
        let ItemKey { item_id, timestamp } = &item.key;
        let of_a_channel = [PRIVATE_CHANNEL, INVENTED_CHANNEL, DIRECT_CHANNEL]
            .iter()
            .any(|channel| item_id.contains(&format!("#{channel}")) || timestamp == channel);
        // A forged message with a future time is erased with its alleged author: its mark and its day stay.
        let is_mark = item.is_erased() || item_id.starts_with("rollup#");
        if (of_a_channel && !(is_mark && is_erased_message(item_id))) || timestamp == INVENTED_PERSON {
            all.world.report_violation(Invariant::Genuine, format!("{:?} should not be stored", item.key));
        }
    }
}

/// Checks that quarantine has exactly the accepted hostile events.
async fn check_quarantine(
    all: &SimulationState,
    accepted: impl Iterator<Item = &String>,
    erased: &ErasedJobs,
) {
    let hostile = accepted.map(|body| event_id_in(body)).filter(|name| name.starts_with("EvHostile"));
    let expected: BTreeSet<String> = hostile.collect();
    let rows = quarantine::list(&*all.archive as &dyn Archive).await.unwrap_or_default();
    let found: BTreeSet<String> =
        rows.iter().filter(|job| is_hostile(job)).map(|job| event_id_in(&job.payload)).collect();
    for name in expected.symmetric_difference(&found).filter(|name| !erased.contains_event(name)) {
        let invariant = if expected.contains(name) { Invariant::Lost } else { Invariant::Doubled };
        all.world.report_violation(invariant, format!("{name} is accepted or in quarantine, but not both"));
    }
}

/// Checks the messages against the simple model.
fn check_modelled(
    all: &SimulationState,
    messages: &BTreeMap<MessageLocation, ModelledMessage>,
    unaccepted: &Unaccepted,
    erased: &ErasedJobs,
) {
    let erasures = lock(&all.erasures).clone();
    let is_erased_person = |id: &str| {
        let mut scopes = erasures.iter().map(|fact| &fact.scope);
        scopes.any(|scope| matches!(scope, ErasureScope::User(user) if user.as_str() == id))
    };
    let mut revisions: BTreeMap<String, Vec<Item>> = BTreeMap::new();
    for item in all.archive.items().into_iter().filter(|item| item.key.item_id.starts_with("revision#")) {
        revisions.entry(item.key.item_id.clone()).or_default().push(item);
    }
    for ((channel, ts), expected) in
        messages.iter().filter(|((channel, ts), _)| !erased.concerns(channel, ts))
    {
        let broke = |what: String| {
            all.world.report_violation(Invariant::Archive, format!("{ts} in {channel}: {what}"));
        };
        let Some(row) = all.archive.item(&ItemKey::new(format!("message#{TEAM}#{channel}"), ts.as_str()))
        else {
            all.world.report_violation(Invariant::Lost, format!("{ts} in {channel} is not in the archive"));
            continue;
        };
        // `check_folded` checks whether the message should be erased.
        if unaccepted.concerns(channel, ts) || row.is_erased() {
            continue;
        }
        if row.text("text") != expected.text() {
            broke(format!("{:?} instead of {:?}", row.text("text"), expected.text()));
        }
        let thread_ts = row.text("thread_ts");
        let is_in_thread = thread_ts == expected.thread_ts.as_deref()
            || (expected.thread_ts.is_none() && unaccepted.explains_root(ts, thread_ts));
        if row.has_flag("deleted") != expected.deleted || !is_in_thread {
            broke("its deletion or its thread is wrong".into());
        }
        let reactions: Vec<(&str, &str)> = row
            .attributes
            .iter()
            .filter(|(_, value)| value.as_str().is_some_and(|version| version.ends_with("/added")))
            .filter_map(|(name, _)| name.strip_prefix("reaction#")?.rsplit_once('#'))
            .collect();
        if reactions != expected.reactions() {
            broke(format!("reactions {reactions:?} instead of {:?}", expected.reactions()));
        }
        let pin = row.text("pin").map(|pin| pin.split('/').collect::<Vec<_>>()).unwrap_or_default();
        let pinned_by = if let [_, "added", _, user] = pin[..] { Some(user) } else { None };
        let is_erased = pinned_by == Some("~") && expected.pinned_by().is_some_and(is_erased_person);
        if pinned_by != expected.pinned_by() && !is_erased && !unaccepted.concerns_pin(channel, ts) {
            broke(format!("pinned by {pinned_by:?} instead of {:?}", expected.pinned_by()));
        }
        let kept = revisions.get(&format!("revision#{TEAM}#{channel}#{ts}")).map(Vec::as_slice);
        for (time, text) in expected.replaced() {
            let has_time = |revision: &&Item| revision.key.timestamp.split('#').next() == Some(time);
            let mut revisions = kept.unwrap_or_default().iter().filter(has_time);
            if !revisions.any(|revision| revision.text("text") == Some(text)) {
                broke(format!("its text at {time} is lost"));
            }
        }
    }
}

/// Checks the rows against an archive to which the same events were applied one by one, without faults.
async fn check_folded(
    all: &SimulationState,
    (events, indexed): (&[String], &[String]),
    channels: usize,
    unaccepted: &Unaccepted,
    erased: &ErasedJobs,
) {
    let archive = Arc::new(MemoryArchive::new());
    let as_port = || -> Arc<dyn Archive> { archive.clone() };
    // Copies the public marks: Slack may report a channel as public although no event does, and this model
    // does not ask Slack.
    let ids = workload::public_ids(channels);
    let is_shown = |key: &ItemKey| is_public_mark(key) && ids.contains(&key.timestamp);
    for mark in all.archive.items().into_iter().filter(|item| is_shown(&item.key)) {
        let copy = Update { set_if_absent: mark.attributes, ..Update::new(mark.key) };
        drop(archive.write(&copy).await);
    }
    let clock = ManualClock::starting_at(TimestampMs(0));
    let queue: Arc<dyn Queue> = Arc::new(MemoryQueue::new(clock));
    let writer = MessageWriter::new(as_port(), queue);
    let indexer = ChannelIndexer::new(as_port(), None);
    // An event without the channel's visibility is stored only once another event has shown it: hence the
    // second pass.
    let work = [(&writer as &dyn Worker, events), (&writer, events), (&indexer as &dyn Worker, indexed)];
    for (worker, bodies) in work {
        // The model has no existence check, so it skips hostile events.
        for body in bodies.iter().filter(|body| !event_id_in(body).starts_with("EvHostile")) {
            worker.handle(&[delivery(body)]).await;
        }
    }
    let expected = comparable(&archive, channels);
    let found = comparable(&all.archive, channels);
    let erasures = lock(&all.erasures).clone();
    let covered: ErasureFacts = erasures.iter().collect();
    for (key, attributes) in &expected {
        let row = Item { key: key.clone(), attributes: attributes.clone() };
        if covered.covers_row(&row) || is_of_erased_channel(&erasures, key) || erased.concerns_row(key) {
            continue;
        }
        match found.get(key) {
            None => all.world.report_violation(Invariant::Lost, format!("{key:?} is not in the archive")),
            Some(other) => {
                let attributes = without_erased_person(row, other, &erasures).attributes;
                if *other != attributes && !unaccepted.explains(key, &attributes, other) {
                    let what = differences(&attributes, other);
                    all.world.report_violation(Invariant::Archive, format!("{key:?} differs: {what}"));
                }
            }
        }
    }
    let is_erased = |attributes: &Attributes| attributes.get("erased") == Some(&Value::Bool(true));
    for (key, _) in
        found.iter().filter(|(key, attributes)| !expected.contains_key(*key) && !is_erased(attributes))
    {
        // The run may have gaps that are not in the events.
        if !key.item_id.starts_with("gap#") && !unaccepted.explains_row(key) {
            all.world
                .report_violation(Invariant::Doubled, format!("{key:?} is in the archive but in no event"));
        }
    }
    let Ok(team) = TeamId::parse(TEAM) else { return };
    let names = (directory::read(&*archive, &team).await, directory::read(&*all.archive, &team).await);
    let (Ok(expected), Ok(found)) = names else { return };
    for id in (0..channels).filter_map(|n| ChannelId::parse(&testkit::corpus::channel_id(n)).ok()) {
        let is_erased = is_of_erased_channel(&erasures, &ItemKey::new(key::channels(&team, &id), ""));
        if expected.name(&id) != found.name(&id) && !is_erased {
            let what = format!("{id} is {:?} instead of {:?}", found.name(&id), expected.name(&id));
            all.world.report_violation(Invariant::Archive, what);
        }
    }
}

/// Whether a row is a state of an erased channel. Later events may or may not have been folded with the
/// erased ones.
fn is_of_erased_channel(erasures: &[ErasureFact], key: &ItemKey) -> bool {
    erasures.iter().any(|fact| match &fact.scope {
        ErasureScope::Channel(channel) => key.item_id == key::channels(&fact.team, channel),
        ErasureScope::User(_) | ErasureScope::Message(..) => false,
    })
}

pub(super) fn is_public_mark(key: &ItemKey) -> bool {
    key.item_id == format!("meta#{TEAM}#public")
}

fn delivery(body: &str) -> Delivery {
    // Any group will do: only events with malformed ids depend on it, and those are skipped.
    Delivery {
        message_id: MessageId("1".into()),
        group: GroupId::from_parts(&["one"]),
        body: body.to_owned(),
        receive_count: 1,
        sent_at: TimestampMs(i64::MAX),
        receipt: Receipt(String::new()),
    }
}

/// Returns the rows that depend on the events alone, without rows of the directory sync and file states.
fn comparable(archive: &MemoryArchive, channels: usize) -> BTreeMap<ItemKey, Attributes> {
    let ids = workload::public_ids(channels);
    let is_listed = |key: &ItemKey| key.item_id.starts_with("user#") && key.timestamp.starts_with("U9");
    let is_row = |key: &ItemKey| {
        let is_of_channel = ["message", "channel"]
            .iter()
            .any(|kind| ids.iter().any(|id| key.item_id == format!("{kind}#{TEAM}#{id}")));
        let kinds = ["revision#", "user#", "usergroup#", "usergroupmember#", "usergroupname#", "gap#"];
        let is_of_kind = kinds.iter().any(|kind| key.item_id.starts_with(kind));
        let is_mark = is_public_mark(key) && ids.contains(&key.timestamp);
        is_of_channel || is_of_kind || is_mark || key.item_id == "meta#teams"
    };
    // What messages say about their authors also comes with history, which only some runs read.
    let is_described = |item: &Item| {
        item.key.item_id.starts_with("user#")
            && item.text("version").is_some_and(|version| version.starts_with('-'))
    };
    let rows = archive.items().into_iter();
    let rows = rows.filter(|item| is_row(&item.key) && !is_listed(&item.key) && !is_described(item));
    rows.map(|Item { key, mut attributes }| {
        let is_of_file =
            |name: &str| ["file#", "canvas#", "image#"].iter().any(|kind| name.starts_with(kind));
        // When work is due depends on the run.
        let is_schedule = |name: &str| key.item_id == "meta#teams" && name != "seen";
        attributes.retain(|name, _| !is_of_file(name) && !is_schedule(name));
        (key, attributes)
    })
    .collect()
}

fn differences(expected: &Attributes, found: &Attributes) -> String {
    let names: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let differing = names.into_iter().filter(|name| expected.get(*name) != found.get(*name));
    let descriptions =
        differing.map(|name| format!("{name}: {:?} instead of {:?}", found.get(name), expected.get(name)));
    descriptions.collect::<Vec<_>>().join("; ")
}

/// The row without the person of its pin if that person was erased and the row in the archive lacks them: an
/// event that comes after the erasure brings them back until the next one.
fn without_erased_person(expected: Item, found: &Attributes, erasures: &[ErasureFact]) -> Item {
    let without = erasures.iter().find_map(|fact| {
        let ErasureScope::User(user) = &fact.scope else { return None };
        let attributes =
            pin::without_person(&expected, user, &fact.until)?.apply(Some(&expected.attributes))?;
        (attributes.get("pin") == found.get("pin")).then_some(attributes)
    });
    match without {
        Some(attributes) => Item { attributes, ..expected },
        None => expected,
    }
}

/// Checks that the channels and people that only the directory lists are in the archive.
async fn check_directory(all: &SimulationState) {
    let Ok(team) = TeamId::parse(TEAM) else { return };
    let Ok(names) = directory::read(&*all.archive, &team).await else { return };
    for n in 0..LISTED_CHANNELS {
        let id = listed_channel(n);
        let name = ChannelId::parse(&id).ok().and_then(|id| names.name(&id).map(str::to_owned));
        if name.as_deref() != Some(&*format!("listed-{n}")) {
            all.world.report_violation(Invariant::Lost, format!("the listed channel {id} is {name:?}"));
        }
    }
    for n in 0..LISTED_PEOPLE {
        let key = ItemKey::new(format!("user#{TEAM}"), listed_person(n));
        if all.archive.item(&key).is_none() {
            all.world
                .report_violation(Invariant::Lost, format!("the listed person {} is missing", key.timestamp));
        }
    }
}
