//! Floods: within a minute, events name more missing IDs than Slack can be asked about without delaying other
//! events.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ports::clock::{SharedClock, TimestampMs};
use slack::ids::TeamId;
use slack_api::Method;

use super::ask::NO_GROUPS;
use crate::existence::entities::Entity;

/// This number of missing entities within [`WINDOW`] is a flood. Slack answers a hundred questions a minute;
/// this leaves most of them to entities that exist.
const FLOOD_FROM: u32 = 20;

/// How long missing entities are counted together, and how long a flood lasts after the last of them.
const WINDOW: Duration = Duration::from_secs(60);

/// Maximum number of counts. At the limit, all of them are reset.
const MAX_COUNTS: usize = 1_000;

/// The missing entities since `since`.
#[derive(Debug, Clone, Copy)]
struct Absences {
    since: TimestampMs,
    count: u32,
    flooded_until: TimestampMs,
}

/// Recently missing entities, by workspace and kind.
pub(in crate::existence) struct Floods {
    clock: SharedClock,
    counts: Mutex<HashMap<(TeamId, Method), Absences>>,
}

impl Floods {
    pub(in crate::existence) fn new(clock: SharedClock) -> Self {
        Self { clock, counts: Mutex::default() }
    }

    /// Records that Slack does not know an entity. Entities that Slack only hides are no sign of a flood.
    pub(in crate::existence) fn note_missing(&self, entity: &Entity, code: &str) {
        if code == NO_GROUPS {
            return;
        }
        let now = self.clock.now();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MAX_COUNTS {
            counts.clear();
        }
        let initial = Absences { since: now, count: 0, flooded_until: now };
        let absences = counts.entry(key(entity)).or_insert(initial);
        if now < absences.since || now >= absences.since.plus(WINDOW) {
            *absences = Absences { since: now, count: 0, ..*absences };
        }
        absences.count = absences.count.saturating_add(1);
        if absences.count >= FLOOD_FROM {
            absences.flooded_until = now.plus(WINDOW);
        }
    }

    /// Whether entities of this workspace and kind are flooded now.
    pub(in crate::existence) fn is_flooded(&self, entity: &Entity) -> bool {
        let now = self.clock.now();
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&key(entity)).is_some_and(|absences| {
            // A longer flood comes from a clock that was set back.
            now < absences.flooded_until && absences.flooded_until <= now.plus(WINDOW)
        })
    }
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
    fn a_flood_begins_with_many_absences_and_ends_a_minute_after_the_last() {
        let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
        let floods = Floods::new(clock.clone());
        for _ in 1..FLOOD_FROM {
            floods.note_missing(&user("T1"), "user_not_found");
            floods.note_missing(&user("T2"), NO_GROUPS);
        }
        assert!(!floods.is_flooded(&user("T1")));
        floods.note_missing(&user("T1"), "user_not_found");
        floods.note_missing(&user("T2"), NO_GROUPS);
        assert!(floods.is_flooded(&user("T1")) && !floods.is_flooded(&user("T2")));
        clock.advance(WINDOW);
        assert!(!floods.is_flooded(&user("T1")));
        // The same number over a long time is no flood.
        for _ in 0..FLOOD_FROM {
            floods.note_missing(&user("T1"), "user_not_found");
            clock.advance(WINDOW / 10);
        }
        assert!(!floods.is_flooded(&user("T1")));
    }

    #[test]
    fn no_flood_lasts_for_as_long_as_the_clock_was_ahead() {
        let start = TimestampMs(1_700_000_000_000);
        let hours_ahead = Floods::new(ManualClock::starting_at(start.plus(WINDOW * 180)));
        for _ in 0..FLOOD_FROM {
            hours_ahead.note_missing(&user("T1"), "user_not_found");
        }
        assert!(hours_ahead.is_flooded(&user("T1")));
        let floods = Floods { clock: ManualClock::starting_at(start), ..hours_ahead };
        floods.note_missing(&user("T1"), "user_not_found");
        assert!(!floods.is_flooded(&user("T1")));
    }
}
