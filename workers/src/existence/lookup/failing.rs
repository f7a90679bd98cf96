//! Failures of Slack: one table of what is waiting, until when, and why.
//!
//! * A workspace waits after consecutive failures about different entities, because they are caused by Slack
//!   or the token; a method of a workspace waits once the app lacks its scope. Each is a circuit breaker: it
//!   lets one question through at a time, with growing waits in between.
//! * An entity on which Slack fails while it answers about others waits alone. Its events are quarantined in
//!   the end.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::gauge;
use ports::archive::Archive;
use ports::clock::{SharedClock, TimestampMs};
use ports::metrics::EXISTENCE_BREAKERS;
use slack::ids::TeamId;
use slack_api::Method;

use super::ask::ExistenceAnswer;
use super::breaker_rows;
use crate::existence::cache::Demand;
use crate::existence::entities::Entity;
use crate::existence::evaluate::Fact;

/// The wait when a breaker opens; it doubles with each probe that fails.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// The wait after the first failure about an entity; it doubles with each.
const FIRST_WAIT_ALONE: Duration = Duration::from_secs(1);

/// The longest wait: the maximum delay after an outage is over.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A probe without an answer after this time counts as lost. No call takes longer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of different entities with consecutive failures that opens a workspace's breaker: one lost
/// connection does not.
const FAILURES: usize = 3;

/// How long Slack may fail on one entity while it answers about others, before an event that names that
/// entity is quarantined.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(600);

/// An entity without a failure for this long starts anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);

/// Maximum number of breakers, and of remembered entities. Without a breaker, a failed question is asked
/// again every second; further entities count as failures of Slack.
const MAX_FAILING: usize = 1_000;

/// The scope of a circuit breaker: a workspace, or one method of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Breaker {
    pub(super) team: TeamId,
    pub(super) method: Option<Method>,
}

impl Breaker {
    /// The breakers of an entity's workspace and of its method.
    fn for_entity(entity: &Entity) -> [Self; 2] {
        [None, Some(entity.method())].map(|method| Self { team: entity.team().clone(), method })
    }
}

/// The state of repeated failures, and until when no question is asked because of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Failing {
    /// For a breaker: when it opened. For an entity: since when Slack, which fails on it, has answered about
    /// others.
    pub(super) since: Option<TimestampMs>,
    pub(super) until: TimestampMs,
    pub(super) reason: String,
    /// When `until` was set.
    last: TimestampMs,
    wait: Duration,
    /// The entities that questions behind a breaker failed on since the last answer.
    about: BTreeSet<Entity>,
    probing_since: Option<TimestampMs>,
}

impl Failing {
    /// Records one more failure: the wait grows.
    fn wait_longer(&mut self, now: TimestampMs, reason: &str, first_wait: Duration) {
        self.wait = (self.wait * 2).clamp(first_wait, LONGEST_WAIT);
        (self.last, self.until) = (now, now.plus(self.wait));
        reason.clone_into(&mut self.reason);
        self.probing_since = None;
    }

    /// The rest of the wait. A wait that begins in the future is over: the clock was set back.
    fn remaining(&self, now: TimestampMs) -> Duration {
        if now < self.last { Duration::ZERO } else { self.until.since(now) }
    }

    fn later(&self, after: Duration, not_allowed: bool) -> Fact {
        Fact::Later { after, why: self.reason.clone(), not_allowed }
    }

    /// How long a question behind an open breaker must wait. `None` lets it through as a probe, whose result
    /// must be recorded.
    fn gate(&mut self, now: TimestampMs) -> Option<Duration> {
        let remaining = self.remaining(now);
        if !remaining.is_zero() {
            return Some(remaining);
        }
        if self.probing_since.is_some_and(|since| since <= now && now.since(since) < PROBE_TIMEOUT) {
            return Some(FIRST_WAIT);
        }
        self.probing_since = Some(now);
        None
    }

    /// The result of failures about one entity, if Slack answers about others.
    fn alone(&self, entity: &Entity, now: TimestampMs) -> Option<Fact> {
        let since = self.since?;
        // Without its workspace no event could be stored, so a workspace is never given up.
        let given_up = !matches!(entity, Entity::Team(_)) && now.since(since) >= GIVEN_UP_AFTER;
        Some(if given_up {
            Fact::Undetermined(format!("{}, for ten minutes in which it answered about others", self.reason))
        } else {
            self.later(self.remaining(now).max(FIRST_WAIT_ALONE), false)
        })
    }
}

