//! The inner `event` object, parsed leniently: a field that is missing or has another type is absent, not an
//! error.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::catalogue::{ChannelChange, EventRule, EventType};
use super::envelope::{
    self, UnreadableJson, json_text, object_or_default, string_value, text_or_json, text_or_none,
};
use super::ids::Ts;

/// The common fields of events: enough to route an event and to determine its audience.
#[derive(Debug, Default, Deserialize)]
pub struct EventHeader<'a> {
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
    /// The workspace of the user, on channels shared between workspaces.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub user_team: Option<Cow<'a, str>>,
    /// The workspace the message was written in, on channels shared between workspaces.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub source_team: Option<Cow<'a, str>>,
    /// The workspace of the author, or, in some channels shared between workspaces, that of the app.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub team: Option<Cow<'a, str>>,
    /// The target of a reaction or a pin.
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    /// The channel of a `channel_id_changed` event, which has no other channel field.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub old_channel_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub new_channel_id: Option<Cow<'a, str>>,
}

#[derive(Debug, Default)]
pub struct EventKind<'a> {
    /// Its name, such as `message` or `reaction_added`.
    pub name: Option<Cow<'a, str>>,
    /// Its row in the catalogue, looked up once; `None` if the name is unknown.
    pub event_type: Option<&'static EventType>,
}

fn event_kind<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<EventKind<'de>, D::Error> {
    let name = text_or_none(deserializer)?;
    let event_type = name.as_deref().and_then(EventType::by_name);
    Ok(EventKind { name, event_type })
}

#[derive(Default, Deserialize)]
struct WithId<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    id: Option<Cow<'a, str>>,
}

/// The target of a reaction or a pin.
#[derive(Debug, Default, Deserialize)]
pub struct EventItem<'a> {
    /// `message`, `file` or `file_comment`.
    #[serde(rename = "type", borrow, default, deserialize_with = "text_or_none")]
    pub kind: Option<Cow<'a, str>>,
    /// The message's channel.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub channel: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    ts: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct WithTs<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    ts: Option<Cow<'a, str>>,
}

impl<'a> EventItem<'a> {
    /// The message's timestamp. A pin contains the whole message.
    pub fn ts(&self) -> Option<Cow<'a, str>> {
        let in_message = || self.message.and_then(|message| object_or_default::<WithTs<'a>>(message).ts);
        self.ts.clone().or_else(in_message)
    }
}

impl<'a> EventHeader<'a> {
    /// Reads an event's header. A value that is not an object, or has a duplicate key, yields a header
    /// without fields.
    pub fn read(event: &'a RawValue) -> Self {
        object_or_default(event)
    }

    /// The channel of the event, from the field that this kind of event uses. Routing, audience, existence
    /// check and writes all use this channel. For a reaction or a pin it is the channel of its target, and
    /// for a changed id the old id, regardless of other channel fields.
    pub fn channel(&self) -> Option<Cow<'a, str>> {
        let item_channel = || self.item().and_then(|item| item.channel);
        match self.kind.event_type.map(|event_type| event_type.rule) {
            Some(EventRule::Reaction(_)) => item_channel(),
            Some(EventRule::Pin(_)) => item_channel().or_else(|| self.stated_channel()),
            Some(EventRule::Channel(ChannelChange::IdChanged)) => self.old_channel_id.clone(),
            Some(_) | None => {
                self.stated_channel().or_else(item_channel).or_else(|| self.old_channel_id.clone())
            }
        }
    }

    /// Whether the event has a channel field that differs from [`EventHeader::channel`].
    pub fn has_conflicting_channel(&self) -> bool {
        match (self.stated_channel(), self.channel()) {
            (Some(stated), Some(channel)) => stated != channel,
            (Some(_) | None, _) => false,
        }
    }

    fn stated_channel(&self) -> Option<Cow<'a, str>> {
        self.channel.and_then(text_or_id).or_else(|| self.channel_id.clone())
    }

    pub fn user(&self) -> Option<Cow<'a, str>> {
        self.user.and_then(text_or_id).or_else(|| self.user_id.clone())
    }

    /// The channel object, if the event contains one instead of an id.
    pub fn channel_object(&self) -> Option<&'a RawValue> {
        self.channel.filter(|raw| raw.get().starts_with('{'))
    }

    /// The user object, if the event contains one instead of an id.
    pub fn user_object(&self) -> Option<&'a RawValue> {
        self.user.filter(|raw| raw.get().starts_with('{'))
    }

    /// The target of a reaction or a pin.
    pub fn item(&self) -> Option<EventItem<'a>> {
        self.item.map(object_or_default)
    }

    /// Slack's clock for this event, if it has a valid one.
    pub fn clock(&self) -> Option<Ts> {
        self.event_ts.as_deref().and_then(|ts| Ts::parse(ts).ok())
    }
}

