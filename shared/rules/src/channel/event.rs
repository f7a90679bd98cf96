//! What happened to a channel.
//!
//! <https://docs.slack.dev/reference/events?family=channel>, and what only messages tell: topic, purpose, conversion,
//! posting permissions, <https://docs.slack.dev/reference/events/message>.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::{Malformed, SlackEvent, checked_name, version};
use super::fold::{ChannelState, KeptEvent};
use ports::archive::{Attributes, Item, ItemKey, Update};
use slack::catalogue::{ChannelChange, EventRule};
use slack::envelope;
use slack::ids::{ChannelId, TeamId, Ts};

/// The kind of what Slack's directory said, beside the names of Slack's events.
pub const LISTED: &str = "listed";

/// Attributes that keep events as they came.
const RAW_PREFIX: &str = "raw#";

/// One thing that happened to a channel, ready to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelEvent {
    team: TeamId,
    channel: ChannelId,
    /// Set where the channel goes on under another id: then it is kept in both channels' rows.
    successor: Option<ChannelId>,
    clock: Ts,
    kind: String,
    raw: String,
}

impl ChannelEvent {
    /// Reads an event about a channel; `None` for any other.
    ///
    /// # Errors
    /// [`Malformed`] where an id or a name that the rows need is missing or malformed.
    pub fn read(event: &SlackEvent<'_>) -> Result<Option<Self>, Malformed> {
        let Some(change) = told_by(event) else { return Ok(None) };
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
    /// [`Malformed`] where its id or name is missing or malformed.
    pub fn listed(team: &TeamId, raw: &RawValue, clock: &Ts) -> Result<Self, Malformed> {
        let object: ChannelName<'_> = envelope::object(raw);
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

    /// The workspace.
    pub fn team(&self) -> &TeamId {
        &self.team
    }

    /// The channel it happened to: the old id where that changed.
    pub fn channel(&self) -> &ChannelId {
        &self.channel
    }

    /// Every channel in whose rows it is kept.
    pub fn channels(&self) -> impl Iterator<Item = &ChannelId> {
        std::iter::once(&self.channel).chain(&self.successor)
    }

    /// When it happened, by Slack's clock.
    pub fn clock(&self) -> &Ts {
        &self.clock
    }

    /// Whether the channel was made.
    pub fn is_creation(&self) -> bool {
        ChannelChange::named(&self.kind) == Some(ChannelChange::Created)
    }

    /// Keeps it in the rows of its channels. May be repeated without harm.
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

/// Whether what is listed differs from what the newest row of the channel says. What Slack says the same every hour is
/// not kept every hour.
pub fn is_news(newest: Option<&Item>, listed: &ChannelEvent) -> bool {
    let Some(newest) = newest else { return true };
    let known = ChannelState::of(newest);
    let mut told = known.clone();
    told.tell(&KeptEvent::new(listed.kind.clone(), listed.raw.clone()), &listed.channel);
    told != known
}

/// When a channel was created, as far as the events kept in one of its rows say it.
pub fn created(row: &Item) -> Option<Ts> {
    let created_s = |event: &KeptEvent| event.number("/channel/created").or_else(|| event.number("/created"));
    let created_s = kept(row).iter().filter_map(created_s).filter(|created_s| *created_s > 0).min()?;
    Ts::parse(&format!("{created_s}.000000")).ok()
}

/// The attributes that say which channel a row is about.
pub(super) fn identity(team: &TeamId, channel: &ChannelId) -> Attributes {
    [("type", "channel"), ("team_id", team.as_str()), ("channel_id", channel.as_str())]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect()
}

/// The events kept in a row, in the order in which they count: by the names of their kinds.
pub(super) fn kept(item: &Item) -> Vec<KeptEvent> {
    // The attributes are sorted by name already, but for kinds that begin like others.
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

/// Whether an attribute of a row keeps an event.
pub(crate) fn is_raw(name: &str) -> bool {
    name.starts_with(RAW_PREFIX)
}

/// What an event, or a message, says happened to its channel.
pub fn told_by(event: &SlackEvent<'_>) -> Option<ChannelChange> {
    match event.rule()? {
        EventRule::Channel(change) => Some(change),
        EventRule::Message => ChannelChange::told_by(event.header.subtype.as_deref()?),
        EventRule::Reaction(_)
        | EventRule::User
        | EventRule::Team(_)
        | EventRule::Emoji
        | EventRule::FileDeleted
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
    let body: WithChannel<'_> = envelope::object(event);
    let channel: ChannelName<'_> = body.channel.map(envelope::object).unwrap_or_default();
    let name = channel.name.ok_or(Malformed::Missing { event: what, field: "channel.name" })?;
    checked_name(&name, "channel's name").map(drop)
}

/// The same JSON always as the same text, so that an event delivered twice is kept once.
fn canonical(raw: &RawValue) -> Result<String, Malformed> {
    match serde_json::from_str::<Value>(raw.get()) {
        Ok(value) => Ok(value.to_string()),
        // Half a character stays as it came.
        Err(_) => envelope::value(raw.get()).map(|_| raw.get().to_owned()).map_err(Malformed::from),
    }
}
