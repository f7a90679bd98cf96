//! The messages of a channel, as Slack would show them now.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use serde_json::{Value, json};
use slack::ids::Ts;

use crate::event::seconds;

/// The messages of a channel with their threads and reactions.
#[derive(Debug, Clone, Default)]
pub struct ChannelHistory {
    messages: BTreeMap<Ts, PostedMessage>,
    /// The replies of each root.
    threads: BTreeMap<Ts, BTreeSet<Ts>>,
}

#[derive(Debug, Clone, Default)]
struct PostedMessage {
    message: Value,
    /// The name and users of each reaction, in the order in which they were added.
    reactions: Vec<(String, Vec<String>)>,
    /// Who pinned it, and the second.
    pin: Option<(String, i64)>,
}

impl ChannelHistory {
    /// Adds a message. It replaces the one with the same `ts` and keeps its reactions. A reply whose root is
    /// missing adds a tombstone for the root, because Slack keeps the root of every thread.
    pub fn post(&mut self, message: &Value) {
        let Some(ts) = ts_of(&message["ts"]) else { return };
        if let Some(root) = ts_of(&message["thread_ts"]).filter(|root| *root != ts) {
            self.threads.entry(root.clone()).or_default().insert(ts.clone());
            self.messages
                .entry(root.clone())
                .or_insert_with(|| PostedMessage { message: tombstone(&root), ..PostedMessage::default() });
        }
        self.messages.entry(ts).or_default().message = message.clone();
    }

    /// Removes a message; the root of a thread remains as a tombstone.
    pub fn delete(&mut self, ts: &str) {
        let Some(ts) = ts_of(&ts.into()) else { return };
        if self.replies(&ts).next().is_some() {
            self.messages
                .insert(ts.clone(), PostedMessage { message: tombstone(&ts), ..PostedMessage::default() });
            return;
        }
        let removed = self.messages.remove(&ts);
        let root = removed.and_then(|removed| ts_of(&removed.message["thread_ts"]));
        if let Some(replies) = root.and_then(|root| self.threads.get_mut(&root)) {
            replies.remove(&ts);
        }
    }

