//! Pure functions: from an event to the changes it makes, and from items to what readers see. No I/O, no
//! clock.

pub mod account;
pub mod archive_version;
pub mod audience;
pub mod author;
pub mod bookmark;
pub mod bot;
pub mod channel;
mod clocks;
pub mod directory;
pub mod figures;
pub mod file;
pub mod filled;
pub mod gap;
pub mod history;
pub mod interval;
pub mod link_label;
pub mod membership;
pub mod merge;
pub mod message;
pub mod organisation;
pub mod outgoing;
pub mod pin;
pub mod profile;
pub mod project;
pub mod public_mark;
pub mod publishing;
pub mod question;
pub mod reaction;
pub mod reader_token;
pub mod retention;
pub mod schedule;
pub mod sign_out;
pub mod user_group;
pub mod version;
pub mod view;
pub mod visibility;
pub mod waiting;
pub mod workspace;

use serde::Deserialize;
use serde_json::value::RawValue;

use ports::archive::{ItemKey, Update};
use slack::catalogue::{EventRule, Visibility};
use slack::envelope::{self, Envelope, UnreadableJson};
use slack::event::EventHeader;
use slack::ids::{ChannelId, InvalidId, TeamId, Ts, UserId};
use slack::signature::WINDOW_S;

use self::message::{Content, MessageUpdates};

/// Something in an event that Slack never sends. The event is quarantined, for a person to inspect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A field the event cannot do without is missing.
    #[error("the {event} event has no usable {field}")]
    Missing {
        /// Which kind of event.
        event: &'static str,
        field: &'static str,
    },
    /// A job of this kind cannot be read.
    #[error("the {0} job lacks a field, or has one of an unexpected shape")]
    Job(&'static str),
    /// The JSON cannot be read, so its content is unknown.
    #[error(transparent)]
    Unreadable(#[from] UnreadableJson),
    /// An id does not have Slack's shape.
    #[error(transparent)]
    Id(#[from] InvalidId),
    /// The event names a second channel besides the one it is about.
    #[error("the {0} event names two channels")]
    TwoChannels(&'static str),
    /// A clock is later than the event's arrival: its content would win over everything that follows.
    #[error(
        "its {field} {found} is {ahead_s} s later than the event itself came here; if a wrong clock of this machine is \
         the cause, set it right and replay the event"
    )]
    FromTheFuture {
        field: &'static str,
        /// Its value.
        found: Ts,
        /// How far it is ahead, in seconds.
        ahead_s: i64,
    },
    /// A name that cannot be a key.
    #[error("the {0} is empty, longer than {MAX_NAME_BYTES} bytes, or has control characters")]
    Name(&'static str),
}

/// Names of emoji become parts of keys and attribute names; Slack's own limit is 100 characters.
pub const MAX_NAME_BYTES: usize = 400;

/// How far ahead of its arrival an event's clocks may be. It is the tolerance of the signature check for the
/// machine's clock, so a machine whose clock is wrong quarantines nothing that it accepted.
#[expect(clippy::cast_possible_wrap, reason = "five minutes")]
pub const MAX_AHEAD_S: i64 = WINDOW_S as i64;

/// One change to the archive.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A version of a message: it may win, or become a revision.
    Content(Box<Content>),
    /// Any other register: one update.
    Register(Update),
}

impl Change {
    /// The key of the row that it changes.
    pub fn key(&self) -> &ItemKey {
        match self {
            Self::Content(content) => content.key(),
            Self::Register(update) => &update.key,
        }
    }
}

/// Parses the body of a job of this kind.
fn read_job<'a, T: Deserialize<'a>>(kind: &'static str, raw: &'a RawValue) -> Result<T, Malformed> {
    serde_json::from_str(raw.get()).map_err(|_| Malformed::Job(kind))
}

/// A Slack event with validated ids.
pub struct SlackEvent<'a> {
    pub team: TeamId,
    /// The fields every event has.
    pub header: EventHeader<'a>,
    /// The event itself.
    pub raw: &'a RawValue,
    event_time_s: Option<i64>,
    rule: Option<EventRule>,
    channel: Result<ChannelId, Malformed>,
    updates: Option<Result<MessageUpdates<'a>, Malformed>>,
}

