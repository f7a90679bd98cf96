//! Messages: the content register and the versions that lost it, deletion, threads, reactions and files.
//!
//! * [`content`]: the current content of a message.
//! * [`revision`]: which other versions are kept, and in which rows.
//! * [`files`]: the files in a message.
//!
//! <https://docs.slack.dev/reference/events/message>

mod content;
pub(super) mod files;
mod identity;
pub(super) mod revision;

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::value::{RawValue, to_raw_value};

use super::version::{self, ContentVersion};
use super::{Change, Malformed, SlackEvent, reaction};
use ports::archive::key::thread_parent;
use ports::archive::{Attributes, ItemKey, Update};
use slack::envelope::{self, UnreadableJson};
use slack::event::MessageObject;
use slack::ids::{ChannelId, TeamId, Ts, UserId};

pub(super) use content::CONTENT;
pub use content::{CONTENT_VERSION, Content, author, channel, files, raw_event, root, stored_version};
pub use files::is_forwarded;
pub(super) use identity::identity;
pub use revision::{KeptVersions, Replaced, VersionPlan, Versions, as_revision, plan, versions};

/// The changes that a message event makes.
pub(super) fn changes(event: &SlackEvent<'_>) -> Result<Vec<Change>, Malformed> {
    let channel = event.channel()?;
    let channel = ChannelOfEvent { team: &event.team, channel: &channel };
    let Some(MessageUpdates { deleted, messages, .. }) = event.message_updates()? else {
        return Ok(Vec::new());
    };
    let deleted = deleted.as_ref().map(|ts| Ok(Change::Register(channel.deletion(ts, Attributes::new()))));
    deleted.into_iter().chain(messages.iter().map(|message| channel.written(message))).collect()
}

/// The updates in a message event.
pub struct MessageUpdates<'a> {
    /// The time of the event, by Slack's clock.
    pub clock: Ts,
    pub deleted: Option<Ts>,
    /// The versions of messages that the event contains.
    pub messages: Vec<MessageUpdate<'a>>,
}

/// A version of a message in an event.
pub struct MessageUpdate<'a> {
    pub object: MessageObject<'a>,
    /// The reactions to it: the name of each, and the user.
    pub reactions: Vec<(String, UserId)>,
    raw: Cow<'a, RawValue>,
    clock: Ts,
    change: bool,
}

/// Reads the updates in a message event.
pub(super) fn read_updates<'a>(event: &SlackEvent<'a>) -> Result<MessageUpdates<'a>, Malformed> {
    let outer: MessageObject<'a> = envelope::read_object(event.raw)?;
    let mut updates = MessageUpdates { clock: clock(event, &outer), deleted: None, messages: Vec::new() };
    match event.header.subtype.as_deref() {
        Some("message_changed") => {
            let now =
                outer.message.ok_or(Malformed::Missing { event: "message_changed", field: "message" })?;
            updates.add(envelope::read_object(now)?, now, updates.clock.clone(), true)?;
            if let Some(before) = outer.previous_message {
                updates.add(envelope::read_object(before)?, before, version::zero(), false)?;
            }
        }
        Some("message_deleted") => {
            let before: Option<MessageObject<'a>> =
                outer.previous_message.map(envelope::read_object).transpose()?;
            let previous_ts = || before.as_ref().and_then(|before| before.ts.as_deref());
            let ts = outer.deleted_ts.as_deref().or_else(previous_ts);
            let ts = ts.ok_or(Malformed::Missing { event: "message_deleted", field: "deleted_ts" })?;
            updates.deleted = Some(Ts::of_message(ts)?);
            // A deletion that arrives before its message still carries the text.
            if let (Some(before), Some(raw)) = (before, outer.previous_message) {
                updates.add(before, raw, version::zero(), false)?;
            }
        }
        // Slack leaves the subtype out of `message_replied`: a known bug,
        // https://docs.slack.dev/reference/events/message/message_replied
        Some("message_replied") | None if outer.message.is_some() => {
            if let Some(root) = outer.message {
                updates.add(envelope::read_object(root)?, root, version::zero(), false)?;
            }
        }
        Some(_) | None => updates.add(outer, event.raw, updates.clock.clone(), false)?,
    }
    Ok(updates)
}

impl<'a> MessageUpdates<'a> {
    fn add(
        &mut self,
        object: MessageObject<'a>,
        raw: &'a RawValue,
        clock: Ts,
        change: bool,
    ) -> Result<(), Malformed> {
        let reactions = object.reactions.map(reaction::listed).unwrap_or_default();
        // A reply that was also sent to the channel contains the whole message that it replies to.
        let root = object.root;
        let kept = if root.is_some() { without_root(raw)? } else { Cow::Borrowed(raw) };
        self.messages.push(MessageUpdate { object, reactions, raw: kept, clock, change });
        if let Some(raw) = root {
            let object: MessageObject<'a> = envelope::read_object(raw)?;
            if object.ts.is_some() && (object.text.is_some() || object.is_tombstone()) {
                let reactions = object.reactions.map(reaction::listed).unwrap_or_default();
                let (raw, clock) = (Cow::Borrowed(raw), version::zero());
                self.messages.push(MessageUpdate { object, reactions, raw, clock, change: false });
            }
        }
        Ok(())
    }
}

