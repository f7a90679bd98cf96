//! Events of channels.
//!
//! <https://docs.slack.dev/reference/events?family=channel>. Topic, purpose, conversion and posting
//! permissions come only as messages: <https://docs.slack.dev/reference/events/message>.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::file::row::Share;
use super::super::file::{FileJob, FileObject};
use super::super::visibility::{self, VisibilityEvidence};
use super::super::{Malformed, SlackEvent, checked_name, version};
use ports::archive::{Attributes, Item, ItemKey, Update, text_attributes};
use slack::catalogue::{ChannelChange, EventRule, EventType, Visibility};
use slack::envelope;
use slack::ids::{ChannelId, FileId, TeamId, Ts};

/// The kind of an entry of Slack's directory; other kinds are the names of Slack's events.
pub const LISTED: &str = "listed";

/// The prefix of attributes that store events unchanged.
const RAW_PREFIX: &str = "raw#";

/// An event of a channel, ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelEvent {
    team: TeamId,
    channel: ChannelId,
    /// Set if the channel's id changed: then the event is stored in the rows of both ids.
    successor: Option<ChannelId>,
    clock: Ts,
    kind: String,
    raw: String,
}

impl ChannelEvent {
    /// Reads an event about a channel; `None` for any other.
    ///
    /// # Errors
    /// [`Malformed`] if an id or a name that the rows need is missing or malformed.
    pub fn read(event: &SlackEvent<'_>) -> Result<Option<Self>, Malformed> {
        let Some(change) = channel_change(event) else { return Ok(None) };
        let name = match event.rule() {
            Some(EventRule::Message) => &event.header.subtype,
            Some(_) | None => &event.header.kind.name,
        };
        if matches!(change, ChannelChange::Created | ChannelChange::Renamed) {
            check_name(event.raw, "channel")?;
        }
        let (channel, successor) = if change == ChannelChange::IdChanged {
            let (old, new) = event.changed_ids()?;
            (old, Some(new))
        } else {
            (event.channel()?, None)
        };
        Ok(Some(Self {
            team: event.team.clone(),
            channel,
            successor,
            clock: event.clock(),
            kind: name.as_deref().unwrap_or_default().to_owned(),
            raw: canonical(event.raw)?,
        }))
    }

    /// A channel as Slack's directory lists it, as of `clock`.
    ///
    /// # Errors
    /// [`Malformed`] if its id or name is missing or malformed.
    pub fn listed(team: &TeamId, raw: &RawValue, clock: &Ts) -> Result<Self, Malformed> {
        let object: ChannelName<'_> = envelope::object_or_default(raw);
        let id = object.id.ok_or(Malformed::Missing { event: LISTED, field: "id" })?;
        let name = object.name.ok_or(Malformed::Missing { event: LISTED, field: "name" })?;
        checked_name(&name, "channel's name")?;
        Ok(Self {
            team: team.clone(),
            channel: ChannelId::parse(&id)?,
            successor: None,
            clock: clock.clone(),
            kind: LISTED.into(),
            raw: canonical(raw)?,
        })
    }

    pub fn team(&self) -> &TeamId {
        &self.team
    }

    /// The channel of the event: the old id if the id changed.
    pub fn channel(&self) -> &ChannelId {
        &self.channel
    }

    /// The jobs that download the canvases of a listed channel, each with its key in the archive. They are shared
    /// by the channel itself: by a row at the second of its creation, which no message has.
    pub fn canvas_jobs(&self) -> Vec<(ItemKey, FileJob)> {
        let channel = envelope::parse_value(&self.raw).unwrap_or_default();
        let created_s = channel["created"].as_i64().filter(|created_s| *created_s > 0).unwrap_or_default();
        let Ok(ts) = Ts::of_message(&format!("{created_s:010}.000000")) else { return Vec::new() };
        let job = |file: FileId| {
            let share = Share { channel: self.channel.clone(), ts: ts.clone() };
            let object = FileObject::unknown(file);
            let key = ItemKey::file(&self.team, &object.id);
            let team = self.team.clone();
            (key, FileJob { team, share, user: None, object, refresh: false, version: None })
        };
        super::canvases(&channel).into_iter().map(job).collect()
    }

