//! Messages: the content register, deletion, and threads.
//!
//! <https://docs.slack.dev/reference/events/message>

use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;

use super::version::{self, ContentVersion};
use super::{Change, Event, Malformed};
use crate::archive::key::thread_parent;
use crate::archive::{Attributes, Guard, Item, ItemKey, Update};
use crate::slack::envelope;
use crate::slack::event::MessageObject;
use crate::slack::ids::{ChannelId, TeamId, Ts};

/// The register of a message's content.
pub const CONTENT_VERSION: &str = "content_version";

/// The attributes the content register consists of. What else Slack said (blocks, attachments) is in `raw_event`: a
/// second copy would make every row, and every write of it, half as large again.
const CONTENT: [&str; 8] =
    ["text", "user", "bot_id", "username", "subtype", "files", "updated_ts", "raw_event"];

/// One version of a message's content.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    version: ContentVersion,
    edited: bool,
    revision_key: ItemKey,
    if_newer: Update,
}

impl Content {
    /// The message it is a version of.
    #[must_use]
    pub fn key(&self) -> &ItemKey {
        &self.if_newer.key
    }

    /// Which version it is.
    #[must_use]
    pub fn version(&self) -> &ContentVersion {
        &self.version
    }

    /// Whether a person edited it: only then may an older version have to be kept before it is replaced.
    #[must_use]
    pub fn is_edit(&self) -> bool {
        self.edited
    }

    /// Writes the content where it is newer than what is stored.
    #[must_use]
    pub fn if_newer(&self) -> &Update {
        &self.if_newer
    }

    /// Writes the content where the stored version is still the one that was read.
    #[must_use]
    pub fn if_unchanged(&self, stored: Option<&ContentVersion>) -> Update {
        let guard = Guard::Unchanged {
            register: CONTENT_VERSION.into(),
            expected: stored.map(|version| version.as_str().into()),
            version: self.version.as_str().into(),
        };
        Update { guard, ..self.if_newer.clone() }
    }

    /// Keeps this version as a revision: a newer edit has replaced it.
    #[must_use]
    pub fn as_revision(&self) -> Update {
        let Update { set, set_if_absent, .. } = self.if_newer.clone();
        revision_update(self.revision_key.clone(), &self.version, set, &set_if_absent)
    }
}

/// The version of the content a stored message has, if it has any.
#[must_use]
pub fn stored_version(item: &Item) -> Option<ContentVersion> {
    item.text(CONTENT_VERSION).map(ContentVersion::stored)
}

/// Keeps the content of a stored message as a revision, before an edit replaces it.
#[must_use]
pub fn revision_of(item: &Item) -> Option<Update> {
    let version = stored_version(item)?;
    let id = |name| item.text(name).unwrap_or_default();
    let key = ItemKey::new(
        format!("revision#{}#{}#{}", id("team_id"), id("channel_id"), id("ts")),
        version.edit_time().as_str(),
    );
    let named = |names: &[&str]| -> Attributes {
        let present = |name: &&str| Some(((*name).to_owned(), item.attributes.get(*name)?.clone()));
        names.iter().filter_map(present).collect()
    };
    Some(revision_update(key, &version, named(&CONTENT), &named(&["team_id", "channel_id", "ts"])))
}

fn revision_update(
    key: ItemKey,
    version: &ContentVersion,
    content: Attributes,
    message: &Attributes,
) -> Update {
    let mut identity: Attributes = message
        .iter()
        .filter(|(name, _)| matches!(name.as_str(), "team_id" | "channel_id" | "ts"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    identity.insert("type".into(), "revision".into());
    content_update(key, version, content, identity)
}

fn content_update(
    key: ItemKey,
    version: &ContentVersion,
    set: Attributes,
    set_if_absent: Attributes,
) -> Update {
    let guard = Guard::Greater { register: CONTENT_VERSION.into(), version: version.as_str().into() };
    let remove = CONTENT.into_iter().filter(|name| !set.contains_key(*name)).collect();
    Update { key, guard, set, remove, set_if_absent }
}

/// What a message event changes.
pub(super) fn changes(event: &Event<'_>) -> Result<Vec<Change>, Malformed> {
    let channel = event.channel()?;
    let message = object(event.raw);
    let place = Place { team: &event.team, channel: &channel };
    match event.header.subtype.as_deref() {
        Some("message_changed") => {
            let now =
                message.message.ok_or(Malformed::Missing { event: "message_changed", field: "message" })?;
            let changed = place.content(now, &clock(event))?;
            // A tombstone says that the message went; it brings nothing else.
            if matches!(changed, Change::Register(_)) {
                return Ok(vec![changed]);
            }
            let previous = message.previous_message.map(|before| place.content(before, &version::zero()));
            Ok(std::iter::once(changed).chain(previous.transpose()?).collect())
        }
        Some("message_deleted") => {
            let previous = message.previous_message;
            let previous_ts = || previous.and_then(|before| object(before).ts.map(|ts| ts.into_owned()));
            let ts = message.deleted_ts.map(|ts| ts.into_owned()).or_else(previous_ts);
            let ts = ts.ok_or(Malformed::Missing { event: "message_deleted", field: "deleted_ts" })?;
            let mut changes = vec![place.deleted(&Ts::parse(&ts)?)];
            // A delete that comes first still brings the text.
            if let Some(before) = previous.filter(|before| !object(before).is_tombstone()) {
                changes.push(place.content(before, &version::zero())?);
            }
            Ok(changes)
        }
        // Slack leaves the subtype out of `message_replied`: a known bug, https://docs.slack.dev/reference/events/message/message_replied
        Some("message_replied") | None if message.message.is_some() => {
            message.message.map(|root| place.content(root, &version::zero())).into_iter().collect()
        }
        Some(_) | None => Ok(vec![place.content_of(&message, event.raw, &clock(event))?]),
    }
}

/// A message event without `event_ts` has the same time in `ts`.
fn clock(event: &Event<'_>) -> Ts {
    let ts = || object(event.raw).ts.and_then(|ts| Ts::parse(&ts).ok());
    event.header.clock().or_else(ts).unwrap_or_else(|| event.clock())
}

pub(super) fn object(raw: &RawValue) -> MessageObject<'_> {
    envelope::object(raw)
}

struct Place<'a> {
    team: &'a TeamId,
    channel: &'a ChannelId,
}

