//! Opting out: rows `erased#{team}` / `optout#{scope}#{at}`, each of which says that a person or a channel is out,
//! or in again, from a time on.

use super::super::item::{Item, text_attributes};
use super::super::key::ItemKey;
use super::super::rows;
use super::super::update::Update;
use slack::ids::{ChannelId, TeamId, Ts, UserId};

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OptOutScope {
    /// A person: what they write is not stored.
    User(UserId),
    /// A channel: what is written in it is not stored.
    Channel(ChannelId),
}

/// A fact that a person or a channel is out, or in again, from a time on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptOutFact {
    pub team: TeamId,
    pub scope: OptOutScope,
    /// From this time on, by Slack's clock.
    pub at: Ts,
    /// Whether out, or in again.
    pub is_out: bool,
    /// The user who recorded it, by their account name on the machine.
    pub by: Option<String>,
}

impl OptOutFact {
    pub fn key(&self) -> ItemKey {
        let (kind, id) = match &self.scope {
            OptOutScope::User(user) => ("user", user.as_str()),
            OptOutScope::Channel(channel) => ("channel", channel.as_str()),
        };
        ItemKey::erasure(&self.team, &format!("optout#{kind}#{id}#{}", self.at.padded()))
    }

    /// The update that stores it. If both are recorded for one time, the scope is out.
    pub fn update(&self) -> Update {
        let mut set_if_absent = text_attributes([("type", "optout"), ("team_id", self.team.as_str())]);
        let (name, id) = match &self.scope {
            OptOutScope::User(user) => ("user_id", user.as_str()),
            OptOutScope::Channel(channel) => ("channel_id", channel.as_str()),
        };
        set_if_absent.insert(name.into(), id.into());
        set_if_absent.insert(if self.is_out { "out" } else { "in" }.into(), true.into());
        set_if_absent.extend(self.by.as_ref().map(|by| ("by".to_owned(), by.as_str().into())));
        Update { set_if_absent, ..Update::new(self.key()) }
    }

    /// Reads the row of a fact; `None` for any other row.
    pub fn read(item: &Item) -> Option<Self> {
        let team = TeamId::parse(item.key.item_id.strip_prefix(rows::ERASURE.prefix())?).ok()?;
        let mut parts = item.key.timestamp.strip_prefix("optout#")?.split('#');
        let (kind, id, at) = (parts.next()?, parts.next()?, Ts::unpadded(parts.next()?)?);
        let scope = match kind {
            "user" => OptOutScope::User(UserId::parse(id).ok()?),
            "channel" => OptOutScope::Channel(ChannelId::parse(id).ok()?),
            _ => return None,
        };
        let by = item.text("by").map(str::to_owned);
        Some(Self { team, scope, at, is_out: item.has_flag("out"), by })
    }
}
