//! What a retention rule has removed: a row `erased#{team}` / `expired#{channel}`, or `expired#*` for every channel
//! that has no row of its own.

use super::super::item::{Item, text_attributes};
use super::super::key::ItemKey;
use super::super::rows;
use super::super::update::{Guard, Update};
use super::UNTIL;
use slack::ids::{ChannelId, TeamId, Ts};

/// The register: the rows before this time are gone.
const DONE: &str = "done";

/// The scope of a workspace's fact.
pub(super) const EVERY_CHANNEL: &str = "*";

/// A fact that messages before a time have expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiryFact {
    pub team: TeamId,
    /// The channel; `None` for every channel without its own fact.
    pub channel: Option<ChannelId>,
    /// Messages before this time have expired.
    pub until: Ts,
    /// The rows before this time are gone.
    pub done: Option<Ts>,
}

impl ExpiryFact {
    pub fn key(team: &TeamId, channel: Option<&ChannelId>) -> ItemKey {
        let scope = channel.map_or(EVERY_CHANNEL, ChannelId::as_str);
        ItemKey::erasure(team, &format!("expired#{scope}"))
    }

    /// The update that lets everything before `until` expire. The latest time wins.
    pub fn expire(team: &TeamId, channel: Option<&ChannelId>, until: &Ts) -> Update {
        Self::later(team, channel, UNTIL, until)
    }

    /// The update that records that the rows before `done` are gone. The latest time wins.
    pub fn finish(team: &TeamId, channel: Option<&ChannelId>, done: &Ts) -> Update {
        Self::later(team, channel, DONE, done)
    }

    fn later(team: &TeamId, channel: Option<&ChannelId>, register: &str, time: &Ts) -> Update {
        let mut set_if_absent = text_attributes([("type", "expired"), ("team_id", team.as_str())]);
        set_if_absent.extend(channel.map(|channel| ("channel_id".to_owned(), channel.as_str().into())));
        let guard = Guard::Greater { register: register.into(), version: time.padded() };
        Update { guard, set_if_absent, ..Update::new(Self::key(team, channel)) }
    }

    /// Reads the row of a fact; `None` for any other row.
    pub fn read(item: &Item) -> Option<Self> {
        let team = TeamId::parse(item.key.item_id.strip_prefix(rows::ERASURE.prefix())?).ok()?;
        let channel = match item.key.timestamp.strip_prefix("expired#")? {
            EVERY_CHANNEL => None,
            channel => Some(ChannelId::parse(channel).ok()?),
        };
        let until = item.text(UNTIL).and_then(Ts::unpadded)?;
        Some(Self { team, channel, until, done: item.text(DONE).and_then(Ts::unpadded) })
    }
}
