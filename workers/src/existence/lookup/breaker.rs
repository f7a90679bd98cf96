//! A breaker: after failures about different things in a row it lets only one question through at a time, after waits that
//! grow.

use std::collections::BTreeSet;
use std::time::Duration;

use ports::clock::TimestampMs;

use crate::existence::entities::Entity;

/// The wait when it opens; it doubles with each probe that fails.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// The longest wait: what an outage costs at most after it is over.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A probe without an answer after this time counts as lost. A call takes no longer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// One breaker.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// What questions failed about since the last answer.
    failed_about: BTreeSet<Entity>,
    open: Option<Open>,
}

/// Why and until when nothing goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) since: TimestampMs,
    pub(super) until: TimestampMs,
    pub(super) reason: String,
    wait: Duration,
    probing_since: Option<TimestampMs>,
}

/// Whether a question goes through.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Permission {
    Granted,
    /// How long to wait, and why.
    Denied(Duration, String),
}

/// What changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Transition {
    /// It opened: from now on everything waits.
    Opened(Open),
    /// It stays open for longer.
    Longer(Open),
    /// It closed: everything goes through again.
    Closed(Open),
}

impl Breaker {
    /// Asks to go through. A caller that may says afterwards what came of it.
    pub(super) fn gate(&mut self, now: TimestampMs) -> Permission {
        let Some(open) = &mut self.open else { return Permission::Granted };
        if now < open.until {
            return Permission::Denied(open.until.since(now), open.reason.clone());
        }
        match open.probing_since {
            Some(since) if now.since(since) < PROBE_TIMEOUT => {
                Permission::Denied(FIRST_WAIT, open.reason.clone())
            }
            Some(_) | None => {
                open.probing_since = Some(now);
                Permission::Granted
            }
        }
    }

    /// A question about something failed; failures in a row about this number of different things open it.
    pub(super) fn failed(
        &mut self,
        now: TimestampMs,
        reason: &str,
        about: &Entity,
        most: usize,
    ) -> Option<Transition> {
        if self.failed_about.len() < most {
            self.failed_about.insert(about.clone());
        }
        match &mut self.open {
            // Of those that were on their way when it opened, each would make it wait for longer.
            Some(open) if open.probing_since.is_none() => None,
            Some(open) => {
                let wait = (open.wait * 2).min(LONGEST_WAIT);
                *open = Open {
                    since: open.since,
                    until: now.plus(wait),
                    reason: reason.to_owned(),
                    wait,
                    probing_since: None,
                };
                Some(Transition::Longer(open.clone()))
            }
            None if self.failed_about.len() >= most => {
                let open = Open {
                    since: now,
                    until: now.plus(FIRST_WAIT),
                    reason: reason.to_owned(),
                    wait: FIRST_WAIT,
                    probing_since: None,
                };
                self.open = Some(open.clone());
                Some(Transition::Opened(open))
            }
            None => None,
        }
    }

    /// Slack wants a pause: that is an answer, and neither a failure nor the end of one.
    pub(super) fn postponed(&mut self, until: TimestampMs) {
        if let Some(open) = &mut self.open {
            open.until = open.until.max(until);
            open.probing_since = None;
        }
    }

    /// Slack answered.
    pub(super) fn succeeded(&mut self) -> Option<Transition> {
        self.failed_about.clear();
        self.open.take().map(Transition::Closed)
    }

    /// Why nothing goes through now, without asking to.
    pub(super) fn waits(&self, now: TimestampMs) -> Option<(Duration, &str)> {
        let open = self.open.as_ref()?;
        Some((open.until.since(now).max(FIRST_WAIT), &open.reason))
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether there is nothing to remember of it.
    pub(super) fn is_idle(&self) -> bool {
        self.failed_about.is_empty() && self.open.is_none()
    }
}

#[cfg(test)]
mod tests {
    use slack::ids::{TeamId, UserId};

    use super::*;

    fn user(n: usize) -> Entity {
        Entity::User(TeamId::parse("T1").unwrap(), UserId::parse(&format!("U{n}")).unwrap())
    }

    fn at(ms: i64) -> TimestampMs {
        TimestampMs(1_700_000_000_000 + ms)
    }

    #[test]
    fn failures_in_a_row_open_it_and_an_answer_between_them_does_not() {
        let mut breaker = Breaker::default();
        for _ in 0..3 {
            assert_eq!(breaker.failed(at(0), "down", &user(1), 3), None);
            assert_eq!(breaker.failed(at(0), "down", &user(2), 3), None);
            assert_eq!(breaker.succeeded(), None);
        }
        assert_eq!(breaker.gate(at(0)), Permission::Granted);
        breaker.failed(at(0), "down", &user(1), 3);
        // The same one again says nothing of the others.
        for _ in 0..9 {
            assert_eq!(breaker.failed(at(0), "down", &user(2), 3), None);
        }
        assert!(matches!(breaker.failed(at(0), "down", &user(3), 3), Some(Transition::Opened(_))));
        assert_eq!(breaker.gate(at(500)), Permission::Denied(Duration::from_millis(1_500), "down".into()));
        // Those that were on their way.
        assert_eq!(breaker.failed(at(600), "down", &user(4), 3), None);
        assert_eq!(breaker.gate(at(1_999)), Permission::Denied(Duration::from_millis(1), "down".into()));
    }

    #[test]
    fn one_probe_goes_through_at_a_time_and_waits_grow_to_a_minute() {
        let mut breaker = Breaker::default();
        breaker.failed(at(0), "down", &user(1), 1);
        let mut now = at(0);
        for wait_s in [2, 4, 8, 16, 32, 60, 60] {
            let wait = Duration::from_secs(wait_s);
            assert_eq!(breaker.gate(now), Permission::Denied(wait, "down".into()));
            now = now.plus(wait);
            assert_eq!(breaker.gate(now), Permission::Granted);
            assert!(matches!(breaker.gate(now), Permission::Denied(..)), "a second probe");
            assert!(matches!(breaker.failed(now, "down", &user(1), 1), Some(Transition::Longer(_))));
        }
        now = now.plus(LONGEST_WAIT);
        assert_eq!(breaker.gate(now), Permission::Granted);
        assert!(matches!(breaker.succeeded(), Some(Transition::Closed(open)) if open.since == at(0)));
        assert_eq!((breaker.gate(now), breaker.is_open()), (Permission::Granted, false));
    }

    #[test]
    fn a_lost_probe_is_followed_by_another() {
        let mut breaker = Breaker::default();
        breaker.failed(at(0), "down", &user(1), 1);
        assert_eq!(breaker.gate(at(2_000)), Permission::Granted);
        assert!(matches!(breaker.gate(at(31_999)), Permission::Denied(..)));
        assert_eq!(breaker.gate(at(32_000)), Permission::Granted);
    }
}
