//! Entities that Slack keeps failing on while it answers about others: each backs off alone, and its events are quarantined in the
//! end.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ports::clock::TimestampMs;
use slack::ids::TeamId;

use crate::existence::cache::Demand;
use crate::existence::entities::Entity;
use crate::existence::evaluate::Fact;

/// How long Slack may fail on one thing while it answers about others, before an event that names that thing is quarantined.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(600);

/// The wait after the first failure; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait: as long as a breaker's.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What has not failed for so long starts anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);

/// Entities that are remembered. Beyond it, further ones count as failures of Slack.
const MAX_FAILING: usize = 1_000;

/// One thing that Slack fails on.
#[derive(Debug, Clone)]
struct FailingEntity {
    /// Slack has answered about others since: it is well, but for this one.
    alone_since: Option<TimestampMs>,
    last: TimestampMs,
    wait: Duration,
    why: String,
}

impl FailingEntity {
    fn fact(&self, entity: &Entity, now: TimestampMs) -> Option<Fact> {
        let alone_since = self.alone_since?;
        // Without its workspace no event of it could be stored: that is never given up.
        let given_up = !matches!(entity, Entity::Team(_)) && now.since(alone_since) >= GIVEN_UP_AFTER;
        Some(if given_up {
            Fact::Unsaid(format!("{}, for ten minutes in which it answered about others", self.why))
        } else {
            let after = self.last.plus(self.wait).since(now).max(FIRST_WAIT);
            Fact::Later { after, why: self.why.clone(), not_allowed: false }
        })
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct FailingEntities(Mutex<BTreeMap<Entity, FailingEntity>>);

impl FailingEntities {
    /// Why something is not asked about now. A job that was replayed since the last failure has it asked about.
    pub(super) fn shut(&self, entity: &Entity, demand: &Demand, now: TimestampMs) -> Option<Fact> {
        let failing = self.lock();
        let failure = failing.get(entity)?;
        let waits = now < failure.last.plus(failure.wait) && now >= failure.last;
        let asked_afresh = demand.replayed && demand.sent_at > failure.last;
        failure.fact(entity, now).filter(|_| waits && !asked_afresh)
    }

    /// Whether Slack is well, but for this one.
    pub(super) fn is_alone(&self, entity: &Entity) -> bool {
        self.lock().get(entity).is_some_and(|failure| failure.alone_since.is_some())
    }

    /// What its failures amount to by now.
    pub(super) fn stuck(&self, entity: &Entity, now: TimestampMs) -> Option<Fact> {
        self.lock().get(entity)?.fact(entity, now)
    }

    /// Slack failed on something; says whether it is well otherwise.
    pub(super) fn failed(&self, entity: &Entity, now: TimestampMs, why: &str) -> bool {
        let mut failing = self.lock();
        failing.retain(|_, failure| now < failure.last.plus(FORGOTTEN_AFTER));
        if let Some(failure) = failing.get_mut(entity) {
            failure.last = now;
            failure.wait = (failure.wait * 2).min(LONGEST_WAIT);
            why.clone_into(&mut failure.why);
            return failure.alone_since.is_some();
        }
        if failing.len() < MAX_FAILING {
            let failure =
                FailingEntity { alone_since: None, last: now, wait: FIRST_WAIT, why: why.to_owned() };
            failing.insert(entity.clone(), failure);
        }
        false
    }

    /// Slack answered about something.
    pub(super) fn answered(&self, entity: &Entity, now: TimestampMs) {
        let mut failing = self.lock();
        failing.remove(entity);
        for (other, failure) in failing.iter_mut() {
            if other.team() == entity.team() {
                failure.alone_since.get_or_insert(now);
            }
        }
    }

    /// Slack fails on different things: it is not well at all.
    pub(super) fn outage(&self, team: &TeamId) {
        for (entity, failure) in self.lock().iter_mut() {
            if entity.team() == team {
                failure.alone_since = None;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Entity, FailingEntity>> {
        // Each change leaves every failure whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
