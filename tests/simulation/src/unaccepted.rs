//! What happened in Slack and no process accepted: history may have brought it into the archive, or not yet.

use std::collections::BTreeSet;

use ports::archive::{Attributes, ItemKey};
use serde_json::Value;
use testkit::corpus::TEAM;

use super::api::SlackTruth;
use super::model::ModelPlace;
use super::workload::is_later_id;

/// The messages of which an event was not accepted. The default is for a fleet that reads no history: it explains nothing.
#[derive(Default)]
pub(super) struct Unaccepted {
    /// Under the id that the event names, and under the one that the channel has now.
    places: BTreeSet<ModelPlace>,
    reads_history: bool,
}

impl Unaccepted {
    /// What happened and is not among these requests.
    pub(super) fn of(truth: &SlackTruth, accepted: &[Value]) -> Self {
        let accepted: BTreeSet<String> =
            accepted.iter().map(|request| request["event"].to_string()).collect();
        let mut places = BTreeSet::new();
        for request in truth.happened() {
            let event = &request["event"];
            if accepted.contains(&event.to_string()) {
                continue;
            }
            if let Some((channel, ts)) = place(event) {
                places.insert((truth.id_now(&channel), ts.clone()));
                places.insert((channel, ts));
            }
        }
        Self { places, reads_history: true }
    }

    /// Whether a message may be newer than the accepted events say.
    pub(super) fn concerns(&self, channel: &str, ts: &str) -> bool {
        // Under its later id, a channel has in its history what was posted under the earlier one.
        self.reads_history
            && (is_later_id(channel) || self.places.contains(&(channel.to_owned(), ts.to_owned())))
    }

    /// Whether a message is in a thread by its history alone: it is the root, and its events came before the first reply.
    pub(super) fn makes_root(&self, ts: &str, thread_ts: Option<&str>) -> bool {
        self.reads_history && thread_ts == Some(ts)
    }

    /// Whether history explains why a row says more than the accepted events.
    pub(super) fn explains(&self, key: &ItemKey, expected: &Attributes, found: &Attributes) -> bool {
        let Some((channel, ts)) = place_of_row(key) else { return false };
        let mut found = found.clone();
        if self.makes_root(ts, found.get("thread_ts").and_then(Value::as_str)) {
            found.retain(|name, _| {
                !matches!(name.as_str(), "thread_ts" | "parent") || expected.contains_key(name)
            });
        }
        self.concerns(channel, ts) || found == *expected
    }

    /// Whether history explains a row of which no accepted event speaks.
    pub(super) fn brings(&self, key: &ItemKey) -> bool {
        place_of_row(key).is_some_and(|(channel, ts)| self.concerns(channel, ts))
    }
}

/// Every message of which an event says something.
pub(super) fn places(event: &Value) -> Vec<ModelPlace> {
    let Some(channel) = channel_of(event) else { return Vec::new() };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let objects = [event, &event["message"], &event["previous_message"], &event["root"], &event["item"]];
    let times =
        objects.into_iter().filter_map(|object| text(&object["ts"])).chain(text(&event["deleted_ts"]));
    times.map(|ts| (channel.clone(), ts)).collect()
}

/// The channel in which an event happened.
pub(super) fn channel_of(event: &Value) -> Option<String> {
    event["channel"].as_str().or(event["item"]["channel"].as_str()).map(str::to_owned)
}

/// The message that an event is about.
fn place(event: &Value) -> Option<ModelPlace> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let ts = [&event["message"]["ts"], &event["deleted_ts"], &event["item"]["ts"], &event["ts"]];
    Some((channel_of(event)?, ts.into_iter().find_map(text)?))
}

/// The message that a row is about: of it, or of one of its revisions.
pub(super) fn place_of_row(key: &ItemKey) -> Option<(&str, &str)> {
    let (kind, rest) = key.item_id.split_once('#')?;
    let place = rest.strip_prefix(TEAM)?.strip_prefix('#')?;
    match kind {
        "message" => Some((place, &key.timestamp)),
        "revision" => place.split_once('#'),
        _ => None,
    }
}
