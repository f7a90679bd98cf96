//! The inner `event` object, read tolerantly: a field that is missing or of another type is absent, never fatal.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::catalogue::{ChannelChange, EventRule, EventType};
use super::envelope::{self, UnreadableJson, object, text, text_or_none};
use super::ids::Ts;

/// What every event may carry: enough to route it and to judge its audience.
#[derive(Debug, Default, Deserialize)]
pub struct EventHeader<'a> {
    /// What kind of event it is.
    #[serde(rename = "type", borrow, default, deserialize_with = "event_kind")]
    pub kind: EventKind<'a>,
    /// The kind of message, such as `message_changed`.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub subtype: Option<Cow<'a, str>>,
    /// `channel`, `group`, `im`, `mpim` or `app_home`; absent on reactions and in old payloads.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub channel_type: Option<Cow<'a, str>>,
    /// Slack's clock for this event.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub event_ts: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    channel: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    channel_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    user: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    user_id: Option<Cow<'a, str>>,
    /// The bot that wrote a message.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub bot_id: Option<Cow<'a, str>>,
    /// The workspace of the person, on channels shared between workspaces.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub user_team: Option<Cow<'a, str>>,
    /// The workspace the message was written in, on channels shared between workspaces.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub source_team: Option<Cow<'a, str>>,
    /// What a reaction is on.
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    /// `channel_id_changed` names its channel only here.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub old_channel_id: Option<Cow<'a, str>>,
    /// The id the channel has from now on.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub new_channel_id: Option<Cow<'a, str>>,
}

/// The kind of an event.
#[derive(Debug, Default)]
pub struct EventKind<'a> {
    /// Its name, such as `message` or `reaction_added`.
    pub name: Option<Cow<'a, str>>,
    /// Its row of the catalogue, looked up once; `None` if the name is unknown.
    pub event_type: Option<&'static EventType>,
}

fn event_kind<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<EventKind<'de>, D::Error> {
    let name = text_or_none(deserializer)?;
    let event_type = name.as_deref().and_then(EventType::named);
    Ok(EventKind { name, event_type })
}

#[derive(Default, Deserialize)]
struct WithId<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    id: Option<Cow<'a, str>>,
}

/// What a reaction points at.
#[derive(Debug, Default, Deserialize)]
pub struct ReactionItem<'a> {
    /// `message`, `file` or `file_comment`.
    #[serde(rename = "type", borrow, default, deserialize_with = "text_or_none")]
    pub kind: Option<Cow<'a, str>>,
    /// The message's channel.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub channel: Option<Cow<'a, str>>,
    /// The message's timestamp.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub ts: Option<Cow<'a, str>>,
}

impl<'a> EventHeader<'a> {
    /// Reads an event's header. What is not an object, or says a thing twice, has no fields.
    pub fn read(event: &'a RawValue) -> Self {
        object(event)
    }

    /// The channel the event is about, wherever this kind of event names it: the only one that it is routed, judged,
    /// checked and written by. Of a reaction that is the channel of what it is on, and of a changed id the old one,
    /// whatever else the event names.
    pub fn channel(&self) -> Option<Cow<'a, str>> {
        let of_item = || self.item().and_then(|item| item.channel);
        match self.kind.event_type.map(|event_type| event_type.rule) {
            Some(EventRule::Reaction(_)) => of_item(),
            Some(EventRule::Channel(ChannelChange::IdChanged)) => self.old_channel_id.clone(),
            Some(_) | None => self.stated_channel().or_else(of_item).or_else(|| self.old_channel_id.clone()),
        }
    }

    /// Whether a channel stands beside the one the event is about, and is another one.
    pub fn contradicts_its_channel(&self) -> bool {
        match (self.stated_channel(), self.channel()) {
            (Some(stated), Some(channel)) => stated != channel,
            (Some(_) | None, _) => false,
        }
    }

    fn stated_channel(&self) -> Option<Cow<'a, str>> {
        self.channel.and_then(text_or_id).or_else(|| self.channel_id.clone())
    }

    /// The person the event is about.
    pub fn user(&self) -> Option<Cow<'a, str>> {
        self.user.and_then(text_or_id).or_else(|| self.user_id.clone())
    }

    /// The channel object, where the event carries one instead of an id.
    pub fn channel_object(&self) -> Option<&'a RawValue> {
        self.channel.filter(|raw| raw.get().starts_with('{'))
    }

    /// The user object, where the event carries one instead of an id.
    pub fn user_object(&self) -> Option<&'a RawValue> {
        self.user.filter(|raw| raw.get().starts_with('{'))
    }

    /// What a reaction is on.
    pub fn item(&self) -> Option<ReactionItem<'a>> {
        self.item.map(object)
    }

    /// Slack's clock for this event, where it has one of the right shape.
    pub fn clock(&self) -> Option<Ts> {
        self.event_ts.as_deref().and_then(|ts| Ts::parse(ts).ok())
    }
}

/// An id that stands alone or inside an object.
fn text_or_id(raw: &RawValue) -> Option<Cow<'_, str>> {
    text(raw).or_else(|| object::<WithId<'_>>(raw).id)
}