impl<'a> SlackEvent<'a> {
    /// Reads the event in an envelope.
    ///
    /// # Errors
    /// [`Malformed`] if the workspace is missing or malformed, or the event is missing or cannot be read.
    pub fn read(envelope: &Envelope<'a>) -> Result<Self, Malformed> {
        let missing = |field| Malformed::Missing { event: "Slack", field };
        // Without a workspace, `team_id` is missing or malformed.
        let outer = || Ok(TeamId::parse(envelope.team_id.as_deref().ok_or(missing("team_id"))?)?);
        let team = envelope.workspace().map_or_else(outer, Ok::<_, Malformed>)?;
        let raw = envelope.event.ok_or(missing("event"))?;
        let header: EventHeader<'a> = envelope::read_object(raw)?;
        let rule = rule(&header);
        let channel = channel(&header, rule);
        let event_time_s = envelope.event_time_s();
        let mut event = Self { team, header, raw, event_time_s, rule, channel, updates: None };
        event.updates = (rule == Some(EventRule::Message)).then(|| message::read_updates(&event));
        Ok(event)
    }

    /// The rule for the event; `None` if its type is unknown.
    pub fn rule(&self) -> Option<EventRule> {
        self.rule
    }

    /// Where the visibility of the event's channel is found.
    pub fn visibility(&self) -> Visibility {
        self.header.kind.event_type.map_or(Visibility::NoChannel, |event_type| event_type.visibility)
    }

    /// The updates in a message event: the rows and the existence check are based on them. `None` for other
    /// events.
    ///
    /// # Errors
    /// [`Malformed`] if a message in it cannot be read.
    pub fn message_updates(&self) -> Result<Option<&MessageUpdates<'a>>, Malformed> {
        self.updates.as_ref().map(|updates| updates.as_ref().map_err(Clone::clone)).transpose()
    }

    /// The channel that the event is about.
    ///
    /// # Errors
    /// [`Malformed`] if it is missing or malformed, or if the event names another one too.
    pub fn channel(&self) -> Result<ChannelId, Malformed> {
        self.channel.clone()
    }

    /// The old and the new id of a channel whose id changed.
    ///
    /// # Errors
    /// [`Malformed`] if one is missing or malformed.
    pub fn changed_ids(&self) -> Result<(ChannelId, ChannelId), Malformed> {
        let id = |id: Option<&str>, field| -> Result<ChannelId, Malformed> {
            let id = id.ok_or(Malformed::Missing { event: "channel_id_changed", field })?;
            Ok(ChannelId::parse(id)?)
        };
        let old = id(self.header.old_channel_id.as_deref(), "old_channel_id")?;
        Ok((old, id(self.header.new_channel_id.as_deref(), "new_channel_id")?))
    }

    /// Slack's clock for this event: `event_ts`, or the second of `event_time`, or the beginning of time.
    pub fn clock(&self) -> Ts {
        let from_envelope = || Ts::parse(&format!("{}.000000", self.event_time_s?)).ok();
        self.header.clock().or_else(from_envelope).unwrap_or_else(version::zero)
    }

    /// Compares every clock of the event that decides what wins in a row with the event's arrival, in
    /// milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// [`Malformed::FromTheFuture`] if a clock is more than [`MAX_AHEAD_S`] ahead of the arrival.
    pub fn check_clocks(&self, came_at_ms: i64) -> Result<(), Malformed> {
        clocks::check(self, came_at_ms)
    }

    /// The event's changes to all rows except those of channels and gaps.
    ///
    /// # Errors
    /// [`Malformed`] if a field that becomes part of a key is missing or malformed.
    pub fn changes(&self) -> Result<Vec<Change>, Malformed> {
        match self.rule() {
            Some(EventRule::Message) => message::changes(self),
            Some(EventRule::Reaction(change)) => reaction::changes(self, change),
            Some(EventRule::Pin(change)) => pin::changes(self, change),
            Some(EventRule::User) => directory::user_changes(self),
            Some(EventRule::Team(change)) => workspace::changes(self, change),
            Some(EventRule::Emoji) => directory::emoji_changes(self),
            Some(EventRule::FileDeleted) => file::deleted(self),
            // The file-downloader asks Slack what changed.
            Some(EventRule::FileChanged) => Ok(Vec::new()),
            Some(EventRule::UserGroup(change)) => user_group::changes(self, change),
            Some(EventRule::Channel(_) | EventRule::Gap(_) | EventRule::Joined | EventRule::Ignored(_))
            | None => Ok(Vec::new()),
        }
    }

    /// What the messages in the event say about their authors: updates of the rows of people, bots and
    /// organisations. They are not content of the messages, and [`SlackEvent::changes`] does not contain them.
    pub fn author_updates(&self) -> Vec<Update> {
        let messages = self.updates.iter().flatten().flat_map(|updates| &updates.messages);
        let updates = messages.flat_map(|message| author::updates_from_event(&self.team, &message.object));
        let mut newest = author::NewestUpdates::default();
        updates.for_each(|update| newest.add(update));
        newest.into_updates()
    }

    /// The person the event is about.
    fn user(&self, event: &'static str) -> Result<UserId, Malformed> {
        let user = self.header.user().ok_or(Malformed::Missing { event, field: "user" })?;
        Ok(UserId::parse(&user)?)
    }
}

