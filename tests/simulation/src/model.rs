//! The expected messages, from a second and much simpler reading of the same events: the greatest edit and
//! clock win.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::irregular;
use super::workload::PRIVATE_CHANNEL;

/// The channel and the timestamp of a message.
pub(super) type MessageLocation = (String, String);

/// The expected state of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ModelledMessage {
    /// The text of each version, by the timestamp of the edit.
    versions: BTreeMap<String, String>,
    /// The marker words of each version.
    words: BTreeMap<String, BTreeSet<String>>,
    pub(super) deleted: bool,
    /// The thread it belongs to.
    pub(super) thread_ts: Option<String>,
    /// By name and user: the clock of the newest event, and whether the reaction is present.
    reactions: BTreeMap<(String, String), (String, bool)>,
    /// The clock of the newest event about its pin, and who pinned it if it is pinned.
    pin: (String, Option<String>),
    /// Ids of its files.
    pub(super) files: Vec<String>,
}

impl ModelledMessage {
    /// Returns the newest text.
    pub(super) fn text(&self) -> Option<&str> {
        self.versions.values().next_back().map(String::as_str)
    }

    /// Returns the marker words of the newest version.
    pub(super) fn words(&self) -> impl Iterator<Item = &String> {
        self.words.values().next_back().into_iter().flatten()
    }

    /// Returns the replaced texts by the timestamp of their version.
    pub(super) fn replaced(&self) -> BTreeMap<&str, &str> {
        let newest = self.versions.keys().next_back();
        let older = self.versions.iter().filter(|(time, _)| Some(*time) != newest);
        older.map(|(time, text)| (time.as_str(), text.as_str())).collect()
    }

    /// Returns the person who pinned it, if it is pinned.
    pub(super) fn pinned_by(&self) -> Option<&str> {
        self.pin.1.as_deref()
    }

    /// Returns the name and the user of each reaction that is present.
    pub(super) fn reactions(&self) -> Vec<(&str, &str)> {
        let present = self.reactions.iter().filter(|(_, (_, is_present))| *is_present);
        present.map(|((name, user), _)| (name.as_str(), user.as_str())).collect()
    }
}

/// Returns the messages that these request bodies describe.
pub(super) fn messages(bodies: &[Value]) -> BTreeMap<MessageLocation, ModelledMessage> {
    let mut messages: BTreeMap<MessageLocation, ModelledMessage> = BTreeMap::new();
    for body in bodies {
        let event = &body["event"];
        let item = if event["item"].is_object() { &event["item"] } else { event };
        let Some(channel) = text(item, "channel") else { continue };
        let hostile = text(body, "event_id").is_some_and(|id| id.starts_with("EvHostile"));
        if hostile || channel == PRIVATE_CHANNEL {
            continue;
        }
        let location = |message: &Value| (channel.clone(), text(message, "ts").unwrap_or_default());
        match (text(event, "type").as_deref(), text(event, "subtype").as_deref()) {
            (Some("message"), Some("message_changed")) => {
                let (after, before) = (&event["message"], &event["previous_message"]);
                if after["subtype"] == "tombstone" {
                    let message = messages.entry(location(after)).or_default();
                    message.deleted = true;
                    message.thread_ts = message.thread_ts.take().or_else(|| text(after, "thread_ts"));
                    add_version(message, before);
                    continue;
                }
                for version in [before, after] {
                    add_version(messages.entry(location(version)).or_default(), version);
                }
            }
            (Some("message"), Some("message_deleted")) => {
                let before = &event["previous_message"];
                let message = messages.entry(location(before)).or_default();
                add_version(message, before);
                message.deleted = true;
            }
            (Some("message"), _) => add_version(messages.entry(location(event)).or_default(), event),
            (Some(kind @ ("reaction_added" | "reaction_removed")), _) => {
                let (Some(name), Some(user), Some(clock)) =
                    (text(event, "reaction"), text(event, "user"), text(event, "event_ts"))
                else {
                    continue;
                };
                let change = (clock, kind == "reaction_added");
                let known =
                    messages.entry(location(item)).or_default().reactions.entry((name, user)).or_default();
                if known.0 <= change.0 {
                    *known = change;
                }
            }
            (Some(kind @ ("pin_added" | "pin_removed")), _) => {
                let (Some(user), Some(clock)) = (text(event, "user"), text(event, "event_ts")) else {
                    continue;
                };
                let known = &mut messages.entry(location(&item["message"])).or_default().pin;
                if known.0 <= clock {
                    *known = (clock, (kind == "pin_added").then_some(user));
                }
            }
            _ => {}
        }
    }
    messages
}

/// Returns the time of the last edit of each canvas in these request bodies.
pub(super) fn canvas_edits(bodies: &[Value]) -> BTreeMap<String, u64> {
    let mut edits: BTreeMap<String, u64> = BTreeMap::new();
    for event in bodies.iter().map(|body| &body["event"]).filter(|event| event["type"] == "file_change") {
        let edited_s: Option<u64> =
            text(event, "event_ts").and_then(|clock| clock.split('.').next()?.parse().ok());
        if let (Some(file), Some(edited_s)) = (text(event, "file_id"), edited_s) {
            let last = edits.entry(file).or_default();
            *last = edited_s.max(*last);
        }
    }
    edits
}

fn add_version(message: &mut ModelledMessage, version: &Value) {
    let time = text(&version["edited"], "ts").or_else(|| text(version, "ts")).unwrap_or_default();
    message.words.entry(time.clone()).or_default().extend(irregular::words(version));
    message.versions.insert(time, text(version, "text").unwrap_or_default());
    message.thread_ts = message.thread_ts.take().or_else(|| text(version, "thread_ts"));
    for file in version["files"].as_array().into_iter().flatten() {
        message.files.extend(text(file, "id"));
    }
}

fn text(value: &Value, name: &str) -> Option<String> {
    value[name].as_str().map(str::to_owned)
}
