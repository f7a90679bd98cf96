//! The facts of workspaces, indexed for a check of each write.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::super::item::{Item, WITHHELD};
use super::super::key::{ItemKey, erasures};
use super::super::rows::{self, ErasedWith};
use super::super::update::Update;
use super::super::{Archive, ArchiveError, Query, query_all};
use super::expiry::EVERY_CHANNEL;
use super::{ErasureFact, ErasureScope, ExpiryFact, HoldFact, OptOutFact, OptOutScope, author, row_author};
use slack::ids::{ChannelId, TeamId, Ts};

/// What facts say about a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactCover {
    /// No fact covers it.
    None,
    /// Its author had opted out: only its place in its thread is stored.
    Withheld,
    /// A retention rule has removed it.
    Expired,
    Erased,
}

/// What a backend does with an update.
#[derive(Debug, Clone, PartialEq)]
pub enum WriteAdmission {
    /// It applies the update.
    Write,
    /// It rejects the update, with this item.
    Refuse {
        /// The item without content.
        mark: Item,
        /// Whether the mark replaces the stored item, or is stored if there is no item.
        is_stored: bool,
    },
}

/// The facts of any number of workspaces, indexed for a check of each write.
#[derive(Debug, Clone, Default)]
pub struct ErasureFacts {
    teams: HashMap<String, TeamFacts>,
}

/// The facts of a workspace. Times are in microseconds.
#[derive(Debug, Clone, Default)]
struct TeamFacts {
    users: HashMap<String, i64>,
    channels: HashMap<String, i64>,
    messages: HashMap<String, HashSet<String>>,
    /// The end of what has expired, by channel or [`EVERY_CHANNEL`].
    expired: HashMap<String, i64>,
    holds: Vec<HoldFact>,
    /// Who is out (`true`) or in again from a time on, by the id of a person or a channel.
    opted_out: HashMap<String, BTreeMap<i64, bool>>,
}

/// What remains of a withheld message: its place in its thread.
const PLACE: [&str; 4] = ["team_id", "channel_id", "thread_ts", "parent"];

impl ErasureFacts {
    /// Reads the stored facts of a workspace.
    pub async fn load(archive: &dyn Archive, team: &TeamId) -> Result<Self, ArchiveError> {
        let rows = query_all(archive, Query::partition(erasures(team))).await?;
        Ok(Self::from_rows(&rows))
    }

