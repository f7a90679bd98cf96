//! Legal holds: a row `erased#{team}` / `hold#{id}`. While a hold is not released, what it matches does not expire
//! and cannot be erased.

use super::super::item::{Attributes, Item, text_attributes};
use super::super::key::ItemKey;
use super::super::rows;
use super::super::update::{Guard, Update};
use slack::ids::{ChannelId, TeamId, Ts, UserId};

const RELEASED: &str = "released";
const SWEPT: &str = "swept";

/// What a hold keeps: everything that matches each of these.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HoldScope {
    /// Content of this person.
    pub user: Option<UserId>,
    /// Messages of this channel.
    pub channel: Option<ChannelId>,
    /// Messages from this time.
    pub from: Option<Ts>,
    /// Messages before this time.
    pub to: Option<Ts>,
}

/// A hold, or one that was released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldFact {
    pub team: TeamId,
    /// Eight hexadecimal digits.
    pub id: String,
    /// What it keeps.
    pub scope: HoldScope,
    /// Why it was set.
    pub reason: String,
    /// The user who set it, by their account name on the machine.
    pub by: Option<String>,
    pub set_at: Ts,
    /// The end of the hold.
    pub release: Option<HoldRelease>,
    /// Whether retention has searched its scope again since it was released.
    pub is_swept: bool,
}

/// The end of a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldRelease {
    pub at: Ts,
    /// Why.
    pub reason: String,
    /// The user who released it, by their account name on the machine.
    pub by: Option<String>,
}

impl HoldScope {
    /// Whether a message of this channel, time and author is in it.
    pub fn has(&self, channel: &str, ts: &str, author: Option<&str>) -> bool {
        let is_of = |id: Option<&str>, scope: Option<&str>| scope.is_none_or(|scope| id == Some(scope));
        let Ok(ts) = Ts::parse(ts) else { return false };
        is_of(author, self.user.as_ref().map(UserId::as_str))
            && is_of(Some(channel), self.channel.as_ref().map(ChannelId::as_str))
            && self.from.as_ref().is_none_or(|from| from.micros() <= ts.micros())
            && self.to.as_ref().is_none_or(|to| ts.micros() < to.micros())
    }
}

impl HoldFact {
    pub fn key(&self) -> ItemKey {
        ItemKey::erasure(&self.team, &format!("hold#{}", self.id))
    }

    /// Whether it keeps a message of this channel, time and author.
    pub fn keeps(&self, channel: &str, ts: &str, author: Option<&str>) -> bool {
        self.release.is_none() && self.scope.has(channel, ts, author)
    }

    /// The update that sets it. A hold never changes until it is released.
    pub fn update(&self) -> Update {
        let Self { team, id: _, scope, reason, by, set_at, release: _, is_swept: _ } = self;
        let mut set_if_absent = text_attributes([
            ("type", "hold"),
            ("team_id", team.as_str()),
            ("reason", reason),
            ("at", &set_at.padded()),
        ]);
        let HoldScope { user, channel, from, to } = scope;
        let optional = [
            ("user_id", user.as_ref().map(|user| user.as_str().to_owned())),
            ("channel_id", channel.as_ref().map(|channel| channel.as_str().to_owned())),
            ("from", from.as_ref().map(Ts::padded)),
            ("to", to.as_ref().map(Ts::padded)),
            ("by", by.clone()),
        ];
        set_if_absent
            .extend(optional.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into()))));
        Update { set_if_absent, ..Update::new(self.key()) }
    }

    /// The update that releases it. The first release wins.
    pub fn release(&self, release: &HoldRelease) -> Update {
        let mut set = text_attributes([("release_reason", &release.reason)]);
        set.extend(release.by.as_ref().map(|by| ("released_by".to_owned(), by.as_str().into())));
        let guard = Guard::Less { register: RELEASED.into(), version: release.at.padded() };
        Update { guard, set, ..Update::new(self.key()) }
    }

    /// The update that records that its scope was searched again after its release.
    pub fn sweep(&self) -> Update {
        let set_if_absent: Attributes = [(SWEPT.to_owned(), true.into())].into_iter().collect();
        Update { set_if_absent, ..Update::new(self.key()) }
    }

    /// Reads the row of a hold; `None` for any other row. What cannot be read narrows no hold.
    pub fn read(item: &Item) -> Option<Self> {
        let team = TeamId::parse(item.key.item_id.strip_prefix(rows::ERASURE.prefix())?).ok()?;
        let id = item.key.timestamp.strip_prefix("hold#")?.to_owned();
        let time = |name| item.text(name).and_then(Ts::unpadded);
        let text = |name| item.text(name).map(str::to_owned);
        let scope = HoldScope {
            user: item.text("user_id").and_then(|user| UserId::parse(user).ok()),
            channel: item.text("channel_id").and_then(|channel| ChannelId::parse(channel).ok()),
            from: time("from"),
            to: time("to"),
        };
        let release = time(RELEASED).map(|at| HoldRelease {
            at,
            reason: text("release_reason").unwrap_or_default(),
            by: text("released_by"),
        });
        Some(Self {
            team,
            id,
            scope,
            reason: text("reason").unwrap_or_default(),
            by: text("by"),
            set_at: time("at")?,
            release,
            is_swept: item.has_flag(SWEPT),
        })
    }
}
