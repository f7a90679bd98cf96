//! Floods: events name more missing IDs than Slack can be asked about without delaying other events.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ports::clock::{SharedClock, TimestampMs};
use slack::ids::TeamId;
use slack_api::Method;

use super::ask::NO_GROUPS;
use crate::admission::entities::Entity;

/// This number of missing entities at once is a flood. Slack answers a hundred questions a minute; this leaves
/// most of them to entities that exist.
const BURST: u32 = 20;

/// How long each missing entity counts: in a flood, Slack is asked about one more after this time.
const EACH: Duration = Duration::from_secs(3);

/// Maximum number of buckets. At the limit, all of them are emptied.
const MAX_BUCKETS: usize = 1_000;

/// A leaky bucket of missing entities for each workspace and kind.
pub(in crate::admission) struct Floods {
    clock: SharedClock,
    /// When each bucket will be empty.
    empty_at: Mutex<HashMap<(TeamId, Method), TimestampMs>>,
}

impl Floods {
    pub(in crate::admission) fn new(clock: SharedClock) -> Self {
        Self { clock, empty_at: Mutex::default() }
    }

    /// Records that Slack does not know an entity. Entities that Slack only hides are no sign of a flood.
    pub(in crate::admission) fn note_missing(&self, entity: &Entity, code: &str) {
        if code == NO_GROUPS {
            return;
        }
        let now = self.clock.now();
        let mut buckets = self.empty_at.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_BUCKETS {
            buckets.clear();
        }
        let level = level(&buckets, entity, now) + EACH;
        buckets.insert(key(entity), now.plus(level.min(EACH * BURST)));
    }

    /// Whether entities of this workspace and kind are flooded now.
    pub(in crate::admission) fn is_flooded(&self, entity: &Entity) -> bool {
        let buckets = self.empty_at.lock().unwrap_or_else(PoisonError::into_inner);
        level(&buckets, entity, self.clock.now()) > EACH * (BURST - 1)
    }
}

/// How long the bucket takes to become empty. A fuller one than there can be comes from a clock that was set back.
fn level(buckets: &HashMap<(TeamId, Method), TimestampMs>, entity: &Entity, now: TimestampMs) -> Duration {
    let level = buckets.get(&key(entity)).map(|empty_at| empty_at.since(now));
    level.filter(|level| *level <= EACH * BURST).unwrap_or_default()
}

fn key(entity: &Entity) -> (TeamId, Method) {
    (entity.team().clone(), entity.method())
}

#[cfg(test)]
mod tests {
    use ports::clock::ManualClock;
    use slack::ids::UserId;

    use super::*;

    fn user(team: &str) -> Entity {
        Entity::User(TeamId::parse(team).unwrap(), UserId::parse("U1").unwrap())
    }

    #[test]
    fn a_flood_begins_with_many_absences_and_ends_as_they_are_forgotten() {
        let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
        let floods = Floods::new(clock.clone());
        let note = |times: u32| {
            for _ in 0..times {
                floods.note_missing(&user("T1"), "user_not_found");
                floods.note_missing(&user("T2"), NO_GROUPS);
            }
        };
        note(BURST - 1);
        assert!(!floods.is_flooded(&user("T1")));
        // However many are missing, the flood is over as soon.
        note(BURST * 10);
        assert!(floods.is_flooded(&user("T1")) && !floods.is_flooded(&user("T2")));
        clock.advance(EACH);
        assert!(!floods.is_flooded(&user("T1")));
        note(1);
        assert!(floods.is_flooded(&user("T1")));
        // The same number over a long time is no flood.
        clock.advance(EACH * BURST);
        for _ in 0..BURST * 2 {
            note(1);
            clock.advance(EACH);
        }
        assert!(!floods.is_flooded(&user("T1")));
    }

    #[test]
    fn no_flood_lasts_for_as_long_as_the_clock_was_ahead() {
        let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
        let floods = Floods::new(clock.clone());
        clock.advance(EACH * 1_000);
        for _ in 0..BURST {
            floods.note_missing(&user("T1"), "user_not_found");
        }
        assert!(floods.is_flooded(&user("T1")));
        clock.set_back(EACH * 1_000);
        assert!(!floods.is_flooded(&user("T1")));
    }
}