    /// Adds a reaction.
    pub fn react(&mut self, ts: &str, user: &str, name: &str) {
        let Some(posted) = ts_of(&ts.into()).and_then(|ts| self.messages.get_mut(&ts)) else { return };
        let index = posted.reactions.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            posted.reactions.push((name.to_owned(), Vec::new()));
            posted.reactions.len() - 1
        });
        let users = &mut posted.reactions[index].1;
        if !users.iter().any(|known| known == user) {
            users.push(user.to_owned());
        }
    }

    /// Removes a reaction.
    pub fn unreact(&mut self, ts: &str, user: &str, name: &str) {
        let Some(posted) = ts_of(&ts.into()).and_then(|ts| self.messages.get_mut(&ts)) else { return };
        for (_, users) in posted.reactions.iter_mut().filter(|(known, _)| known == name) {
            users.retain(|known| known != user);
        }
        posted.reactions.retain(|(_, users)| !users.is_empty());
    }

    /// Sets or removes the pin of a message.
    pub fn set_pin(&mut self, ts: &str, pin: Option<(&str, i64)>) {
        if let Some(posted) = ts_of(&ts.into()).and_then(|ts| self.messages.get_mut(&ts)) {
            posted.pin = pin.map(|(user, at)| (user.to_owned(), at));
        }
    }

    /// Returns the items of `pins.list`: the pinned messages of the channel, newest first.
    pub(crate) fn pins(&self, channel: &str) -> Vec<Value> {
        let items = self.messages.values().rev().filter_map(|posted| {
            let (user, at) = posted.pin.as_ref()?;
            Some(json!({ "type": "message", "created": at, "created_by": user, "channel": channel,
                "message": posted.message }))
        });
        items.collect()
    }

    /// Applies an event about a message of this channel.
    pub fn apply_event(&mut self, event: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let item = text(&event["item"]["ts"]);
        match (event["type"].as_str(), event["subtype"].as_str()) {
            (Some("message"), Some("message_changed")) => self.post(&event["message"]),
            (Some("message"), Some("message_deleted")) => self.delete(&text(&event["deleted_ts"])),
            (Some("message"), Some("message_replied")) => {}
            (Some("message"), _) => {
                let mut message = event.clone();
                if let Value::Object(members) = &mut message {
                    members
                        .retain(|name, _| !matches!(name.as_str(), "channel" | "channel_type" | "event_ts"));
                }
                self.post(&message);
            }
            (Some("reaction_added"), _) => {
                self.react(&item, &text(&event["user"]), &text(&event["reaction"]))
            }
            (Some("reaction_removed"), _) => {
                self.unreact(&item, &text(&event["user"]), &text(&event["reaction"]));
            }
            (Some("pin_added"), _) => {
                let at = seconds(&text(&event["event_ts"]));
                self.set_pin(&text(&event["item"]["message"]["ts"]), Some((&text(&event["user"]), at)));
            }
            (Some("pin_removed"), _) => self.set_pin(&text(&event["item"]["message"]["ts"]), None),
            _ => {}
        }
    }

    /// Adds the messages of a channel that continues under this channel's id.
    pub(crate) fn merge(&mut self, other: Self) {
        self.messages.extend(other.messages);
        for (root, replies) in other.threads {
            self.threads.entry(root).or_default().extend(replies);
        }
    }

    /// Returns every message, oldest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = Value> {
        self.messages.values().map(|posted| posted.message.clone())
    }

    /// Whether there is a message with this timestamp.
    pub(crate) fn contains(&self, ts: &Ts) -> bool {
        self.messages.contains_key(ts)
    }

    /// Returns the messages that the channel itself shows up to a time in microseconds, newest first: all
    /// except replies that were not also sent to the channel.
    pub(crate) fn in_channel_before(&self, micros: i64) -> impl Iterator<Item = &Ts> {
        let latest = ts_at(micros);
        let shown = |(ts, posted): &(&Ts, &PostedMessage)| {
            let is_reply = ts_of(&posted.message["thread_ts"]).is_some_and(|root| root != **ts);
            !is_reply || posted.message["subtype"] == "thread_broadcast"
        };
        let until = latest.as_ref().map_or(Bound::Unbounded, Bound::Included);
        self.messages.range::<Ts, _>((Bound::Unbounded, until)).rev().filter(shown).map(|(ts, _)| ts)
    }

    /// Returns the replies of a root, oldest first.
    pub(crate) fn replies(&self, root: &Ts) -> impl DoubleEndedIterator<Item = &Ts> {
        self.threads.get(root).into_iter().flatten()
    }

    /// Returns a message as Slack shows it: with its reactions, its pin and, if it is a root, with the figures of its
    /// thread.
    pub(crate) fn shown_message(&self, channel: &str, ts: &Ts, listed_reaction_users: usize) -> Value {
        let Some(posted) = self.messages.get(ts) else { return Value::Null };
        let mut message = posted.message.clone();
        if !posted.reactions.is_empty() {
            let reactions = posted.reactions.iter().map(|(name, users)| {
                let listed = &users[..users.len().min(listed_reaction_users)];
                json!({ "name": name, "users": listed, "count": users.len() })
            });
            message["reactions"] = reactions.collect();
        }
        if let Some((user, at)) = &posted.pin {
            message["pinned_to"] = json!([channel]);
            message["pinned_info"] = json!({ "channel": channel, "pinned_by": user, "pinned_ts": at });
        }
        if let Some(latest) = self.replies(ts).next_back() {
            let users: BTreeSet<&str> = self
                .replies(ts)
                .filter_map(|reply| self.messages.get(reply)?.message["user"].as_str())
                .collect();
            message["thread_ts"] = ts.as_str().into();
            message["reply_count"] = self.replies(ts).count().into();
            message["reply_users_count"] = users.len().into();
            // Slack lists at most five of them.
            message["reply_users"] = users.into_iter().take(5).collect();
            message["latest_reply"] = latest.as_str().into();
            message["is_locked"] = false.into();
            message["subscribed"] = false.into();
        }
        message
    }
}

fn ts_of(value: &Value) -> Option<Ts> {
    Ts::parse(value.as_str()?).ok()
}

/// Converts a time to a timestamp; `None` if a timestamp cannot represent it.
fn ts_at(micros: i64) -> Option<Ts> {
    Ts::parse(&format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)).ok()
}

/// Returns the tombstone that remains of a deleted root.
fn tombstone(ts: &Ts) -> Value {
    json!({
        "type": "message", "subtype": "tombstone", "user": "USLACKBOT", "text": "This message was deleted.",
        "hidden": true, "ts": ts.as_str(), "thread_ts": ts.as_str(),
    })
}