    /// Every channel in whose rows the event is stored.
    pub fn channels(&self) -> impl Iterator<Item = &ChannelId> {
        std::iter::once(&self.channel).chain(&self.successor)
    }

    /// The time of the event, by Slack's clock.
    pub fn clock(&self) -> &Ts {
        &self.clock
    }

    /// Whether the event created the channel.
    pub fn is_creation(&self) -> bool {
        ChannelChange::by_name(&self.kind) == Some(ChannelChange::Created)
    }

    /// The event as the rows of its channels store it.
    pub(super) fn kept(&self) -> KeptEvent {
        KeptEvent::new(self.kind.clone(), self.raw.clone())
    }

    /// What it shows about whether its channel is public.
    pub fn evidence(&self) -> Option<VisibilityEvidence> {
        let value = envelope::parse_value(&self.raw).unwrap_or_default();
        let is_private = shown_as_private(&self.kind, &value)?;
        let shown = if self.kind == LISTED { VisibilityEvidence::object } else { VisibilityEvidence::change };
        Some(shown(&self.team, &self.channel, is_private, &self.clock))
    }

    /// The updates that store the event in the rows of its channels. They are idempotent.
    pub fn inserts(&self) -> Vec<Update> {
        let name = format!("{RAW_PREFIX}{}#{}", self.kind, version::hash(&self.raw));
        self.channels()
            .map(|channel| {
                let mut set_if_absent = identity(&self.team, channel);
                set_if_absent.insert(name.clone(), self.raw.clone().into());
                Update { set_if_absent, ..Update::new(ItemKey::channel(&self.team, channel, &self.clock)) }
            })
            .collect()
    }
}

/// A stored event.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptEvent {
    pub(super) kind: String,
    pub(super) raw: String,
    pub(super) value: Value,
}

impl KeptEvent {
    fn new(kind: String, raw: String) -> Self {
        // Unreadable events are not stored: only an older version of this program may have stored one.
        let value = envelope::parse_value(&raw).unwrap_or_default();
        Self { kind, raw, value }
    }

    pub(super) fn text(&self, pointer: &str) -> Option<&str> {
        self.value.pointer(pointer).and_then(Value::as_str)
    }

    fn number(&self, pointer: &str) -> Option<i64> {
        self.value.pointer(pointer).and_then(Value::as_i64)
    }

    /// The old and the new id of an id change, if both are valid.
    pub(super) fn changed_ids(&self) -> Option<(ChannelId, ChannelId)> {
        let id = |pointer| ChannelId::parse(self.text(pointer)?).ok();
        if ChannelChange::by_name(&self.kind) != Some(ChannelChange::IdChanged) {
            return None;
        }
        Some((id("/old_channel_id")?, id("/new_channel_id")?))
    }

    /// The former id of `channel`, if this event changed the id to `channel`.
    pub(super) fn former_id(&self, channel: &ChannelId) -> Option<ChannelId> {
        self.changed_ids().filter(|(old, new)| new == channel && old != channel).map(|(old, _)| old)
    }
}

/// Whether an event of this kind shows its channel to be private, or to be public; `None` if it does not show
/// it. Slack sends the events `group_…` for private channels only; an event `channel_…` alone shows too little
/// to make a private channel public.
pub(super) fn shown_as_private(kind: &str, value: &Value) -> Option<bool> {
    if kind == LISTED {
        return value.pointer("/is_private").and_then(Value::as_bool);
    }
    if let Some(is_private) = visibility::converted(kind) {
        return Some(is_private);
    }
    let event_type = EventType::by_name(kind)?;
    if event_type.name.starts_with("group_") {
        return Some(true);
    }
    let flag = || value.pointer("/channel/is_private").and_then(Value::as_bool);
    match event_type.visibility {
        Visibility::ChannelObject if event_type.rule == EventRule::Channel(ChannelChange::Created) => {
            Some(flag().unwrap_or(false))
        }
        Visibility::ChannelObject => flag(),
        Visibility::PublicByType
        | Visibility::ChannelType
        | Visibility::ChannelLetter
        | Visibility::Archive
        | Visibility::PublicMark
        | Visibility::NoChannel => None,
    }
}