    /// Reads the facts among these rows.
    pub fn from_rows<'r>(rows: impl IntoIterator<Item = &'r Item>) -> Self {
        let mut facts = Self::default();
        rows.into_iter().for_each(|row| facts.insert_row(row));
        facts
    }

    /// Adds the fact of a row, if the row is one.
    pub fn insert_row(&mut self, row: &Item) {
        if let Some(fact) = ErasureFact::read(row) {
            self.insert(&fact);
        } else if let Some(fact) = ExpiryFact::read(row) {
            self.insert_expiry(&fact);
        } else if let Some(hold) = HoldFact::read(row) {
            self.insert_hold(hold);
        } else if let Some(fact) = OptOutFact::read(row) {
            self.insert_opt_out(&fact);
        }
    }

    /// Adds a fact.
    pub fn insert(&mut self, fact: &ErasureFact) {
        let team = self.team(&fact.team);
        match &fact.scope {
            ErasureScope::User(user) => latest(&mut team.users, user.as_str(), &fact.until),
            ErasureScope::Channel(channel) => latest(&mut team.channels, channel.as_str(), &fact.until),
            ErasureScope::Message(channel, ts) => {
                team.messages.entry(channel.to_string()).or_default().insert(ts.to_string());
            }
        }
    }

    /// Adds a fact of a retention rule.
    pub fn insert_expiry(&mut self, fact: &ExpiryFact) {
        let scope = fact.channel.as_ref().map_or(EVERY_CHANNEL, ChannelId::as_str);
        latest(&mut self.team(&fact.team).expired, scope, &fact.until);
    }

    /// Adds a hold.
    pub fn insert_hold(&mut self, hold: HoldFact) {
        self.team(&hold.team).holds.push(hold);
    }

    fn insert_opt_out(&mut self, fact: &OptOutFact) {
        let id = match &fact.scope {
            OptOutScope::User(user) => user.as_str(),
            OptOutScope::Channel(channel) => channel.as_str(),
        };
        let times = self.team(&fact.team).opted_out.entry(id.to_owned()).or_default();
        times.insert(fact.at.micros(), fact.is_out);
    }

    fn team(&mut self, team: &TeamId) -> &mut TeamFacts {
        self.teams.entry(team.as_str().to_owned()).or_default()
    }

    /// Whether there are no facts.
    pub fn is_empty(&self) -> bool {
        self.teams.is_empty()
    }

    /// What a backend does with an update of an item. Every backend asks this before it writes.
    ///
    /// A refused update leaves a stored item with covered content as it is, because the process that wrote the
    /// fact erases it and needs it to find related rows; but a message that is withheld loses its content at once.
    /// An item that a hold keeps accepts every update, even of another author.
    pub fn admit(&self, update: &Update, stored: Option<&Item>) -> WriteAdmission {
        let cover = self.cover_update(update);
        let (mark, is_stored) = match cover {
            FactCover::None => return WriteAdmission::Write,
            FactCover::Erased => {
                (Item::erased(update.key.clone()), stored.is_none_or(|item| !self.covers_row(item)))
            }
            FactCover::Expired => match stored {
                Some(item) if !item.is_erased() && self.cover_row(item) == FactCover::None => {
                    return WriteAdmission::Write;
                }
                Some(_) => (Item::expired(update.key.clone()), false),
                None => (Item::expired(update.key.clone()), true),
            },
            FactCover::Withheld => (
                withheld(update, stored),
                !self.is_channel_out(&update.key) && stored.is_none_or(|item| !item.is_erased()),
            ),
        };
        WriteAdmission::Refuse { mark, is_stored }
    }

    /// Whether an update would restore content that a fact covers.
    pub fn covers(&self, update: &Update) -> bool {
        self.cover_update(update) != FactCover::None
    }

    /// Whether a stored row must be erased. False for a row that is already erased.
    pub fn covers_row(&self, item: &Item) -> bool {
        self.cover_row(item) != FactCover::None
    }

    /// Whether a row with content of this author, or without an author, must be erased.
    pub fn covers_content(&self, key: &ItemKey, author: Option<&str>) -> bool {
        self.cover(key, author) != FactCover::None
    }

    /// What the facts say about the content that an update writes.
    pub fn cover_update(&self, update: &Update) -> FactCover {
        if self.is_empty() { FactCover::None } else { self.cover(&update.key, author(update)) }
    }

    /// What the facts say about the content of a stored row; [`FactCover::None`] for a row that is erased.
    pub fn cover_row(&self, item: &Item) -> FactCover {
        if item.is_erased() { FactCover::None } else { self.cover(&item.key, row_author(item)) }
    }

    /// What the facts say about content of this author, or without an author.
    pub fn cover(&self, key: &ItemKey, author: Option<&str>) -> FactCover {
        if self.is_empty() {
            return FactCover::None;
        }
        let Some((kind, ids)) = rows::covered(key) else { return FactCover::None };
        let Some(facts) = self.teams.get(ids.team) else { return FactCover::None };
        let until = || facts.channels.get(ids.channel);
        let is_erased = match kind.erased {
            ErasedWith::Message => return facts.cover_message(ids.channel, ids.ts, author),
            ErasedWith::ChannelBefore => is_before(ids.ts, until()),
            ErasedWith::ChannelDay => began_before(ids.day, until()),
            ErasedWith::Channel => until().is_some(),
            ErasedWith::User => facts.users.contains_key(ids.user),
            ErasedWith::BotUser => author.is_some_and(|user| facts.users.contains_key(user)),
            ErasedWith::Eraser(_) | ErasedWith::Nothing => false,
        };
        if is_erased { FactCover::Erased } else { FactCover::None }
    }

    /// Whether an item has expired, or the place that is left of it.
    pub fn expires(&self, item: &Item) -> bool {
        let is_left = !item.is_erased() || item.has_flag(WITHHELD);
        is_left && self.cover(&item.key, row_author(item)) == FactCover::Expired
    }

    /// The first hold that keeps a row.
    pub fn hold_of(&self, item: &Item) -> Option<&HoldFact> {
        let (kind, ids) = rows::covered(&item.key)?;
        let holds = &self.teams.get(ids.team)?.holds;
        let keeps = |hold: &&HoldFact| hold.keeps(ids.channel, ids.ts, row_author(item));
        holds.iter().find(keeps).filter(|_| kind.erased == ErasedWith::Message && !item.is_erased())
    }

    /// Every hold of a workspace, also those that were released.
    pub fn holds(&self, team: &TeamId) -> &[HoldFact] {
        self.teams.get(team.as_str()).map_or(&[], |facts| &facts.holds)
    }

    /// The time before which messages of a channel have expired.
    pub fn expired_before(&self, team: &TeamId, channel: &ChannelId) -> Option<Ts> {
        let micros = self.teams.get(team.as_str())?.expired_until(channel.as_str())?;
        ts_of(micros)
    }

    /// Whether a channel is out at this time: nothing in it is to be stored.
    pub fn channel_is_out(&self, team: &TeamId, channel: &ChannelId, at: &Ts) -> bool {
        self.teams.get(team.as_str()).is_some_and(|facts| facts.is_out(channel.as_str(), at.as_str()))
    }

    /// The times in which a channel is out: from when, and until when unless that continues.
    pub fn channel_out_times(&self, team: &TeamId, channel: &ChannelId) -> Vec<(Ts, Option<Ts>)> {
        let times = self.teams.get(team.as_str()).and_then(|facts| facts.opted_out.get(channel.as_str()));
        let mut out: Vec<(Ts, Option<Ts>)> = Vec::new();
        for (micros, is_out) in times.into_iter().flatten() {
            let Some(at) = ts_of(*micros) else { continue };
            match (out.last_mut().filter(|last| last.1.is_none()), is_out) {
                (Some(open), false) => open.1 = Some(at),
                (None, true) => out.push((at, None)),
                (Some(_), true) | (None, false) => {}
            }
        }
        out
    }

    /// Whether the channel of a row had opted out at the time of its message.
    fn is_channel_out(&self, key: &ItemKey) -> bool {
        let Some((_, ids)) = rows::covered(key) else { return false };
        self.teams.get(ids.team).is_some_and(|facts| facts.is_out(ids.channel, ids.ts))
    }
}

