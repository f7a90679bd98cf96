//! What Slack fails on: one table of what waits, until when, and why.
//!
//! * A workspace waits after failures about different entities of it in a row, for they are Slack's or the token's; a method of
//!   it, once the app lacks its scope. Each is a circuit breaker: it lets one question through at a time, after waits that grow.
//! * An entity on which Slack fails while it answers about others waits alone, and its events are quarantined in the end.

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
use super::waiting;
use crate::existence::cache::Demand;
use crate::existence::entities::Entity;
use crate::existence::evaluate::Fact;

/// The wait when a breaker opens; it doubles with each probe that fails.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// The wait after the first failure about an entity; it doubles with each.
const FIRST_WAIT_ALONE: Duration = Duration::from_secs(1);

/// The longest wait: what an outage costs at most after it is over.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A probe without an answer after this time counts as lost. A call takes no longer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// Things that Slack fails on in a row, which open a workspace's breaker: one lost connection does not.
const FAILURES: usize = 3;

/// How long Slack may fail on one thing while it answers about others, before an event that names that thing is quarantined.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(600);

/// An entity that has not failed for so long starts anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);

/// Breakers there may be, and entities that are remembered. Without a breaker, whatever fails is asked again every second;
/// further entities count as failures of Slack.
const MAX_FAILING: usize = 1_000;

/// What waits together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Breaker {
    pub(super) team: TeamId,
    pub(super) method: Option<Method>,
}

impl Breaker {
    /// The workspace's, and the method's of it.
    fn of(entity: &Entity) -> [Self; 2] {
        [None, Some(entity.method())].map(|method| Self { team: entity.team().clone(), method })
    }
}

/// How something has failed, and until when it is left alone for it.
#[derive(Debug, Clone, Default)]
pub(super) struct Failing {
    /// Of a breaker: since when it is open. Of an entity: since when Slack, which fails on it, has answered about others.
    pub(super) since: Option<TimestampMs>,
    pub(super) until: TimestampMs,
    pub(super) reason: String,
    last: TimestampMs,
    wait: Duration,
    /// What questions behind a breaker failed about since the last answer.
    about: BTreeSet<Entity>,
    probing_since: Option<TimestampMs>,
}

impl Failing {
    /// It failed once more: the wait grows.
    fn wait_longer(&mut self, now: TimestampMs, reason: &str, first_wait: Duration) {
        self.wait = (self.wait * 2).clamp(first_wait, LONGEST_WAIT);
        (self.last, self.until) = (now, now.plus(self.wait));
        reason.clone_into(&mut self.reason);
        self.probing_since = None;
    }

    fn later(&self, after: Duration, not_allowed: bool) -> Fact {
        Fact::Later { after, why: self.reason.clone(), not_allowed }
    }

    /// How long a question behind an open breaker must wait; `None` if it may be asked now, and then says what came of it.
    fn gate(&mut self, now: TimestampMs) -> Option<Duration> {
        if now < self.until {
            return Some(self.until.since(now));
        }
        if self.probing_since.is_some_and(|since| now.since(since) < PROBE_TIMEOUT) {
            return Some(FIRST_WAIT);
        }
        self.probing_since = Some(now);
        None
    }

    /// What failures about an entity alone amount to, if Slack is well otherwise.
    fn alone(&self, entity: &Entity, now: TimestampMs) -> Option<Fact> {
        let since = self.since?;
        // Without its workspace no event of it could be stored: that is never given up.
        let given_up = !matches!(entity, Entity::Team(_)) && now.since(since) >= GIVEN_UP_AFTER;
        Some(if given_up {
            Fact::Unsaid(format!("{}, for ten minutes in which it answered about others", self.reason))
        } else {
            self.later(self.until.since(now).max(FIRST_WAIT_ALONE), false)
        })
    }
}

/// A breaker that changed, how it is or was, and whether it is open now.
type BreakerChange = (Breaker, Failing, bool);

/// What fails.
#[derive(Default)]
struct FailingTable {
    breakers: HashMap<Breaker, Failing>,
    entities: HashMap<Entity, Failing>,
}