/// When a channel was created, if an event stored in this row contains the time.
pub fn created(row: &Item) -> Option<Ts> {
    let created_s = |event: &KeptEvent| event.number("/channel/created").or_else(|| event.number("/created"));
    let created_s = kept_events(row).iter().filter_map(created_s).filter(|created_s| *created_s > 0).min()?;
    Ts::parse(&format!("{created_s}.000000")).ok()
}

/// The attributes that identify the channel of a row.
pub(super) fn identity(team: &TeamId, channel: &ChannelId) -> Attributes {
    text_attributes([("type", "channel"), ("team_id", team.as_str()), ("channel_id", channel.as_str())])
}

/// The events stored in a row, in the order in which they are applied: by the names of their kinds.
pub(super) fn kept_events(item: &Item) -> Vec<KeptEvent> {
    // The attributes are sorted by name already, except for kinds that are prefixes of others.
    let mut found: Vec<(&str, &str, &str)> = item
        .attributes
        .iter()
        .filter_map(|(name, value)| {
            let (kind, hash) = name.strip_prefix(RAW_PREFIX)?.rsplit_once('#')?;
            Some((kind, hash, value.as_str()?))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(kind, _, raw)| KeptEvent::new(kind.to_owned(), raw.to_owned())).collect()
}

/// Whether an attribute of a row stores an event.
pub(crate) fn is_raw(name: &str) -> bool {
    name.starts_with(RAW_PREFIX)
}

/// The change to its channel that an event states, possibly as a message.
pub fn channel_change(event: &SlackEvent<'_>) -> Option<ChannelChange> {
    match event.rule()? {
        EventRule::Channel(change) => Some(change),
        EventRule::Message => ChannelChange::from_subtype(event.header.subtype.as_deref()?),
        EventRule::Reaction(_)
        | EventRule::Pin(_)
        | EventRule::User
        | EventRule::Team(_)
        | EventRule::Emoji
        | EventRule::FileChanged
        | EventRule::FileDeleted
        | EventRule::UserGroup(_)
        | EventRule::Gap(_)
        | EventRule::Joined
        | EventRule::Ignored(_) => None,
    }
}

#[derive(Default, Deserialize)]
struct ChannelName<'a> {
    #[serde(borrow, default, deserialize_with = "envelope::text_or_none")]
    id: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "envelope::text_or_none")]
    name: Option<std::borrow::Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct WithChannel<'a> {
    #[serde(borrow, default)]
    channel: Option<&'a RawValue>,
}

fn check_name(event: &RawValue, what: &'static str) -> Result<(), Malformed> {
    let body: WithChannel<'_> = envelope::object_or_default(event);
    let channel: ChannelName<'_> = body.channel.map(envelope::object_or_default).unwrap_or_default();
    let name = channel.name.ok_or(Malformed::Missing { event: what, field: "channel.name" })?;
    checked_name(&name, "channel's name").map(drop)
}

/// Returns the same text for equal JSON, so that an event delivered twice is stored once.
fn canonical(raw: &RawValue) -> Result<String, Malformed> {
    match serde_json::from_str::<Value>(raw.get()) {
        Ok(value) => Ok(value.to_string()),
        // Text with half a character stays unchanged.
        Err(_) => envelope::parse_value(raw.get()).map(|_| raw.get().to_owned()).map_err(Malformed::from),
    }
}