/// A breaker that changed, its state after or before the change, and whether it is open now.
type BreakerChange = (Breaker, Failing, bool);

/// The breakers and the failing entities.
#[derive(Default)]
struct FailingTable {
    breakers: HashMap<Breaker, Failing>,
    entities: HashMap<Entity, Failing>,
}

impl FailingTable {
    /// Records the answer to a question.
    fn note(&mut self, entity: &Entity, answer: &ExistenceAnswer, now: TimestampMs) -> Vec<BreakerChange> {
        let [of_team, of_method] = Breaker::for_entity(entity);
        match answer {
            ExistenceAnswer::Found { .. } | ExistenceAnswer::Missing(_) => {
                self.entities.remove(entity);
                for other in self.entities_of(entity.team()) {
                    // A time in the future comes from a clock that was set back.
                    other.since = other.since.min(Some(now)).or(Some(now));
                }
                self.close(of_team).into_iter().chain(self.close(of_method)).collect()
            }
            // A pause is an answer, but neither a failure nor the end of one.
            ExistenceAnswer::Paused(pause, _) => {
                for breaker in [of_team, of_method] {
                    if let Some(failing) = self.breakers.get_mut(&breaker) {
                        failing.until = now.plus(failing.remaining(now).max(*pause));
                        failing.last = now;
                        failing.probing_since = None;
                    }
                }
                Vec::new()
            }
            ExistenceAnswer::NotAllowed(why) => {
                let closed = self.close(of_team).into_iter();
                closed.chain(self.fail(of_method, entity, 1, why, now)).collect()
            }
            ExistenceAnswer::Failed(why) if self.fails_alone(entity, why, now) => Vec::new(),
            ExistenceAnswer::Failed(why) => {
                self.fail(of_team, entity, FAILURES, why, now).into_iter().collect()
            }
        }
    }

    fn close(&mut self, breaker: Breaker) -> Option<BreakerChange> {
        let failing = self.breakers.remove(&breaker)?;
        failing.since.is_some().then_some((breaker, failing, false))
    }

    /// Records a failed question behind a breaker; consecutive failures about `threshold` different entities
    /// open it.
    fn fail(
        &mut self,
        breaker: Breaker,
        about: &Entity,
        threshold: usize,
        reason: &str,
        now: TimestampMs,
    ) -> Option<BreakerChange> {
        if self.breakers.len() >= MAX_FAILING && !self.breakers.contains_key(&breaker) {
            return None;
        }
        let failing = self.breakers.entry(breaker.clone()).or_default();
        if failing.about.len() < threshold {
            failing.about.insert(about.clone());
        }
        // Questions that were in flight when it opened do not extend the wait.
        let is_open = failing.since.is_some();
        if if is_open { failing.probing_since.is_none() } else { failing.about.len() < threshold } {
            return None;
        }
        failing.since.get_or_insert(now);
        failing.wait_longer(now, reason, FIRST_WAIT);
        let failing = failing.clone();
        if !is_open && breaker.method.is_none() {
            // Slack fails on different entities: the cause is not a single one.
            self.entities_of(&breaker.team).for_each(|entity| entity.since = None);
        }
        Some((breaker, failing, true))
    }

    /// Records a failure of Slack on an entity; returns whether Slack answers about others.
    fn fails_alone(&mut self, entity: &Entity, reason: &str, now: TimestampMs) -> bool {
        self.entities.retain(|_, failing| now < failing.last.plus(FORGOTTEN_AFTER));
        if self.entities.len() >= MAX_FAILING && !self.entities.contains_key(entity) {
            return false;
        }
        let failing = self.entities.entry(entity.clone()).or_default();
        failing.wait_longer(now, reason, FIRST_WAIT_ALONE);
        failing.since.is_some()
    }

    /// The fact for a question about an entity with an open breaker, given its waiting time.
    fn blocked_by_breaker(
        &mut self,
        entity: &Entity,
        wait: impl Fn(&mut Failing) -> Option<Duration>,
    ) -> Option<Fact> {
        Breaker::for_entity(entity).into_iter().find_map(|breaker| {
            let failing = self.breakers.get_mut(&breaker).filter(|failing| failing.since.is_some())?;
            let after = wait(failing)?;
            Some(failing.later(after, breaker.method.is_some()))
        })
    }

    fn entities_of<'t>(&'t mut self, team: &'t TeamId) -> impl Iterator<Item = &'t mut Failing> {
        self.entities.iter_mut().filter(move |(entity, _)| entity.team() == team).map(|(_, failing)| failing)
    }
}