impl TeamFacts {
    fn cover_message(&self, channel: &str, ts: &str, author: Option<&str>) -> FactCover {
        let is_erased = is_before(ts, self.channels.get(channel))
            || self.messages.get(channel).is_some_and(|erased| erased.contains(ts))
            || is_before(ts, author.and_then(|author| self.users.get(author)));
        if is_erased {
            return FactCover::Erased;
        }
        let is_held = || self.holds.iter().any(|hold| hold.keeps(channel, ts, author));
        if is_before(ts, self.expired_until(channel).as_ref()) && !is_held() {
            return FactCover::Expired;
        }
        if self.is_out(channel, ts) || author.is_some_and(|author| self.is_out(author, ts)) {
            return FactCover::Withheld;
        }
        FactCover::None
    }

    /// The end of what has expired in a channel: its own fact replaces that of every channel.
    fn expired_until(&self, channel: &str) -> Option<i64> {
        self.expired.get(channel).or_else(|| self.expired.get(EVERY_CHANNEL)).copied()
    }

    /// Whether a person or a channel had opted out at a time.
    fn is_out(&self, id: &str, ts: &str) -> bool {
        let Some(times) = self.opted_out.get(id) else { return false };
        let Ok(ts) = Ts::parse(ts) else { return false };
        times.range(..=ts.micros()).next_back().is_some_and(|(_, is_out)| *is_out)
    }
}

fn ts_of(micros: i64) -> Option<Ts> {
    Ts::parse(&format!("{:010}.{:06}", micros / 1_000_000, micros % 1_000_000)).ok()
}

/// What is stored of a withheld message: its place, which replies and readers need, and nothing else.
fn withheld(update: &Update, stored: Option<&Item>) -> Item {
    let mut item = Item::erased(update.key.clone());
    item.attributes.insert(WITHHELD.to_owned(), true.into());
    if update.key.item_id.starts_with(rows::MESSAGE.prefix()) {
        for name in PLACE {
            let kept = stored.and_then(|stored| stored.attributes.get(name));
            let kept = kept.or_else(|| update.set_if_absent.get(name)).or_else(|| update.set.get(name));
            item.attributes.extend(kept.map(|value| (name.to_owned(), value.clone())));
        }
    }
    item
}

fn latest(times: &mut HashMap<String, i64>, id: &str, until: &Ts) {
    let known = times.entry(id.to_owned()).or_insert(i64::MIN);
    *known = until.micros().max(*known);
}

fn is_before(ts: &str, until: Option<&i64>) -> bool {
    until.is_some_and(|until| Ts::parse(ts).is_ok_and(|ts| ts.micros() < *until))
}

/// Whether a day, such as `2026-11-20`, began before `until`.
fn began_before(day: &str, until: Option<&i64>) -> bool {
    let midnight = day.parse::<Date>().and_then(|day| day.to_zoned(TimeZone::UTC));
    until.is_some_and(|until| midnight.is_ok_and(|midnight| midnight.timestamp().as_microsecond() < *until))
}

impl<F: Borrow<ErasureFact>> FromIterator<F> for ErasureFacts {
    fn from_iter<I: IntoIterator<Item = F>>(facts: I) -> Self {
        let mut known = Self::default();
        facts.into_iter().for_each(|fact| known.insert(fact.borrow()));
        known
    }
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
