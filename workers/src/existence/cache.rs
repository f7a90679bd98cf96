//! What is known to exist: in this process, a cache per entity, so that the triples of a busy workspace cost no more
//! questions than it has people and channels; behind it the table that all processes share, which is asked before Slack.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ports::clock::{SharedClock, TimestampMs};
use ports::existence::{CacheKey, ExistenceError, TTL, Verified};
use slack::ids::TeamId;
use tokio::time::timeout;

use super::entities::{ChannelReach, Entity, EventEntities};
use super::{ExistenceCheck, answered};

/// Entities remembered, some 10 MB. Beyond it what has expired is forgotten, then everything.
const MAX_REMEMBERED: usize = 100_000;

/// How long an absence answers for what came later: long enough for the jobs of one batch, and short enough that what is
/// just being created does not count as invented.
const MISSING_FOR: Duration = Duration::from_secs(5);

/// What is known of one entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// Slack confirmed it at that time. Of a channel it may be known whom it reaches.
    Found { verified_at: TimestampMs, reach: Option<ChannelReach> },
    /// Slack did not know it at that time, by this code.
    Missing { found_at: TimestampMs, code: String },
}

/// Which answers do for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Demand {
    /// When the event came here. An absence that was found later is about it.
    pub(super) sent_at: TimestampMs,
    /// It was replayed: no earlier absence answers for it.
    pub(super) replayed: bool,
    /// It may be announced a moment before Slack shows it.
    pub(super) newborn: bool,
    /// It is an id that a channel should have left: to have been there before says nothing.
    pub(super) former: bool,
}

impl Demand {
    /// The same for two events: what does for both.
    pub(super) fn add(&mut self, other: Self) {
        self.sent_at = self.sent_at.max(other.sent_at);
        self.replayed |= other.replayed;
        self.newborn |= other.newborn;
        self.former |= other.former;
    }

    fn is_met_by(&self, knowledge: &Knowledge, now: TimestampMs) -> bool {
        match knowledge {
            Knowledge::Found { verified_at, .. } => !self.former || *verified_at > self.sent_at,
            Knowledge::Missing { found_at, .. } => {
                let later = *found_at > self.sent_at;
                let lately = now < found_at.plus(MISSING_FOR);
                (later && !self.newborn) || (lately && (later || !self.replayed))
            }
        }
    }
}

/// When the reading of a list began, and whether it came to the list's end.
#[derive(Debug, Clone, Copy)]
struct ListReading {
    began: TimestampMs,
    is_whole: bool,
}

/// What a workspace's list of people says of those it does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeopleList {
    /// They do not exist: it was read to its end.
    Whole,
    /// Nothing: it is longer than is read of it, which is remembered as long as what was read.
    TooLong,
    /// Nothing yet: it has to be read.
    Unread,
}

/// What this process knows of Slack's entities. The directory sync adds to it whatever it reads.
pub struct KnownEntities {
    clock: SharedClock,
    entities: Mutex<HashMap<Entity, (TimestampMs, Knowledge)>>,
    /// By workspace: the last reading of its list of people that did not fail.
    listed: Mutex<HashMap<TeamId, ListReading>>,
}

impl KnownEntities {
    /// Nothing is known yet.
    pub fn new(clock: SharedClock) -> Self {
        Self { clock, entities: Mutex::default(), listed: Mutex::default() }
    }

    /// Slack shows it.
    pub(crate) fn found(&self, entity: Entity, reach: Option<ChannelReach>) {
        let now = self.clock.now();
        self.keep(entity, now, Knowledge::Found { verified_at: now, reach });
    }

    /// What a row of the cache says: the oldest of its three confirmations may be all of them. What is known better stays.
    pub(super) fn found_at(&self, entity: Entity, verified_at: TimestampMs) {
        let now = self.clock.now();
        let is_better = match self.get(&entity) {
            None => true,
            Some(Knowledge::Found { .. }) => false,
            Some(Knowledge::Missing { found_at, .. }) => {
                verified_at > found_at || now >= found_at.plus(MISSING_FOR)
            }
        };
        if is_better {
            self.keep(entity, verified_at, Knowledge::Found { verified_at, reach: None });
        }
    }