/// The table and its reports: a log line when a breaker opens and one when it closes, and a row in between,
/// because `annalist status` is another process.
pub(in crate::existence) struct Failures {
    archive: Arc<dyn Archive>,
    clock: SharedClock,
    table: Mutex<FailingTable>,
}

impl Failures {
    pub(in crate::existence) fn new(archive: Arc<dyn Archive>, clock: SharedClock) -> Self {
        Self { archive, clock, table: Mutex::default() }
    }

    /// The reason why Slack must not be asked about this entity now, if there is one.
    pub(in crate::existence) fn blocked(&self, entity: &Entity, demand: &Demand) -> Option<Fact> {
        let now = self.clock.now();
        let mut table = self.table();
        // A question about an entity that fails alone is no probe of Slack's state.
        if let Some(failing) = table.entities.get(entity).filter(|failing| failing.since.is_some()) {
            let must_wait = !failing.remaining(now).is_zero();
            // A job that was replayed after the last failure is asked about again.
            let is_newer_replay = demand.replayed && demand.sent_at > failing.last;
            return failing.alone(entity, now).filter(|_| must_wait && !is_newer_replay);
        }
        table.blocked_by_breaker(entity, |failing| failing.gate(now))
    }

    /// The same check for a question that has waited for its permit.
    pub(in crate::existence) fn still_blocked(&self, entity: &Entity) -> Option<Fact> {
        let now = self.clock.now();
        self.table().blocked_by_breaker(entity, |failing| Some(failing.remaining(now).max(FIRST_WAIT)))
    }

    /// The current result of failures about this entity alone.
    pub(in crate::existence) fn entity_failure(&self, entity: &Entity) -> Option<Fact> {
        self.table().entities.get(entity)?.alone(entity, self.clock.now())
    }

    /// Records the answer to a question.
    pub(in crate::existence) async fn note(&self, entity: &Entity, answer: &ExistenceAnswer) {
        for change in self.breaker_changes(entity, answer) {
            self.report(change).await;
        }
    }

    fn breaker_changes(&self, entity: &Entity, answer: &ExistenceAnswer) -> Vec<BreakerChange> {
        let mut table = self.table();
        let breaker_changes = table.note(entity, answer, self.clock.now());
        let open = table.breakers.values().filter(|failing| failing.since.is_some()).count();
        gauge!(EXISTENCE_BREAKERS).set(f64::from(u32::try_from(open).unwrap_or(u32::MAX)));
        breaker_changes
    }

    async fn report(&self, (breaker, failing, is_open): BreakerChange) {
        let (team, method, reason) = (&breaker.team, breaker.method.map(Method::name), &failing.reason);
        let stored = if is_open {
            if failing.wait == FIRST_WAIT {
                tracing::warn!(%team, method, reason, "the existence check waits: events stay on the queue until Slack answers");
            }
            breaker_rows::write(&*self.archive, &breaker, &failing).await
        } else {
            let seconds = failing.since.map(|since| self.clock.now().since(since).as_secs());
            tracing::info!(%team, method, seconds, "Slack answers the existence check again");
            breaker_rows::remove(&*self.archive, &breaker).await
        };
        if let Err(error) = stored {
            tracing::warn!(%team, %error, "failed to store the existence-check state; `annalist status` may be out of date");
        }
    }

    fn table(&self) -> MutexGuard<'_, FailingTable> {
        // Each change leaves a valid table.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use slack::ids::UserId;

    use super::*;

    /// A breaker that opens after failures about this number of entities.
    struct Tested {
        table: FailingTable,
        breaker: Breaker,
        threshold: usize,
    }

    impl Tested {
        fn new(threshold: usize) -> Self {
            let breaker = Breaker { team: TeamId::parse("T1").unwrap(), method: None };
            Self { table: FailingTable::default(), breaker, threshold }
        }

        /// The wait from then on, if this failure changes it.
        fn failed(&mut self, now: TimestampMs, user: usize) -> Option<Duration> {
            let user = Entity::User(self.breaker.team.clone(), UserId::parse(&format!("U{user}")).unwrap());
            let change = self.table.fail(self.breaker.clone(), &user, self.threshold, "down", now);
            change.map(|(_, failing, _)| failing.wait)
        }

        fn succeeded(&mut self) -> Option<Failing> {
            self.table.close(self.breaker.clone()).map(|(_, failing, _)| failing)
        }