impl FailingTable {
    /// Takes in what came of a question.
    fn note(&mut self, entity: &Entity, answer: &ExistenceAnswer, now: TimestampMs) -> Vec<BreakerChange> {
        let [of_team, of_method] = Breaker::of(entity);
        match answer {
            ExistenceAnswer::Found { .. } | ExistenceAnswer::Missing(_) => {
                self.entities.remove(entity);
                for other in self.entities_of(entity.team()) {
                    other.since.get_or_insert(now);
                }
                self.close(of_team).into_iter().chain(self.close(of_method)).collect()
            }
            // That is an answer, and neither a failure nor the end of one.
            ExistenceAnswer::Paused(pause, _) => {
                for breaker in [of_team, of_method] {
                    if let Some(failing) = self.breakers.get_mut(&breaker) {
                        failing.until = failing.until.max(now.plus(*pause));
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

    /// A question behind a breaker failed; failures in a row about this number of different things open it.
    fn fail(
        &mut self,
        breaker: Breaker,
        about: &Entity,
        most: usize,
        reason: &str,
        now: TimestampMs,
    ) -> Option<BreakerChange> {
        if self.breakers.len() >= MAX_FAILING && !self.breakers.contains_key(&breaker) {
            return None;
        }
        let failing = self.breakers.entry(breaker.clone()).or_default();
        if failing.about.len() < most {
            failing.about.insert(about.clone());
        }
        // Of those that were on their way when it opened, each would make it wait for longer.
        let is_open = failing.since.is_some();
        if if is_open { failing.probing_since.is_none() } else { failing.about.len() < most } {
            return None;
        }
        failing.since.get_or_insert(now);
        failing.wait_longer(now, reason, FIRST_WAIT);
        let failing = failing.clone();
        if !is_open && breaker.method.is_none() {
            // Slack fails on different things: it is not well at all.
            self.entities_of(&breaker.team).for_each(|entity| entity.since = None);
        }
        Some((breaker, failing, true))
    }

    /// Slack failed on something; says whether it is well otherwise.
    fn fails_alone(&mut self, entity: &Entity, reason: &str, now: TimestampMs) -> bool {
        self.entities.retain(|_, failing| now < failing.last.plus(FORGOTTEN_AFTER));
        if self.entities.len() >= MAX_FAILING && !self.entities.contains_key(entity) {
            return false;
        }
        let failing = self.entities.entry(entity.clone()).or_default();
        failing.wait_longer(now, reason, FIRST_WAIT_ALONE);
        failing.since.is_some()
    }

    /// What an open breaker of an entity makes of a question about it, given how long it must wait.
    fn behind(&mut self, entity: &Entity, wait: impl Fn(&mut Failing) -> Option<Duration>) -> Option<Fact> {
        Breaker::of(entity).into_iter().find_map(|breaker| {
            let failing = self.breakers.get_mut(&breaker).filter(|failing| failing.since.is_some())?;
            let after = wait(failing)?;
            Some(failing.later(after, breaker.method.is_some()))
        })
    }

    fn entities_of<'t>(&'t mut self, team: &'t TeamId) -> impl Iterator<Item = &'t mut Failing> {
        self.entities.iter_mut().filter(move |(entity, _)| entity.team() == team).map(|(_, failing)| failing)
    }
}

/// The table, and what is told of it: a line when a breaker opens and one when it closes, and a row between them, since
/// `annalist status` is another process.
pub(in crate::existence) struct Failures {
    archive: Arc<dyn Archive>,
    clock: SharedClock,
    table: Mutex<FailingTable>,
}

impl Failures {
    pub(in crate::existence) fn new(archive: Arc<dyn Archive>, clock: SharedClock) -> Self {
        Self { archive, clock, table: Mutex::default() }
    }

    /// Why Slack may not be asked about this now, if it may not.
    pub(in crate::existence) fn shut(&self, entity: &Entity, demand: &Demand) -> Option<Fact> {
        let now = self.clock.now();
        let mut table = self.table();
        // What Slack fails on alone is no probe of how Slack is.
        if let Some(failing) = table.entities.get(entity).filter(|failing| failing.since.is_some()) {
            let waits = now < failing.until && now >= failing.last;
            // A job that was replayed since the last failure has it asked about.
            let asked_afresh = demand.replayed && demand.sent_at > failing.last;
            return failing.alone(entity, now).filter(|_| waits && !asked_afresh);
        }
        table.behind(entity, |failing| failing.gate(now))
    }

    /// The same, for a question that has waited for its turn.
    pub(in crate::existence) fn waits(&self, entity: &Entity) -> Option<Fact> {
        let now = self.clock.now();
        self.table().behind(entity, |failing| Some(failing.until.since(now).max(FIRST_WAIT)))
    }

    /// What failures about something alone amount to by now.
    pub(in crate::existence) fn stuck(&self, entity: &Entity) -> Option<Fact> {
        self.table().entities.get(entity)?.alone(entity, self.clock.now())
    }

    /// What came of asking.
    pub(in crate::existence) async fn note(&self, entity: &Entity, answer: &ExistenceAnswer) {
        for turn in self.turns(entity, answer) {
            self.tell(turn).await;
        }
    }

    fn turns(&self, entity: &Entity, answer: &ExistenceAnswer) -> Vec<BreakerChange> {
        let mut table = self.table();
        let turns = table.note(entity, answer, self.clock.now());
        let open = table.breakers.values().filter(|failing| failing.since.is_some()).count();
        gauge!(EXISTENCE_BREAKERS).set(f64::from(u32::try_from(open).unwrap_or(u32::MAX)));
        turns
    }

    async fn tell(&self, (breaker, failing, is_open): BreakerChange) {
        let (team, method, reason) = (&breaker.team, breaker.method.map(Method::name), &failing.reason);
        let told = if is_open {
            if failing.wait == FIRST_WAIT {
                tracing::warn!(%team, method, reason, "the existence check waits: events stay on the queue until Slack answers");
            }
            waiting::write(&*self.archive, &breaker, &failing).await
        } else {
            let seconds = failing.since.map(|since| self.clock.now().since(since).as_secs());
            tracing::info!(%team, method, seconds, "Slack answers the existence check again");
            waiting::remove(&*self.archive, &breaker).await
        };
        if let Err(error) = told {
            tracing::warn!(%team, %error, "failed to store the existence-check state; `annalist status` may be out of date");
        }
    }

    fn table(&self) -> MutexGuard<'_, FailingTable> {
        // Each change leaves every failure whole.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use slack::ids::UserId;

    use super::*;

    /// A breaker that opens after failures about this number of things.
    struct Tested {
        table: FailingTable,
        breaker: Breaker,
        most: usize,
    }

    impl Tested {
        fn new(most: usize) -> Self {
            let breaker = Breaker { team: TeamId::parse("T1").unwrap(), method: None };
            Self { table: FailingTable::default(), breaker, most }
        }

        /// How long it waits from then on, if this changes it.
        fn failed(&mut self, now: TimestampMs, user: usize) -> Option<Duration> {
            let user = Entity::User(self.breaker.team.clone(), UserId::parse(&format!("U{user}")).unwrap());
            let turn = self.table.fail(self.breaker.clone(), &user, self.most, "down", now);
            turn.map(|(_, failing, _)| failing.wait)
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
    fn failures_in_a_row_open_it_and_an_answer_between_them_does_not() {
        let mut breaker = Tested::new(3);
        for _ in 0..3 {
            assert_eq!(breaker.failed(at(0), 1), None);
            assert_eq!(breaker.failed(at(0), 2), None);
            assert!(breaker.succeeded().is_none());
        }
        assert_eq!(breaker.gate(at(0)), None);
        breaker.failed(at(0), 1);
        // The same one again says nothing of the others.
        for _ in 0..9 {
            assert_eq!(breaker.failed(at(0), 2), None);
        }
        assert_eq!(breaker.failed(at(0), 3), Some(FIRST_WAIT));
        assert_eq!(breaker.gate(at(500)), Some((Duration::from_millis(1_500), "down".into())));
        // Those that were on their way.
        assert_eq!(breaker.failed(at(600), 4), None);
        assert_eq!(breaker.gate(at(1_999)), Some((Duration::from_millis(1), "down".into())));
    }

    #[test]
    fn one_probe_goes_through_at_a_time_and_waits_grow_to_a_minute() {
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
    fn a_lost_probe_is_followed_by_another() {
        let mut breaker = Tested::new(1);
        breaker.failed(at(0), 1);
        assert_eq!(breaker.gate(at(2_000)), None);
        assert!(breaker.gate(at(31_999)).is_some());
        assert_eq!(breaker.gate(at(32_000)), None);
    }
}