/// A message object without the message that it replies to, which has its own row: the text of another user
/// is stored once, so that it can be erased.
fn without_root(raw: &RawValue) -> Result<Cow<'_, RawValue>, Malformed> {
    let mut fields: BTreeMap<Cow<'_, str>, &RawValue> = envelope::read_object(raw)?;
    fields.remove("root");
    Ok(Cow::Owned(to_raw_value(&fields).map_err(|_| UnreadableJson)?))
}

/// The change that a message object of history makes, and the time of its last edit: content of clock 0, or a
/// deletion if it is a tombstone. `raw` is the part of the object that is stored.
pub(super) fn listed_change(
    team: &TeamId,
    channel: &ChannelId,
    raw: &RawValue,
    thread_ts: Option<&Ts>,
    reactions: &[(String, UserId)],
) -> Result<(Change, Option<Ts>), Malformed> {
    let mut object: MessageObject<'_> = envelope::read_object(raw)?;
    object.thread_ts = thread_ts.map(|thread_ts| thread_ts.as_str().into());
    let edited_ts = object.edited_ts()?;
    let reactions = reactions.to_vec();
    let raw = Cow::Borrowed(raw);
    let message = MessageUpdate { object, reactions, raw, clock: version::zero(), change: false };
    Ok((ChannelOfEvent { team, channel }.written(&message)?, edited_ts))
}

/// The deletion of a message for which neither an event nor a tombstone came. It has no clock, and no event
/// reverts it.
pub fn deletion(team: &TeamId, channel: &ChannelId, ts: &Ts) -> Update {
    ChannelOfEvent { team, channel }.deletion(ts, Attributes::new())
}

/// A message event without `event_ts` has the same time in `ts`.
fn clock(event: &SlackEvent<'_>, outer: &MessageObject<'_>) -> Ts {
    let ts = || outer.ts.as_deref().and_then(|ts| Ts::parse(ts).ok());
    event.header.clock().or_else(ts).unwrap_or_else(|| event.clock())
}

struct ChannelOfEvent<'a> {
    team: &'a TeamId,
    channel: &'a ChannelId,
}

impl ChannelOfEvent<'_> {
    /// `deleted` is set once and stays; it does not change the content.
    fn deletion(&self, ts: &Ts, lasting: Attributes) -> Update {
        let mut set_if_absent = identity(self.team, self.channel, ts);
        set_if_absent.insert("deleted".into(), true.into());
        set_if_absent.extend(lasting);
        Update { set_if_absent, ..Update::new(ItemKey::message(self.team, self.channel, ts)) }
    }

    /// The content in a message object, or its deletion if it is a tombstone.
    fn written(&self, message: &MessageUpdate<'_>) -> Result<Change, Malformed> {
        let MessageUpdate { object, reactions, raw, clock, change } = message;
        let ts = object.ts.as_deref().ok_or(Malformed::Missing { event: "message", field: "ts" })?;
        let ts = Ts::of_message(ts)?;
        // Attributes that no later version removes: the first value stays.
        let mut lasting = reaction::initial(reactions);
        if let Some(thread_ts) = object.thread_ts.as_deref() {
            let thread_ts = Ts::of_message(thread_ts)?;
            lasting.insert("parent".into(), thread_parent(self.team, &thread_ts).into());
            lasting.insert("thread_ts".into(), thread_ts.as_str().into());
        }
        if object.is_tombstone() {
            return Ok(Change::Register(self.deletion(&ts, lasting)));
        }
        let files = files::read_files(object);
        lasting.extend(files.as_ref().map(files::known).unwrap_or_default());
        lasting.extend(identity(self.team, self.channel, &ts));
        let edited_ts = object.edited_ts()?;
        let edit_time = version::edit_time(&ts, edited_ts.as_ref());
        let version = ContentVersion::new(&edit_time, clock, raw.get());
        let attributes = content::attributes(object, files, edited_ts.as_ref(), raw);
        let key = ItemKey::message(self.team, self.channel, &ts);
        Ok(Change::Content(Box::new(Content::new(key, version, *change, attributes, lasting))))
    }
}

/// A Slack timestamp as RFC 3339 in UTC with six digits of a second.
pub fn rfc3339(ts: &Ts) -> String {
    match Timestamp::from_microsecond(ts.micros()) {
        Ok(time) => format!("{time:.6}"),
        // Beyond the year 9999: keep the timestamp unchanged rather than lose it.
        Err(_) => ts.to_string(),
    }
}

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