/// A message object: the event itself, or the `message` inside a change, or a row of history. What is written of a
/// message and whose existence is asked about both come from here. The last three fields are those of an event that changes another message.
#[derive(Debug, Default, Deserialize)]
pub struct MessageObject<'a> {
    /// What kind of message, where it is not a plain one.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub subtype: Option<Cow<'a, str>>,
    /// The message's identity in its channel.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub ts: Option<Cow<'a, str>>,
    /// The root's timestamp, on messages of a thread.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub thread_ts: Option<Cow<'a, str>>,
    /// The text in Slack's mrkdwn.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub text: Option<Cow<'a, str>>,
    /// The author; absent on bot messages.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub user: Option<Cow<'a, str>>,
    /// The bot that wrote it.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub bot_id: Option<Cow<'a, str>>,
    /// The name a bot gave itself.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub username: Option<Cow<'a, str>>,
    /// The workspace of the author, on channels shared between workspaces.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub user_team: Option<Cow<'a, str>>,
    /// The workspace the message was written in, on channels shared between workspaces.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub source_team: Option<Cow<'a, str>>,
    /// File objects.
    #[serde(borrow, default)]
    pub files: Option<&'a RawValue>,
    /// The single file object of old payloads.
    #[serde(borrow, default)]
    pub file: Option<&'a RawValue>,
    /// Who has reacted to it with what.
    #[serde(borrow, default)]
    pub reactions: Option<&'a RawValue>,
    /// The message at the beginning of its thread, on a reply that was sent to the channel too.
    #[serde(borrow, default)]
    pub root: Option<&'a RawValue>,
    #[serde(borrow, default)]
    edited: Option<&'a RawValue>,
    /// The message as it is now (`message_changed`, `message_replied`).
    #[serde(borrow, default)]
    pub message: Option<&'a RawValue>,
    /// The message as it was (`message_changed`, `message_deleted`).
    #[serde(borrow, default)]
    pub previous_message: Option<&'a RawValue>,
    /// Which message went (`message_deleted`).
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub deleted_ts: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct Edited<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    ts: Option<Cow<'a, str>>,
}

impl MessageObject<'_> {
    /// When a person last edited it. Unfurls and reply counts do not set this.
    ///
    /// # Errors
    /// [`UnreadableJson`] if the mark of the edit cannot be read.
    pub fn edited_ts(&self) -> Result<Option<Ts>, UnreadableJson> {
        let edited: Edited<'_> = self.edited.map(envelope::read).transpose()?.unwrap_or_default();
        Ok(edited.ts.and_then(|ts| Ts::parse(&ts).ok()))
    }

    /// Whether this only says that a message was here.
    pub fn is_tombstone(&self) -> bool {
        self.subtype.as_deref() == Some("tombstone")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn the_channel_is_found_wherever_slack_puts_it() {
        for json in [
            r#"{"channel":"C1"}"#,
            r#"{"channel":{"id":"C1","name":"x"}}"#,
            r#"{"channel_id":"C1"}"#,
            r#"{"item":{"type":"message","channel":"C1","ts":"1.000000"}}"#,
            r#"{"old_channel_id":"C1","new_channel_id":"C2"}"#,
        ] {
            assert_eq!(EventHeader::read(&raw(json)).channel().as_deref(), Some("C1"), "{json}");
        }
    }

    #[test]
    fn a_reaction_is_in_the_channel_of_what_it_is_on_and_in_no_other() {
        let reaction = |channel: &str| {
            format!(
                r#"{{"type":"reaction_added","channel":"{channel}","item":{{"type":"message","channel":"G1","ts":"1.000000"}}}}"#
            )
        };
        for (channel, contradicts) in [("C1", true), ("G1", false)] {
            let event = raw(&reaction(channel));
            let header = EventHeader::read(&event);
            assert_eq!(
                (header.channel().as_deref(), header.contradicts_its_channel()),
                (Some("G1"), contradicts)
            );
        }
        // Without one of its own it is in none.
        let event =
            raw(r#"{"type":"reaction_removed","channel":"C1","item":{"type":"message","ts":"1.000000"}}"#);
        assert_eq!(EventHeader::read(&event).channel(), None);
        let event = raw(
            r#"{"type":"channel_id_changed","channel":"C9","old_channel_id":"C1","new_channel_id":"C2"}"#,
        );
        assert_eq!(EventHeader::read(&event).channel().as_deref(), Some("C1"));
    }

    #[test]
    fn the_user_is_found_as_id_or_object() {
        for json in [r#"{"user":"U1"}"#, r#"{"user":{"id":"U1"}}"#, r#"{"user_id":"U1"}"#] {
            assert_eq!(EventHeader::read(&raw(json)).user().as_deref(), Some("U1"), "{json}");
        }
    }

    #[test]
    fn an_event_that_is_no_object_has_no_fields() {
        for json in ["[]", "[\"message\"]", "7", "null", "\"message\""] {
            assert!(EventHeader::read(&raw(json)).kind.name.is_none(), "{json}");
        }
    }
}
