//! Failures of Slack: one table of what is waiting, until when, and why.
//!
//! * A workspace waits while Slack refuses its token; a method of a workspace waits while the app lacks its
//!   scope, or after consecutive failures about different entities. Each is a circuit breaker: it lets one
//!   question through at a time, with growing waits in between. Their events wait aside.
//! * An entity on which Slack fails waits too, with growing waits: its events are tried some times, and then
//!   wait aside.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::gauge;
use ports::clock::{SharedClock, TimestampMs};
use ports::metrics::EXISTENCE_BREAKERS;
use ports::queue::waiting::WaitCause;
use slack::ids::TeamId;
use slack_api::Method;

use crate::admission::entities::Demand;
use crate::admission::entities::Entity;
use crate::admission::evaluate::Fact;

/// The wait when a breaker opens; it doubles with each probe that fails.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// The wait after the first failure about an entity; it doubles with each.
const FIRST_WAIT_ALONE: Duration = Duration::from_secs(1);

/// The longest wait: the maximum delay after an outage is over.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A probe without an answer after this time counts as lost. No call takes longer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of different entities with consecutive failures that opens a method's breaker: one lost connection
/// does not.
const FAILURES: usize = 3;

/// Maximum number of scopes, some 1 MB. The one that failed least recently is forgotten.
const MAX_SCOPES: usize = 1_000;

/// What Slack fails on: a workspace or one of its methods, which have a circuit breaker, or one entity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Scope {
    team: TeamId,
    method: Option<Method>,
    entity: Option<Entity>,
}

impl Scope {
    /// The breakers of an entity's workspace and of its method.
    fn breakers(entity: &Entity) -> [Self; 2] {
        [None, Some(entity.method())].map(|method| Self { team: entity.team().clone(), method, entity: None })
    }

    fn alone(entity: &Entity) -> Self {
        Self { team: entity.team().clone(), method: Some(entity.method()), entity: Some(entity.clone()) }
    }
}

/// The state of repeated failures, and until when no question is asked because of them.
#[derive(Debug, Clone)]
struct Failing {
    cause: WaitCause,
    /// When a breaker opened.
    since: Option<TimestampMs>,
    until: TimestampMs,
    reason: String,
    /// When `until` was set.
    last: TimestampMs,
    wait: Duration,
    /// The entities that questions behind a breaker failed on since the last answer.
    about: BTreeSet<Entity>,
    probing_since: Option<TimestampMs>,
}

impl Failing {
    fn new(cause: WaitCause) -> Self {
        Self {
            cause,
            since: None,
            until: TimestampMs::default(),
            reason: String::new(),
            last: TimestampMs::default(),
            wait: Duration::ZERO,
            about: BTreeSet::new(),
            probing_since: None,
        }
    }

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

    fn blocked(&self) -> Fact {
        Fact::Blocked { cause: self.cause, why: self.reason.clone() }
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

    /// Whether a job was sent back after the last failure: it is the question whether the failure has ended.
    fn is_tried_by(&self, demand: &Demand) -> bool {
        demand.replayed && demand.sent_at > self.last
    }
}

/// Whether Slack may be asked about an entity.
pub(in crate::admission) enum Gate {
    /// It may.
    Open,
    /// It may, as a probe, unless something else is one: then this is the fact.
    Probe(Fact),
    /// It must not; this is the fact.
    Closed(Fact),
}

/// A breaker that changed, its state after or before the change, and whether it is open now.
type BreakerChange = (Scope, Failing, bool);

/// The breakers and the failing entities.
#[derive(Default)]
struct FailingTable(HashMap<Scope, Failing>);

impl FailingTable {
    /// Records the answer to a question.
    fn note(&mut self, entity: &Entity, answer: &Fact, now: TimestampMs) -> Vec<BreakerChange> {
        let [of_team, of_method] = Scope::breakers(entity);
        match answer {
            Fact::Found { .. } | Fact::Missing(_) => [Scope::alone(entity), of_team, of_method]
                .into_iter()
                .filter_map(|scope| self.close(scope))
                .collect(),
            // A pause is an answer, but neither a failure nor the end of one.
            Fact::Later { after: pause, .. } => {
                for breaker in [of_team, of_method] {
                    if let Some(failing) = self.0.get_mut(&breaker) {
                        failing.until = now.plus(failing.remaining(now).max(*pause));
                        failing.last = now;
                        failing.probing_since = None;
                    }
                }
                Vec::new()
            }
            // No call is needed to know it.
            Fact::Blocked { cause: WaitCause::NoToken, .. } | Fact::Undetermined(_) => Vec::new(),
            Fact::Blocked { cause: cause @ WaitCause::Scope, why } => {
                let closed = self.close(of_team).into_iter();
                closed.chain(self.fail((of_method, *cause), entity, 1, why, now)).collect()
            }
            Fact::Blocked { cause, why } => {
                self.fail((of_team, *cause), entity, 1, why, now).into_iter().collect()
            }
            Fact::Failed { why, .. } => {
                let alone = self.failing(&Scope::alone(entity), WaitCause::Slack);
                alone.wait_longer(now, why, FIRST_WAIT_ALONE);
                self.fail((of_method, WaitCause::Slack), entity, FAILURES, why, now).into_iter().collect()
            }
        }
    }

