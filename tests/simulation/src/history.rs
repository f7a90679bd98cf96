//! History: what Slack shows in the end is what its events say, and reading it fills what the events lack.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{Archive, Item, ItemKey};
use rules::history::{self, HistoryMessage};
use serde_json::Value;
use serde_json::value::to_raw_value;
use slack::ids::{ChannelId, TeamId};
use testkit::corpus::TEAM;
use workers::store::{StoredAs, store_history};

use super::api::SlackTruth;
use super::fleet::Surroundings;
use super::model::{self, ModelPlace, ModelledMessage};
use super::workload;
use super::world::{Invariant, World};

/// Messages stored at once: few, so that a thread comes in several pages.
const PAGE: usize = 3;

/// Checks history against everything that happened, fills the archive from it, and checks that too.
pub(super) async fn judge(all: &Surroundings, channels: usize) {
    let shown = shown(&all.truth, channels);
    as_it_happened(&all.world, &all.truth, &shown, channels);
    filled(all, &shown).await;
}

/// Every message of the public channels, as a client reads them: page by page, then thread by thread.
pub(super) fn shown(truth: &SlackTruth, channels: usize) -> BTreeMap<ModelPlace, Value> {
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
        let answer = truth.ask(method, &[parameters, &[("cursor", &cursor)]].concat());
        messages.extend(answer["messages"].as_array().into_iter().flatten().cloned());
        match answer["response_metadata"]["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => return messages,
        }
    }
}

/// Slack shows what the simple model makes of all that happened, whether its events arrived or not.
fn as_it_happened(world: &World, truth: &SlackTruth, shown: &BTreeMap<ModelPlace, Value>, channels: usize) {
    let ids = workload::public_ids(channels);
    let mut expected: BTreeMap<ModelPlace, ModelledMessage> = BTreeMap::new();
    for ((channel, ts), message) in model::messages(&truth.happened()) {
        if ids.contains(&channel) {
            expected.insert((truth.id_now(&channel), ts), message);
        }
    }
    let places: BTreeSet<&ModelPlace> = shown.keys().chain(expected.keys()).collect();
    for place in places {
        let now = shown.get(place).filter(|message| message["subtype"] != "tombstone");
        let agrees = match (now, expected.get(place)) {
            (None, None) => shown.contains_key(place),
            (None, Some(expected)) => expected.deleted,
            (Some(_), None) => false,
            (Some(now), Some(expected)) => {
                let thread_ts = now["thread_ts"].as_str();
                let is_in_thread = thread_ts == expected.thread_ts.as_deref()
                    || (expected.thread_ts.is_none() && thread_ts == Some(&place.1));
                !expected.deleted
                    && now["text"].as_str() == expected.text()
                    && is_in_thread
                    && reactions(now) == expected.reactions().into_iter().collect()
            }
        };
        if !agrees {
            let what = format!("{place:?} is shown as {now:?} instead of {:?}", expected.get(place));
            world.broke(Invariant::Archive, what);
        }
    }
}

fn reactions(message: &Value) -> BTreeSet<(&str, &str)> {
    let listed = message["reactions"].as_array().into_iter().flatten();
    let users = |reaction: &Value| reaction["users"].as_array().cloned().unwrap_or_default().len();
    listed
        .flat_map(|reaction| {
            let name = reaction["name"].as_str().unwrap_or_default();
            (0..users(reaction)).filter_map(move |n| Some((name, reaction["users"][n].as_str()?)))
        })
        .collect()
}

/// Whatever the archive lacked, it has everything that Slack shows after it has read it; and reading it again writes nothing.
async fn filled(all: &Surroundings, shown: &BTreeMap<ModelPlace, Value>) {
    let Ok(team) = TeamId::parse(TEAM) else { return };
    let archive = &*all.archive as &dyn Archive;
    let read = |((channel, _), message): (&ModelPlace, &Value)| {
        let channel = ChannelId::parse(channel).ok()?;
        history::read(&team, &channel, &to_raw_value(message).ok()?).ok()
    };
    let messages: Vec<HistoryMessage> = shown.iter().filter_map(read).collect();
    if messages.len() != shown.len() {
        all.world.broke(Invariant::Lost, "a message of history cannot be read".into());
    }
    for round in 0..2 {
        for page in messages.chunks(PAGE) {
            for (message, stored) in page.iter().zip(store_history(archive, page).await) {
                if !stored.as_ref().is_ok_and(|stored| round == 0 || *stored == StoredAs::Unchanged) {
                    let what = format!("{} is stored again as {stored:?}", message.ts);
                    all.world.broke(Invariant::Doubled, what);
                }
            }
        }
    }
    for ((channel, ts), message) in shown {
        let row = all.archive.item(&ItemKey::new(format!("message#{TEAM}#{channel}"), ts.as_str()));
        if !row.is_some_and(|row| row.is_erased() || says(&row, message)) {
            let what = format!("{ts} in {channel} is not what Slack shows after its history was read");
            all.world.broke(Invariant::Lost, what);
        }
    }
}

/// Whether a row says what Slack shows. A reaction that an event took away is gone for history, which has no clock.
pub(super) fn says(row: &Item, message: &Value) -> bool {
    if message["subtype"] == "tombstone" {
        return row.is("deleted");
    }
    let has = |(name, user): (&str, &str)| row.attributes.contains_key(&format!("reaction#{name}#{user}"));
    row.text("text") == message["text"].as_str()
        && !row.is("deleted")
        && reactions(message).into_iter().all(has)
}