        /// How long a question must wait, and why.
        fn gate(&mut self, now: TimestampMs) -> Option<(Duration, String)> {
            let failing =
                self.table.breakers.get_mut(&self.breaker).filter(|failing| failing.since.is_some())?;
            Some((failing.gate(now)?, failing.reason.clone()))
        }
    }

    fn at(ms: i64) -> TimestampMs {
        TimestampMs(1_700_000_000_000 + ms)
    }

    #[test]
    fn consecutive_failures_open_a_breaker_and_an_answer_between_them_resets_it() {
        let mut breaker = Tested::new(3);
        for _ in 0..3 {
            assert_eq!(breaker.failed(at(0), 1), None);
            assert_eq!(breaker.failed(at(0), 2), None);
            assert!(breaker.succeeded().is_none());
        }
        assert_eq!(breaker.gate(at(0)), None);
        breaker.failed(at(0), 1);
        // Another failure about the same entity says nothing about other entities.
        for _ in 0..9 {
            assert_eq!(breaker.failed(at(0), 2), None);
        }
        assert_eq!(breaker.failed(at(0), 3), Some(FIRST_WAIT));
        assert_eq!(breaker.gate(at(500)), Some((Duration::from_millis(1_500), "down".into())));
        // A question that was in flight.
        assert_eq!(breaker.failed(at(600), 4), None);
        assert_eq!(breaker.gate(at(1_999)), Some((Duration::from_millis(1), "down".into())));
    }

    #[test]
    fn one_probe_passes_at_a_time_and_waits_grow_to_a_minute() {
        let mut breaker = Tested::new(1);
        breaker.failed(at(0), 1);
        let mut now = at(0);
        for wait_s in [2, 4, 8, 16, 32, 60, 60] {
            let wait = Duration::from_secs(wait_s);
            assert_eq!(breaker.gate(now), Some((wait, "down".into())));
            now = now.plus(wait);
            assert_eq!(breaker.gate(now), None);
            assert!(breaker.gate(now).is_some(), "a second probe");
            assert_eq!(breaker.failed(now, 1), Some((wait * 2).min(LONGEST_WAIT)));
        }
        now = now.plus(LONGEST_WAIT);
        assert_eq!(breaker.gate(now), None);
        assert!(breaker.succeeded().is_some_and(|failing| failing.since == Some(at(0))));
        assert!(breaker.gate(now).is_none() && breaker.table.breakers.is_empty());
    }

    #[test]
    fn a_breaker_waits_no_longer_if_the_clock_is_set_back() {
        let hours = 3 * 3_600_000;
        let mut breaker = Tested::new(1);
        breaker.failed(at(hours), 1);
        assert_eq!(breaker.gate(at(0)), None);
        // A probe that was lost when the clock was set back.
        breaker.failed(at(0), 1);
        assert_eq!(breaker.gate(at(hours)), None);
        assert_eq!(breaker.gate(at(10_000)), None);
        // A pause that Slack demanded.
        let team = Entity::Team(breaker.breaker.team.clone());
        let pause = ExistenceAnswer::Paused(Duration::from_secs(17), "pause".into());
        breaker.table.note(&team, &pause, at(hours));
        assert_eq!(breaker.gate(at(10_000)), None);
        breaker.table.note(&team, &pause, at(10_000));
        assert_eq!(breaker.gate(at(10_000)).map(|(wait, _)| wait), Some(Duration::from_secs(17)));
    }

    #[test]
    fn an_entity_that_fails_alone_is_given_up_after_ten_minutes_even_if_the_clock_is_set_back() {
        let mut table = FailingTable::default();
        let team = TeamId::parse("T1").unwrap();
        let user = Entity::User(team.clone(), UserId::parse("U1").unwrap());
        for ms in [3 * 3_600_000, 0, 600_000] {
            table.note(&user, &ExistenceAnswer::Failed("down".into()), at(ms));
            table.note(&Entity::Team(team.clone()), &ExistenceAnswer::Found { reach: None }, at(ms));
        }
        assert!(matches!(table.entities[&user].alone(&user, at(600_000)), Some(Fact::Undetermined(_))));
    }

    #[test]
    fn a_lost_probe_is_followed_by_another() {
        let mut breaker = Tested::new(1);
        breaker.failed(at(0), 1);
        assert_eq!(breaker.gate(at(2_000)), None);
        assert!(breaker.gate(at(31_999)).is_some());
        assert_eq!(breaker.gate(at(32_000)), None);
    }
}
