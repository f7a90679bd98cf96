//! Checks history: Slack's final state matches its events, and reading it adds the messages that the events
//! lacked.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{Archive, Item, ItemKey};
use rules::history::{self, HistoryMessage};
use serde_json::Value;
use serde_json::value::to_raw_value;
use slack::ids::{ChannelId, TeamId};
use testkit::corpus::TEAM;
use workers::store::{StoredAs, store_history};

use super::api::SlackTruth;
use super::fleet::SimulationState;
use super::model::{self, MessageLocation, ModelledMessage};
use super::workload;
use super::world::{Invariant, World};

/// Number of messages stored at once: small, so that a thread spans several pages.
const PAGE: usize = 3;

/// Checks history against everything that happened, fills the archive from it, and checks the result.
pub(super) async fn check_history(all: &SimulationState, channels: usize) {
    let shown = shown(&all.truth, channels);
    check_shown(&all.world, &all.truth, &shown, channels);
    fill_and_check(all, &shown).await;
}

/// Returns every message of the public channels as a client reads them: page by page, then thread by thread.
pub(super) fn shown(truth: &SlackTruth, channels: usize) -> BTreeMap<MessageLocation, Value> {
    let mut shown = BTreeMap::new();
    for channel in workload::public_ids(channels) {
        for message in pages(truth, "conversations.history", &[("channel", &channel)]) {
            let Some(ts) = message["ts"].as_str().map(str::to_owned) else { continue };
            if !message["reply_count"].is_null() {
                for reply in pages(truth, "conversations.replies", &[("channel", &channel), ("ts", &ts)]) {
                    let ts = reply["ts"].as_str().unwrap_or_default().to_owned();
                    shown.entry((channel.clone(), ts)).or_insert(reply);
                }
            }
            shown.insert((channel.clone(), ts), message);
        }
    }
    shown
}

fn pages(truth: &SlackTruth, method: &str, parameters: &[(&str, &str)]) -> Vec<Value> {
    let (mut messages, mut cursor) = (Vec::new(), String::new());
    loop {
        let answer = truth.answer_without_faults(method, &[parameters, &[("cursor", &cursor)]].concat());
        messages.extend(answer["messages"].as_array().into_iter().flatten().cloned());
        match answer["response_metadata"]["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => return messages,
        }
    }
}

/// Checks that Slack shows the messages that the simple model builds from all events, whether or not they
/// were accepted.
fn check_shown(world: &World, truth: &SlackTruth, shown: &BTreeMap<MessageLocation, Value>, channels: usize) {
    let ids = workload::public_ids(channels);
    let mut expected: BTreeMap<MessageLocation, ModelledMessage> = BTreeMap::new();
    for ((channel, ts), message) in model::messages(&truth.event_bodies()) {
        if ids.contains(&channel) {
            expected.insert((truth.current_id(&channel), ts), message);
        }
    }
    let locations: BTreeSet<&MessageLocation> = shown.keys().chain(expected.keys()).collect();
    for location in locations {
        let now = shown.get(location).filter(|message| message["subtype"] != "tombstone");
        let agrees = match (now, expected.get(location)) {
            (None, None) => shown.contains_key(location),
            (None, Some(expected)) => expected.deleted,
            (Some(_), None) => false,
            (Some(now), Some(expected)) => {
                let thread_ts = now["thread_ts"].as_str();
                let is_in_thread = thread_ts == expected.thread_ts.as_deref()
                    || (expected.thread_ts.is_none() && thread_ts == Some(&location.1));
                !expected.deleted
                    && now["text"].as_str() == expected.text()
                    && is_in_thread
                    && reactions(now) == expected.reactions().into_iter().collect()
                    && now["pinned_info"]["pinned_by"].as_str() == expected.pinned_by()
            }
        };
        if !agrees {
            let what = format!("{location:?} is shown as {now:?} instead of {:?}", expected.get(location));
            world.report_violation(Invariant::Archive, what);
        }
    }
}

fn reactions(message: &Value) -> BTreeSet<(&str, &str)> {
    let listed = message["reactions"].as_array().into_iter().flatten();
    let pairs = listed.flat_map(|reaction| {
        let name = reaction["name"].as_str().unwrap_or_default();
        let users = reaction["users"].as_array().into_iter().flatten();
        users.filter_map(move |user| Some((name, user.as_str()?)))
    });
    pairs.collect()
}

/// Checks that after reading history the archive has everything that Slack shows, and that a second reading
/// writes nothing.
async fn fill_and_check(all: &SimulationState, shown: &BTreeMap<MessageLocation, Value>) {
    let Ok(team) = TeamId::parse(TEAM) else { return };
    let archive = &*all.archive as &dyn Archive;
    let read = |((channel, _), message): (&MessageLocation, &Value)| {
        let channel = ChannelId::parse(channel).ok()?;
        history::read(&team, &channel, &to_raw_value(message).ok()?).ok()
    };
    let messages: Vec<HistoryMessage> = shown.iter().filter_map(read).collect();
    if messages.len() != shown.len() {
        all.world.report_violation(Invariant::Lost, "a message of history cannot be read".into());
    }
    for round in 0..2 {
        for page in messages.chunks(PAGE) {
            for (message, stored) in page.iter().zip(store_history(archive, page).await) {
                if !stored.as_ref().is_ok_and(|stored| round == 0 || *stored == StoredAs::Unchanged) {
                    let what = format!("{} is stored again as {stored:?}", message.ts);
                    all.world.report_violation(Invariant::Doubled, what);
                }
            }
        }
    }
    for ((channel, ts), message) in shown {
        let row = all.archive.item(&ItemKey::new(format!("message#{TEAM}#{channel}"), ts.as_str()));
        if !row.is_some_and(|row| row.is_erased() || row_matches(&row, message)) {
            let what = format!("{ts} in {channel} differs from what Slack shows after its history was read");
            all.world.report_violation(Invariant::Lost, what);
        }
    }
}

/// Whether a row matches the message that Slack shows. A shown reaction or pin may be recorded as removed:
/// history has no clock that could overrule the removal event.
pub(super) fn row_matches(row: &Item, message: &Value) -> bool {
    if message["subtype"] == "tombstone" {
        return row.has_flag("deleted");
    }
    let has = |(name, user): (&str, &str)| row.attributes.contains_key(&format!("reaction#{name}#{user}"));
    row.text("text") == message["text"].as_str()
        && !row.has_flag("deleted")
        && reactions(message).into_iter().all(has)
        && (message["pinned_to"].is_null() || row.attributes.contains_key("pin"))
}