    pub(super) fn missing(&self, entity: Entity, code: &str) {
        let now = self.clock.now();
        self.keep(entity, now, Knowledge::Missing { found_at: now, code: code.to_owned() });
    }

    /// The list of people was read, to its end or as far as it is read at most; nothing of it is older than that.
    pub(super) fn listed_people(&self, team: &TeamId, began: TimestampMs, is_whole: bool) {
        let mut listed = self.listed();
        if listed.len() >= MAX_REMEMBERED {
            listed.clear();
        }
        listed.insert(team.clone(), ListReading { began, is_whole });
    }

    /// What the list of people says, since this time, of those it does not have.
    pub(super) fn people_list(&self, team: &TeamId, since: TimestampMs) -> PeopleList {
        let now = self.clock.now();
        match self.listed().get(team) {
            Some(ListReading { began, is_whole: true }) if *began >= since => PeopleList::Whole,
            Some(ListReading { began, is_whole: false }) if *began <= now && now < began.plus(TTL) => {
                PeopleList::TooLong
            }
            _ => PeopleList::Unread,
        }
    }

    /// What is known now that does for an event.
    pub(super) fn answer(&self, entity: &Entity, demand: &Demand) -> Option<Knowledge> {
        self.get(entity).filter(|knowledge| demand.is_met_by(knowledge, self.clock.now()))
    }

    /// What is known now.
    pub(super) fn get(&self, entity: &Entity) -> Option<Knowledge> {
        let now = self.clock.now();
        self.entities().get(entity).filter(|entry| counts(entry, now)).map(|(_, known)| known.clone())
    }

    fn keep(&self, entity: Entity, at: TimestampMs, knowledge: Knowledge) {
        let now = self.clock.now();
        let mut entities = self.entities();
        if entities.len() >= MAX_REMEMBERED {
            entities.retain(|_, entry| counts(entry, now));
            if entities.len() >= MAX_REMEMBERED {
                entities.clear();
            }
        }
        entities.insert(entity, (at, knowledge));
    }

    fn listed(&self) -> MutexGuard<'_, HashMap<TeamId, ListReading>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entities(&self) -> MutexGuard<'_, HashMap<Entity, (TimestampMs, Knowledge)>> {
        // Each change is one insert, so a panic elsewhere leaves a whole map.
        self.entities.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Knowledge from a time that has not come yet is of a clock that was put back: its age is unknown.
fn counts((at, _): &(TimestampMs, Knowledge), now: TimestampMs) -> bool {
    *at <= now && now < at.plus(TTL)
}

/// How long the table may take before Slack is asked instead.
const TABLE_TIMEOUT: Duration = Duration::from_secs(1);

impl ExistenceCheck {
    /// Asks the cache about the triples that this process does not know.
    pub(super) async fn consult_table<'s>(&self, subjects: impl Iterator<Item = &'s EventEntities>) {
        let now = self.0.parts.clock.now();
        let triples: BTreeMap<CacheKey, [&Entity; 3]> = subjects.flat_map(EventEntities::keys).collect();
        if triples.is_empty() {
            return;
        }
        let keys: Vec<CacheKey> = triples.keys().cloned().collect();
        let rows = self.in_time(self.0.parts.table.look_up(&keys)).await.unwrap_or_default();
        for (entities, row) in triples.into_values().zip(rows) {
            let Some(verified_at) = row.and_then(|row| row.counts_since(now)) else { continue };
            entities.into_iter().for_each(|entity| self.0.known.found_at(entity.clone(), verified_at));
        }
    }

    /// Keeps the triples that Slack has just confirmed, but for private channels: a row then also vouches that its channel
    /// is not private.
    pub(super) async fn store_in_table<'s>(&self, subjects: impl Iterator<Item = &'s EventEntities>) {
        let triples: BTreeMap<CacheKey, [&Entity; 3]> = subjects.flat_map(EventEntities::keys).collect();
        let verified = |(key, entities): (CacheKey, [&Entity; 3])| {
            // A triple is as old as the oldest of its three.
            let ages = entities.map(|entity| match self.0.known.get(entity) {
                Some(Knowledge::Found { reach: Some(ChannelReach { private: true, .. }), .. }) => None,
                Some(Knowledge::Found { verified_at, .. }) => Some(verified_at),
                Some(Knowledge::Missing { .. }) | None => None,
            });
            let oldest = ages.into_iter().collect::<Option<Vec<_>>>()?.into_iter().min()?;
            Some((key, Verified::at(oldest)))
        };
        let rows: Vec<(CacheKey, Verified)> = triples.into_iter().filter_map(verified).collect();
        if !rows.is_empty() {
            self.in_time(self.0.parts.table.remember(&rows)).await;
        }
    }