    /// Forgets failures; returns the breaker if they had opened one.
    fn close(&mut self, scope: Scope) -> Option<BreakerChange> {
        let failing = self.0.remove(&scope)?;
        failing.since.is_some().then_some((scope, failing, false))
    }

    fn failing(&mut self, scope: &Scope, cause: WaitCause) -> &mut Failing {
        if self.0.len() >= MAX_SCOPES
            && !self.0.contains_key(scope)
            && let Some(oldest) =
                self.0.iter().min_by_key(|(_, failing)| failing.last).map(|(scope, _)| scope.clone())
        {
            self.0.remove(&oldest);
        }
        self.0.entry(scope.clone()).or_insert_with(|| Failing::new(cause))
    }

    /// Records a failed question behind a breaker; consecutive failures about `threshold` different entities
    /// open it.
    fn fail(
        &mut self,
        (breaker, cause): (Scope, WaitCause),
        about: &Entity,
        threshold: usize,
        reason: &str,
        now: TimestampMs,
    ) -> Option<BreakerChange> {
        let failing = self.failing(&breaker, cause);
        if failing.about.len() < threshold {
            failing.about.insert(about.clone());
        }
        if failing.since.is_none() && failing.about.len() < threshold {
            failing.last = now;
            return None;
        }
        // Questions that were in flight when it opened do not extend the wait.
        if failing.since.is_some() && failing.probing_since.is_none() {
            return None;
        }
        failing.cause = cause;
        failing.since.get_or_insert(now);
        failing.wait_longer(now, reason, FIRST_WAIT);
        Some((breaker, failing.clone(), true))
    }

    fn open_breakers(&mut self, entity: &Entity) -> Vec<&mut Failing> {
        let breakers = Scope::breakers(entity);
        let open =
            |(scope, failing): &(&Scope, &mut Failing)| failing.since.is_some() && breakers.contains(scope);
        self.0.iter_mut().filter(open).map(|(_, failing)| failing).collect()
    }
}

/// The table and its reports: a log line when a breaker opens and one when it closes.
pub(in crate::admission) struct Failures {
    clock: SharedClock,
    table: Mutex<FailingTable>,
}

impl Failures {
    pub(in crate::admission) fn new(clock: SharedClock) -> Self {
        Self { clock, table: Mutex::default() }
    }

    /// Whether Slack may be asked about this entity now. A job that was sent back after the last failure always
    /// asks.
    pub(in crate::admission) fn gate(&self, entity: &Entity, demand: &Demand) -> Gate {
        let now = self.clock.now();
        let mut table = self.table();
        let mut gate = Gate::Open;
        for failing in table.open_breakers(entity) {
            if failing.is_tried_by(demand) {
                failing.probing_since = Some(now);
            } else if failing.gate(now).is_some() {
                return Gate::Closed(failing.blocked());
            } else {
                gate = Gate::Probe(failing.blocked());
            }
        }
        match table.0.get(&Scope::alone(entity)) {
            Some(failing) if !failing.remaining(now).is_zero() && !failing.is_tried_by(demand) => {
                Gate::Closed(failed(failing, now))
            }
            Some(_) | None => gate,
        }
    }

    /// Whether the last question about this entity, or one behind a breaker of it, failed.
    pub(in crate::admission) fn has_failed(&self, entity: &Entity) -> bool {
        let [of_team, of_method] = Scope::breakers(entity);
        let table = self.table();
        [of_team, of_method, Scope::alone(entity)].iter().any(|scope| table.0.contains_key(scope))
    }

    /// The same check for a question that has waited for its permit.
    pub(in crate::admission) fn still_blocked(&self, entity: &Entity, demand: &Demand) -> Option<Fact> {
        let mut table = self.table();
        let mut open = table.open_breakers(entity).into_iter();
        open.find(|failing| !failing.is_tried_by(demand)).map(|failing| failing.blocked())
    }

    /// The current result of failures about this entity.
    pub(in crate::admission) fn entity_failure(&self, entity: &Entity) -> Option<Fact> {
        Some(failed(self.table().0.get(&Scope::alone(entity))?, self.clock.now()))
    }