/// Deserializes an id, either as a string or in an object. Anything else becomes its JSON text, which is no
/// valid id: a message whose author cannot be read is not one without an author.
fn id_or_json<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    let raw = <&'de RawValue>::deserialize(deserializer)?;
    Ok(text_or_id(raw).or_else(|| json_text(raw)))
}

/// An id, either as a string or in an object.
fn text_or_id(raw: &RawValue) -> Option<Cow<'_, str>> {
    string_value(raw).or_else(|| object_or_default::<WithId<'_>>(raw).id)
}

/// A message object: the event itself, the `message` inside a change, or a message of Slack's history. It is
/// the source both of the stored message and of the ids that the existence check verifies. A value of an
/// unexpected type is read as its JSON text, since an absent text or author would replace the stored one. The
/// last three fields belong to events that change another message.
#[derive(Debug, Default, Deserialize)]
pub struct MessageObject<'a> {
    /// The kind of message, unless it is a plain one.
    #[serde(borrow, default, deserialize_with = "text_or_json")]
    pub subtype: Option<Cow<'a, str>>,
    /// The message's identity in its channel.
    #[serde(borrow, default, deserialize_with = "text_or_json")]
    pub ts: Option<Cow<'a, str>>,
    /// The root's timestamp, on messages of a thread.
    #[serde(borrow, default, deserialize_with = "text_or_json")]
    pub thread_ts: Option<Cow<'a, str>>,
    /// The text in Slack's mrkdwn.
    #[serde(borrow, default, deserialize_with = "text_or_json")]
    pub text: Option<Cow<'a, str>>,
    /// The field `user`; absent on bot messages and on comments of files. [`MessageObject::person`] has the
    /// author.
    #[serde(borrow, default, deserialize_with = "id_or_json")]
    pub user: Option<Cow<'a, str>>,
    /// The comment in an old `file_comment`.
    #[serde(borrow, default)]
    comment: Option<&'a RawValue>,
    /// The bot that wrote it.
    #[serde(borrow, default, deserialize_with = "id_or_json")]
    pub bot_id: Option<Cow<'a, str>>,
    /// The name a bot gave itself.
    #[serde(borrow, default, deserialize_with = "text_or_json")]
    pub username: Option<Cow<'a, str>>,
    /// The workspace of the author, on channels shared between workspaces.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub user_team: Option<Cow<'a, str>>,
    /// The workspace the message was written in, on channels shared between workspaces.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub source_team: Option<Cow<'a, str>>,
    /// The workspace of the author, or, in some channels shared between workspaces, that of the app.
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    pub team: Option<Cow<'a, str>>,
    /// The author's profile, especially that of a person of another organisation.
    #[serde(borrow, default)]
    pub user_profile: Option<&'a RawValue>,
    /// The bot of the app that wrote it.
    #[serde(borrow, default)]
    pub bot_profile: Option<&'a RawValue>,
    /// File objects.
    #[serde(borrow, default)]
    pub files: Option<&'a RawValue>,
    /// The single file object of old payloads.
    #[serde(borrow, default)]
    pub file: Option<&'a RawValue>,
    /// The attachments: previews of links, content of apps, and forwarded messages.
    #[serde(borrow, default)]
    pub attachments: Option<&'a RawValue>,
    /// The reactions with their users.
    #[serde(borrow, default)]
    pub reactions: Option<&'a RawValue>,
    /// The root message of the thread, on a reply that was also sent to the channel.
    #[serde(borrow, default)]
    pub root: Option<&'a RawValue>,
    #[serde(borrow, default)]
    edited: Option<&'a RawValue>,
    /// The new version of the message (`message_changed`, `message_replied`).
    #[serde(borrow, default)]
    pub message: Option<&'a RawValue>,
    /// The previous version of the message (`message_changed`, `message_deleted`).
    #[serde(borrow, default)]
    pub previous_message: Option<&'a RawValue>,
    /// The timestamp of the deleted message (`message_deleted`).
    #[serde(borrow, default, deserialize_with = "text_or_json")]
    pub deleted_ts: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct Edited<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    ts: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct FileComment<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    user: Option<Cow<'a, str>>,
}