    /// A cache that fails has nothing, which is no reason to wait.
    async fn in_time<T>(&self, asked: impl Future<Output = Result<T, ExistenceError>>) -> Option<T> {
        let answer = match timeout(TABLE_TIMEOUT, asked).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("it did not answer in time".to_owned()),
        };
        match answer {
            Ok(answer) => {
                if self.0.table_fails.swap(false, Ordering::Relaxed) {
                    tracing::info!("the cache of the existence check answers again");
                }
                Some(answer)
            }
            Err(error) => {
                answered("table_failed", 1);
                if !self.0.table_fails.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        error,
                        "the existence check goes on without its cache: Slack is asked more often"
                    );
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ports::clock::{Clock, ManualClock};
    use slack::ids::UserId;

    use super::*;

    fn team() -> Entity {
        Entity::Team(TeamId::parse("T1").unwrap())
    }

    fn has_team(known: &KnownEntities) -> bool {
        matches!(known.get(&team()), Some(Knowledge::Found { .. }))
    }

    fn known() -> (Arc<ManualClock>, KnownEntities) {
        let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
        (Arc::clone(&clock), KnownEntities::new(clock))
    }

    #[test]
    fn what_exists_is_known_for_five_minutes_and_what_does_not_for_seconds() {
        let (clock, known) = known();
        known.found(team(), None);
        clock.advance(Duration::from_millis(299_999));
        assert!(has_team(&known));
        clock.advance(Duration::from_millis(1));
        assert!(!has_team(&known) && known.get(&team()).is_none());

        let later = clock.now().plus(Duration::from_millis(1));
        known.missing(team(), "team_not_found");
        assert!(!has_team(&known));
        let demand = Demand { sent_at: later, replayed: false, newborn: false, former: false };
        assert!(known.answer(&team(), &demand).is_some());
        assert_eq!(known.answer(&team(), &Demand { replayed: true, ..demand }), None);
        clock.advance(MISSING_FOR);
        assert_eq!(known.answer(&team(), &demand), None);
        // For what came before, it is an answer for as long as it is remembered.
        let earlier = Demand { sent_at: TimestampMs(0), ..demand };
        assert!(known.answer(&team(), &Demand { replayed: true, ..earlier }).is_some());
        assert_eq!(known.answer(&team(), &Demand { newborn: true, ..earlier }), None);
    }

    #[test]
    fn that_a_former_id_was_there_before_says_nothing() {
        let (clock, known) = known();
        known.found(team(), None);
        let sent_at = clock.now();
        let demand = Demand { sent_at, replayed: false, newborn: false, former: true };
        assert_eq!(known.answer(&team(), &demand), None);
        clock.advance(Duration::from_millis(1));
        known.found(team(), None);
        assert!(known.answer(&team(), &demand).is_some());
    }

    #[test]
    fn a_row_adds_no_time_to_what_it_confirms() {
        let (clock, known) = known();
        let start = TimestampMs(1_700_000_000_000);
        clock.advance(Duration::from_secs(200));
        known.found_at(team(), start);
        clock.advance(Duration::from_secs(100));
        assert_eq!(known.get(&team()), None);
    }

    #[test]
    fn memory_is_bounded() {
        let (_, known) = known();
        let team = TeamId::parse("T1").unwrap();
        for n in 0..=MAX_REMEMBERED {
            known.found(Entity::User(team.clone(), UserId::parse(&format!("U{n}X")).unwrap()), None);
        }
        assert_eq!(known.entities().len(), 1);
    }
}