fn rule(header: &EventHeader<'_>) -> Option<EventRule> {
    let rule = header.kind.event_type?.rule;
    let is_about_a_message =
        || header.item().is_none_or(|item| item.kind.as_deref().is_none_or(|kind| kind == "message"));
    let about_files = if matches!(rule, EventRule::Reaction(_)) {
        "reactions to files are not stored"
    } else if matches!(rule, EventRule::Pin(_)) {
        "pins of files are not stored"
    } else {
        return Some(rule);
    };
    Some(if is_about_a_message() { rule } else { EventRule::Ignored(about_files) })
}

fn channel(header: &EventHeader<'_>, rule: Option<EventRule>) -> Result<ChannelId, Malformed> {
    let (event, field) = match rule {
        Some(EventRule::Reaction(_)) => ("reaction", "item.channel"),
        Some(EventRule::Pin(_)) => ("pin", "channel_id"),
        Some(_) | None => ("channel", "channel"),
    };
    let channel = ChannelId::parse(&header.channel().ok_or(Malformed::Missing { event, field })?)?;
    if header.has_conflicting_channel() { Err(Malformed::TwoChannels(event)) } else { Ok(channel) }
}

/// A text that is not empty and has a sane length for a name or an address.
fn shown_text(value: &serde_json::Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty() && text.len() <= MAX_NAME_BYTES)
}

/// A name that becomes part of a key or an attribute name.
fn checked_name<'n>(name: &'n str, what: &'static str) -> Result<&'n str, Malformed> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(char::is_control) {
        Err(Malformed::Name(what))
    } else {
        Ok(name)
    }
}

/// What the tests of this crate share.
#[cfg(test)]
mod fixture {
    use std::fmt::Display;

    use super::*;
    use crate::gap::GapReason;
    use crate::gap::projection::Gap;

    pub(super) fn team() -> TeamId {
        TeamId::parse("T1").unwrap()
    }

    pub(super) fn channel(id: &str) -> ChannelId {
        ChannelId::parse(id).unwrap()
    }

    pub(super) fn ts(second: i64) -> Ts {
        Ts::parse(&format!("{second}.000000")).unwrap()
    }

    pub(super) fn gap(reason: GapReason, id: Option<&str>, from: i64, to: Option<i64>) -> Gap {
        Gap { from: ts(from), to: to.map(ts), channel: id.map(channel), reason, reported_at: None }
    }

    /// Reads an event of the workspace, which is JSON.
    pub(super) fn with_event<T>(event: impl Display, read: impl FnOnce(&SlackEvent<'_>) -> T) -> T {
        let body = format!(r#"{{"team_id":"T1","event":{event}}}"#);
        let envelope = Envelope::peek(body.as_bytes()).unwrap();
        read(&SlackEvent::read(&envelope).unwrap())
    }
}