    /// Records the answer to a question.
    pub(in crate::admission) fn note(&self, entity: &Entity, answer: &Fact) {
        let mut table = self.table();
        let changes = table.note(entity, answer, self.clock.now());
        let open = table.0.values().filter(|failing| failing.since.is_some()).count();
        drop(table);
        gauge!(EXISTENCE_BREAKERS).set(f64::from(u32::try_from(open).unwrap_or(u32::MAX)));
        for (Scope { team, method, .. }, failing, is_open) in changes {
            let (method, reason) = (method.map(Method::name), &failing.reason);
            if !is_open {
                let seconds = failing.since.map(|since| self.clock.now().since(since).as_secs());
                tracing::info!(%team, method, seconds, "Slack answers the existence check again");
            } else if failing.wait == FIRST_WAIT {
                tracing::warn!(%team, method, reason, "the existence check cannot ask Slack: events wait aside until it answers");
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, FailingTable> {
        // Each change leaves a valid table.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(failing: &Failing, now: TimestampMs) -> Fact {
    Fact::Failed { after: failing.remaining(now).max(FIRST_WAIT_ALONE), why: failing.reason.clone() }
}

#[cfg(test)]
mod tests {
    use slack::ids::UserId;

    use super::*;

    /// A breaker that opens after failures about this number of entities.
    struct Tested {
        table: FailingTable,
        breaker: Scope,
        threshold: usize,
    }

    impl Tested {
        fn new(threshold: usize) -> Self {
            let breaker = Scope { team: TeamId::parse("T1").unwrap(), method: None, entity: None };
            Self { table: FailingTable::default(), breaker, threshold }
        }

        /// The wait from then on, if this failure changes it.
        fn failed(&mut self, now: TimestampMs, user: usize) -> Option<Duration> {
            let user = Entity::User(self.breaker.team.clone(), UserId::parse(&format!("U{user}")).unwrap());
            let breaker = (self.breaker.clone(), WaitCause::Slack);
            let change = self.table.fail(breaker, &user, self.threshold, "down", now);
            change.map(|(_, failing, _)| failing.wait)
        }

        fn succeeded(&mut self) -> Option<Failing> {
            self.table.close(self.breaker.clone()).map(|(_, failing, _)| failing)
        }

        /// How long a question must wait, and why.
        fn gate(&mut self, now: TimestampMs) -> Option<(Duration, String)> {
            let failing = self.table.0.get_mut(&self.breaker).filter(|failing| failing.since.is_some())?;
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
        assert!(breaker.gate(now).is_none() && breaker.table.0.is_empty());
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
        let pause = Fact::Later { after: Duration::from_secs(17), why: "pause".into() };
        breaker.table.note(&team, &pause, at(hours));
        assert_eq!(breaker.gate(at(10_000)), None);
        breaker.table.note(&team, &pause, at(10_000));
        assert_eq!(breaker.gate(at(10_000)).map(|(wait, _)| wait), Some(Duration::from_secs(17)));
    }

    #[test]
    fn another_method_that_answers_closes_no_breaker() {
        let mut table = FailingTable::default();
        let team = TeamId::parse("T1").unwrap();
        let user = |number: usize| Entity::User(team.clone(), UserId::parse(&format!("U{number}")).unwrap());
        let found = Fact::Found { reach: None };
        for number in 1..=FAILURES {
            table.note(&user(number), &Fact::Failed { after: Duration::ZERO, why: "down".into() }, at(0));
            table.note(&Entity::Team(team.clone()), &found, at(0));
        }
        assert_eq!(table.open_breakers(&user(9)).len(), 1);
        assert!(table.open_breakers(&Entity::Team(team.clone())).is_empty());
        table.note(&user(1), &found, at(0));
        assert!(table.open_breakers(&user(9)).is_empty());
    }

    #[test]
    fn the_waits_of_an_entity_grow_and_the_oldest_failure_is_forgotten_at_the_limit() {
        let mut table = FailingTable::default();
        let team = TeamId::parse("T1").unwrap();
        let user = |number: i64| Entity::User(team.clone(), UserId::parse(&format!("U{number}")).unwrap());
        let failed = Fact::Failed { after: Duration::ZERO, why: "down".into() };
        for wait_s in [1, 2, 4, 8, 16, 32, 60, 60] {
            table.note(&user(0), &failed, at(0));
            assert_eq!(table.0[&Scope::alone(&user(0))].wait, Duration::from_secs(wait_s));
        }
        for number in 1..=2_000 {
            table.note(&user(number), &failed, at(number));
        }
        assert_eq!(table.0.len(), MAX_SCOPES);
        let is_known = |number| table.0.contains_key(&Scope::alone(&user(number)));
        assert!(!is_known(1_000) && is_known(1_002) && is_known(2_000));
        // A breaker that counts failures is not the oldest.
        let other = TeamId::parse("T2").unwrap();
        let user = |number: usize| Entity::User(other.clone(), UserId::parse(&format!("U{number}")).unwrap());
        for number in 1..=FAILURES {
            assert!(table.open_breakers(&user(0)).is_empty());
            table.note(&user(number), &failed, at(3_000));
        }
        assert_eq!(table.open_breakers(&user(0)).len(), 1);
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
