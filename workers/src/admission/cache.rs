//! The caches of confirmed entities. In this process, the cache has one entry per entity, so that the triples
//! of a busy workspace cost no more requests than it has people and channels. Behind it is the table that all
//! processes share, which is asked before Slack.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ports::clock::{SharedClock, TimestampMs};
use ports::existence::{CacheKey, ExistenceError, TTL, Verified};
use tokio::time::timeout;

use super::entities::{ChannelReach, Demand, Entity, EventEntities};
use super::{ExistenceCheck, answered};

/// Maximum number of remembered entities, some 10 MB. At the limit, expired ones are forgotten, then all of
/// them.
const MAX_REMEMBERED: usize = 100_000;

/// How long a missing entity also answers for later events: long enough for the jobs of one batch, and short
/// enough that an entity that is just being created does not count as invented.
const MISSING_FOR: Duration = Duration::from_secs(5);

/// The cached state of one entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// Slack confirmed it at that time. For a channel, its reach may be known.
    Found { verified_at: TimestampMs, reach: Option<ChannelReach> },
    /// Slack did not know it at that time, and returned this error code.
    Missing { found_at: TimestampMs, code: String },
}

impl Knowledge {
    /// Whether this answer is valid for an event with this demand.
    fn meets(&self, demand: &Demand, now: TimestampMs) -> bool {
        match self {
            Self::Found { verified_at, .. } => !demand.former || *verified_at > demand.sent_at,
            Self::Missing { found_at, .. } => {
                let is_later = *found_at > demand.sent_at;
                let is_recent = now < found_at.plus(MISSING_FOR);
                (is_later && !demand.newborn) || (is_recent && (is_later || !demand.replayed))
            }
        }
    }
}

/// Slack entities that this process knows. The directory sync adds every entity it reads.
pub struct KnownEntities {
    clock: SharedClock,
    entities: Mutex<HashMap<Entity, (TimestampMs, Knowledge)>>,
}

impl KnownEntities {
    /// An empty cache.
    pub fn new(clock: SharedClock) -> Self {
        Self { clock, entities: Mutex::default() }
    }

    /// Records that Slack shows an entity.
    pub(crate) fn found(&self, entity: Entity, reach: Option<ChannelReach>) {
        let now = self.clock.now();
        self.insert(entity, now, Knowledge::Found { verified_at: now, reach });
    }

    /// Records a row of the cache table: the oldest of its three confirmations may apply to all of them. A
    /// better entry stays.
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
            self.insert(entity, verified_at, Knowledge::Found { verified_at, reach: None });
        }
    }

    pub(super) fn missing(&self, entity: Entity, code: &str) {
        let now = self.clock.now();
        self.insert(entity, now, Knowledge::Missing { found_at: now, code: code.to_owned() });
    }

    /// The current entry, if it is valid for an event.
    pub(super) fn answer(&self, entity: &Entity, demand: &Demand) -> Option<Knowledge> {
        self.get(entity).filter(|knowledge| knowledge.meets(demand, self.clock.now()))
    }

    /// The current entry.
    pub(super) fn get(&self, entity: &Entity) -> Option<Knowledge> {
        let now = self.clock.now();
        self.entities().get(entity).filter(|entry| is_current(entry, now)).map(|(_, known)| known.clone())
    }

    fn insert(&self, entity: Entity, at: TimestampMs, knowledge: Knowledge) {
        let now = self.clock.now();
        let mut entities = self.entities();
        if entities.len() >= MAX_REMEMBERED {
            entities.retain(|_, entry| is_current(entry, now));
            if entities.len() >= MAX_REMEMBERED {
                entities.clear();
            }
        }
        entities.insert(entity, (at, knowledge));
    }

    fn entities(&self) -> MutexGuard<'_, HashMap<Entity, (TimestampMs, Knowledge)>> {
        // Each change is one insert, so a panic elsewhere leaves a valid map.
        self.entities.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An entry dated in the future comes from a clock that was set back: its age is unknown.
fn is_current((at, _): &(TimestampMs, Knowledge), now: TimestampMs) -> bool {
    *at <= now && now < at.plus(TTL)
}

/// How long the table may take before Slack is asked instead.
const TABLE_TIMEOUT: Duration = Duration::from_secs(1);

impl ExistenceCheck {
    /// Asks the cache table for the triples that this process does not know.
    pub(super) async fn consult_table<'s>(&self, subjects: impl Iterator<Item = &'s EventEntities>) {
        let now = self.0.parts.clock.now();
        let triples: BTreeMap<CacheKey, [&Entity; 3]> = subjects.flat_map(EventEntities::keys).collect();
        if triples.is_empty() {
            return;
        }
        let keys: Vec<CacheKey> = triples.keys().cloned().collect();
        let rows = self.with_timeout(self.0.parts.table.look_up(&keys)).await.unwrap_or_default();
        for (entities, row) in triples.into_values().zip(rows) {
            let Some(verified_at) = row.and_then(|row| row.valid_since(now)) else { continue };
            entities.into_iter().for_each(|entity| self.0.known.found_at(entity.clone(), verified_at));
        }
    }

    /// Stores the triples that Slack has just confirmed, except those of private channels: a row also implies
    /// that its channel is not private.
    pub(super) async fn store_in_table<'s>(&self, subjects: impl Iterator<Item = &'s EventEntities>) {
        let triples: BTreeMap<CacheKey, [&Entity; 3]> = subjects.flat_map(EventEntities::keys).collect();
        let verified = |(key, entities): (CacheKey, [&Entity; 3])| {
            // A triple is as old as its oldest entity.
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
            self.with_timeout(self.0.parts.table.remember(&rows)).await;
        }
    }

    /// Limits the duration of a call to the cache table. A failing cache counts as empty: the check does not
    /// wait for it.
    async fn with_timeout<T>(&self, call: impl Future<Output = Result<T, ExistenceError>>) -> Option<T> {
        let answer = match timeout(TABLE_TIMEOUT, call).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("it did not answer in time".to_owned()),
        };
        match answer {
            Ok(answer) => {
                if self.0.table_fails.swap(false, Ordering::Relaxed) {
                    tracing::info!("the existence check's cache answers again");
                }
                Some(answer)
            }
            Err(error) => {
                answered("table_failed", 1);
                if !self.0.table_fails.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        error,
                        "the existence check continues without its cache and asks Slack more often"
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
    use slack::ids::{TeamId, UserId};

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
    fn a_found_entity_is_known_for_five_minutes_and_a_missing_one_for_seconds() {
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
        // For earlier events, the absence applies for as long as it is remembered.
        let earlier = Demand { sent_at: TimestampMs(0), ..demand };
        assert!(known.answer(&team(), &Demand { replayed: true, ..earlier }).is_some());
        assert_eq!(known.answer(&team(), &Demand { newborn: true, ..earlier }), None);
    }

    #[test]
    fn an_earlier_confirmation_of_a_former_id_is_no_answer() {
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
    fn a_row_does_not_extend_its_confirmation() {
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