impl Place<'_> {
    fn identity(&self, ts: &Ts) -> Attributes {
        [
            ("type", "message"),
            ("team_id", self.team.as_str()),
            ("channel_id", self.channel.as_str()),
            ("ts", ts.as_str()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect()
    }

    /// `deleted` is set once and stays; it never touches the content.
    fn deleted(&self, ts: &Ts) -> Change {
        let mut set_if_absent = self.identity(ts);
        set_if_absent.insert("deleted".into(), true.into());
        Change::Register(Update {
            set_if_absent,
            ..Update::new(ItemKey::message(self.team, self.channel, ts))
        })
    }

    /// The content in a message object, or its deletion where it is a tombstone.
    fn content(&self, raw: &RawValue, clock: &Ts) -> Result<Change, Malformed> {
        self.content_of(&object(raw), raw, clock)
    }

    fn content_of(
        &self,
        object: &MessageObject<'_>,
        raw: &RawValue,
        clock: &Ts,
    ) -> Result<Change, Malformed> {
        let ts = object.ts.as_deref().ok_or(Malformed::Missing { event: "message", field: "ts" })?;
        let ts = Ts::parse(ts)?;
        if object.is_tombstone() {
            return Ok(self.deleted(&ts));
        }
        let edited_ts = object.edited_ts();
        let edit_time = version::edit_time(&ts, edited_ts.as_ref());
        let mut identity = self.identity(&ts);
        if let Some(thread_ts) = object.thread_ts.as_deref() {
            let thread_ts = Ts::parse(thread_ts)?;
            identity.insert("parent".into(), thread_parent(self.team, &thread_ts).into());
            identity.insert("thread_ts".into(), thread_ts.as_str().into());
        }
        let version = ContentVersion::new(&edit_time, clock, raw.get());
        let attributes = content_attributes(object, edited_ts.as_ref(), raw);
        let key = ItemKey::message(self.team, self.channel, &ts);
        Ok(Change::Content(Box::new(Content {
            revision_key: ItemKey::revision(self.team, self.channel, &ts, &edit_time),
            edited: edit_time > version::edit_time(&ts, None),
            if_newer: content_update(key, &version, attributes, identity),
            version,
        })))
    }
}

fn content_attributes(object: &MessageObject<'_>, edited_ts: Option<&Ts>, raw: &RawValue) -> Attributes {
    let texts = [
        ("text", &object.text),
        ("user", &object.user),
        ("bot_id", &object.bot_id),
        ("username", &object.username),
        ("subtype", &object.subtype),
    ];
    let mut attributes: Attributes = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_owned(), Value::from(text.as_deref()?))))
        .collect();
    // Old payloads carry one file object under the singular name.
    let single =
        || Some(Value::Array(vec![serde_json::from_str(object.file?.get()).ok().filter(Value::is_object)?]));
    if let Some(files) = object.files.and_then(non_empty_array).or_else(single) {
        attributes.insert("files".into(), files);
    }
    if let Some(edited_ts) = edited_ts {
        attributes.insert("updated_ts".into(), rfc3339(edited_ts).into());
    }
    attributes.insert("raw_event".into(), raw.get().into());
    attributes
}

fn non_empty_array(raw: &RawValue) -> Option<Value> {
    let value: Value = serde_json::from_str(raw.get()).ok()?;
    value.as_array().is_some_and(|array| !array.is_empty()).then_some(value)
}

/// A Slack timestamp as RFC 3339 in UTC with six digits of a second.
#[must_use]
pub fn rfc3339(ts: &Ts) -> String {
    match Timestamp::from_microsecond(ts.micros()) {
        Ok(time) => format!("{time:.6}"),
        // Beyond the year 9999: kept as it is rather than lost.
        Err(_) => ts.to_string(),
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
