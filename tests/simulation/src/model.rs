//! What the messages should be, by a second and much simpler reading of the same events: greatest edit, greatest clock.

use std::collections::BTreeMap;

use serde_json::Value;

use super::workload::PRIVATE_CHANNEL;

/// Where a message is: its channel and its timestamp.
pub(super) type ModelPlace = (String, String);

/// A message as it should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ModelledMessage {
    /// What it said, by the time of the edit.
    versions: BTreeMap<String, String>,
    /// Whether it was deleted.
    pub(super) deleted: bool,
    /// The thread it belongs to.
    pub(super) thread_ts: Option<String>,
    /// By name and person: the clock of the last word, and whether the reaction is there.
    reactions: BTreeMap<(String, String), (String, bool)>,
    /// Ids of its files.
    pub(super) files: Vec<String>,
}

impl ModelledMessage {
    /// What it says now.
    pub(super) fn text(&self) -> Option<&str> {
        self.versions.values().next_back().map(String::as_str)
    }

    /// What it said before each edit, by the time of that version.
    pub(super) fn replaced(&self) -> BTreeMap<&str, &str> {
        let newest = self.versions.keys().next_back();
        let older = self.versions.iter().filter(|(time, _)| Some(*time) != newest);
        older.map(|(time, text)| (time.as_str(), text.as_str())).collect()
    }

    /// Who reacts with what.
    pub(super) fn reactions(&self) -> Vec<(&str, &str)> {
        let there = self.reactions.iter().filter(|(_, (_, there))| *there);
        there.map(|((name, user), _)| (name.as_str(), user.as_str())).collect()
    }
}

/// The messages that these request bodies tell of.
pub(super) fn messages(bodies: &[Value]) -> BTreeMap<ModelPlace, ModelledMessage> {
    let mut messages: BTreeMap<ModelPlace, ModelledMessage> = BTreeMap::new();
    for body in bodies {
        let event = &body["event"];
        let item = if event["item"].is_object() { &event["item"] } else { event };
        let Some(channel) = text(item, "channel") else { continue };
        let hostile = text(body, "event_id").is_some_and(|id| id.starts_with("EvHostile"));
        if hostile || channel == PRIVATE_CHANNEL {
            continue;
        }
        let place = |message: &Value| (channel.clone(), text(message, "ts").unwrap_or_default());
        match (text(event, "type").as_deref(), text(event, "subtype").as_deref()) {
            (Some("message"), Some("message_changed")) => {
                let (after, before) = (&event["message"], &event["previous_message"]);
                if after["subtype"] == "tombstone" {
                    let message = messages.entry(place(after)).or_default();
                    message.deleted = true;
                    message.thread_ts = message.thread_ts.take().or_else(|| text(after, "thread_ts"));
                    say(message, before);
                    continue;
                }
                for version in [before, after] {
                    say(messages.entry(place(version)).or_default(), version);
                }
            }
            (Some("message"), Some("message_deleted")) => {
                let before = &event["previous_message"];
                let message = messages.entry(place(before)).or_default();
                say(message, before);
                message.deleted = true;
            }
            (Some("message"), _) => say(messages.entry(place(event)).or_default(), event),
            (Some(kind @ ("reaction_added" | "reaction_removed")), _) => {
                let (Some(name), Some(user), Some(clock)) =
                    (text(event, "reaction"), text(event, "user"), text(event, "event_ts"))
                else {
                    continue;
                };
                let said = (clock, kind == "reaction_added");
                let known =
                    messages.entry(place(item)).or_default().reactions.entry((name, user)).or_default();
                if known.0 <= said.0 {
                    *known = said;
                }
            }
            _ => {}
        }
    }
    messages
}

fn say(message: &mut ModelledMessage, version: &Value) {
    let time = text(&version["edited"], "ts").or_else(|| text(version, "ts")).unwrap_or_default();
    message.versions.insert(time, text(version, "text").unwrap_or_default());
    message.thread_ts = message.thread_ts.take().or_else(|| text(version, "thread_ts"));
    for file in version["files"].as_array().into_iter().flatten() {
        message.files.extend(text(file, "id"));
    }
}

fn text(value: &Value, name: &str) -> Option<String> {
    value[name].as_str().map(str::to_owned)
}
