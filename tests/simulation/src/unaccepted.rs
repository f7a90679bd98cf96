//! Events that happened in Slack but that no process accepted. History may have added them to the archive.

use std::collections::BTreeSet;

use ports::archive::{Attributes, ItemKey};
use serde_json::Value;
use testkit::corpus::TEAM;

use super::api::SlackTruth;
use super::irregular::is_missing_root;
use super::model::MessageLocation;
use super::workload::is_later_id;

/// Messages with an event that was not accepted.
pub(super) struct Unaccepted {
    /// Under the channel id of the event and under the channel's current id.
    locations: BTreeSet<MessageLocation>,
    /// The ones whose pin changed, which the list of pins shows too.
    pins: BTreeSet<MessageLocation>,
    reads_history: bool,
}

impl Unaccepted {
    /// Collects the events that happened and are not in `accepted`. In a fleet that reads no history, only
    /// pins can differ.
    pub(super) fn collect(truth: &SlackTruth, accepted: &[Value], reads_history: bool) -> Self {
        let accepted: BTreeSet<String> =
            accepted.iter().map(|request| request["event"].to_string()).collect();
        let (mut locations, mut pins) = (BTreeSet::new(), BTreeSet::new());
        for request in truth.event_bodies() {
            let event = &request["event"];
            if accepted.contains(&event.to_string()) {
                continue;
            }
            if let Some((channel, ts)) = message_of(event) {
                let both = [(truth.current_id(&channel), ts.clone()), (channel, ts)];
                if event["type"] == "pin_added" || event["type"] == "pin_removed" {
                    pins.extend(both.clone());
                }
                locations.extend(both);
            }
        }
        Self { locations, pins, reads_history }
    }

    /// Whether a message may be newer than its accepted events.
    pub(super) fn concerns(&self, channel: &str, ts: &str) -> bool {
        // A channel's history under the later id includes the messages posted under the earlier id.
        self.reads_history
            && (is_later_id(channel) || self.locations.contains(&(channel.to_owned(), ts.to_owned())))
    }

    /// Whether a message may be pinned otherwise than its accepted events say.
    pub(super) fn concerns_pin(&self, channel: &str, ts: &str) -> bool {
        self.pins.contains(&(channel.to_owned(), ts.to_owned()))
    }

    /// Whether only history can make the message a thread root: its own events came before the first reply.
    pub(super) fn explains_root(&self, ts: &str, thread_ts: Option<&str>) -> bool {
        self.reads_history && thread_ts == Some(ts)
    }

    /// Whether history explains the difference between a row and the accepted events.
    pub(super) fn explains(&self, key: &ItemKey, expected: &Attributes, found: &Attributes) -> bool {
        let Some((channel, ts)) = location_of_row(key) else { return false };
        let mut found = found.clone();
        if self.explains_root(ts, found.get("thread_ts").and_then(Value::as_str)) {
            found.retain(|name, _| {
                !matches!(name.as_str(), "thread_ts" | "parent") || expected.contains_key(name)
            });
        }
        if self.concerns_pin(channel, ts) {
            found.remove("pin");
            found.extend(expected.get_key_value("pin").map(|(name, pin)| (name.clone(), pin.clone())));
        }
        self.concerns(channel, ts) || found == *expected
    }

    /// Whether history explains a row without an accepted event.
    pub(super) fn explains_row(&self, key: &ItemKey) -> bool {
        let is_root = |ts| self.reads_history && is_missing_root(ts);
        location_of_row(key).is_some_and(|(channel, ts)| self.concerns(channel, ts) || is_root(ts))
    }
}

/// Returns every message that an event mentions.
pub(super) fn locations_of(event: &Value) -> Vec<MessageLocation> {
    let Some(channel) = channel_of(event) else { return Vec::new() };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let objects = [event, &event["message"], &event["previous_message"], &event["root"], &event["item"]];
    let times =
        objects.into_iter().filter_map(|object| text(&object["ts"])).chain(text(&event["deleted_ts"]));
    times.map(|ts| (channel.clone(), ts)).collect()
}

/// Returns the channel of an event.
pub(super) fn channel_of(event: &Value) -> Option<String> {
    let of_event = [&event["channel"], &event["channel"]["id"], &event["item"]["channel"]];
    of_event.into_iter().find_map(Value::as_str).map(str::to_owned)
}

/// Returns the message that an event is about.
fn message_of(event: &Value) -> Option<MessageLocation> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let item = &event["item"];
    let ts =
        [&event["message"]["ts"], &event["deleted_ts"], &item["ts"], &item["message"]["ts"], &event["ts"]];
    Some((channel_of(event)?, ts.into_iter().find_map(text)?))
}

/// Returns the channel and timestamp of the message of a row: a message row or a revision.
pub(super) fn location_of_row(key: &ItemKey) -> Option<(&str, &str)> {
    let (kind, rest) = key.item_id.split_once('#')?;
    let channel_part = rest.strip_prefix(TEAM)?.strip_prefix('#')?;
    match kind {
        "message" => Some((channel_part, &key.timestamp)),
        "revision" => channel_part.split_once('#'),
        _ => None,
    }
}