impl<'a> MessageObject<'a> {
    /// The person or the app's user who wrote the message: `user`, otherwise the author of the comment in an
    /// old `file_comment`. A message without such a person is by `bot_id`, otherwise by `username`.
    pub fn person(&self) -> Option<Cow<'a, str>> {
        let is_named = |user: &Cow<'_, str>| !user.is_empty();
        let commenter = || self.comment.map(object_or_default::<FileComment<'_>>)?.user;
        self.user.clone().filter(is_named).or_else(|| commenter().filter(is_named))
    }

    /// When a user last edited it. Unfurls and reply counts do not set this.
    ///
    /// # Errors
    /// [`UnreadableJson`] if `edited` cannot be read.
    pub fn edited_ts(&self) -> Result<Option<Ts>, UnreadableJson> {
        let edited: Edited<'_> = self.edited.map(envelope::read_object).transpose()?.unwrap_or_default();
        Ok(edited.ts.and_then(|ts| Ts::parse(&ts).ok()))
    }

    /// Whether this is the tombstone of a deleted message.
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
    fn the_channel_is_found_in_every_field_that_slack_uses() {
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
    fn a_reaction_belongs_to_the_channel_of_its_target() {
        let reaction = |channel: &str| {
            format!(
                r#"{{"type":"reaction_added","channel":"{channel}","item":{{"type":"message","channel":"G1","ts":"1.000000"}}}}"#
            )
        };
        for (channel, contradicts) in [("C1", true), ("G1", false)] {
            let event = raw(&reaction(channel));
            let header = EventHeader::read(&event);
            assert_eq!(
                (header.channel().as_deref(), header.has_conflicting_channel()),
                (Some("G1"), contradicts)
            );
        }
        // A reaction whose target has no channel has none.
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
    fn the_author_of_a_comment_wrote_the_message_if_it_has_no_user() {
        for (json, person) in [
            (r#"{"user":"U1","comment":{"user":"U2"}}"#, Some("U1")),
            (r#"{"comment":{"user":"U2","comment":"hi"}}"#, Some("U2")),
            (r#"{"user":"","comment":{"user":"U2"}}"#, Some("U2")),
            (r#"{"user":null,"comment":{"user":"U2"},"bot_id":"B1"}"#, Some("U2")),
            (r#"{"comment":{"user":""},"bot_id":"B1"}"#, None),
            (r#"{"user":7,"comment":["U2"]}"#, Some("7")),
            (r#"{"comment":null}"#, None),
            (r#"{"comment":{"user":{"id":"U2"}}}"#, None),
        ] {
            let object = raw(json);
            let message: MessageObject<'_> = envelope::read_object(&object).unwrap();
            assert_eq!(message.person().as_deref(), person, "{json}");
        }
    }

    #[test]
    fn an_event_that_is_not_an_object_has_no_fields() {
        for json in ["[]", "[\"message\"]", "7", "null", "\"message\""] {
            assert!(EventHeader::read(&raw(json)).kind.name.is_none(), "{json}");
        }
    }
}
