//! A breaker: after some failures in a row it lets only one question through at a time, after waits that grow.

use std::time::Duration;

use shared::clock::TimestampMs;

/// The wait when it opens; it doubles with each probe that fails.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// The longest wait: what an outage costs at most after it is over.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A probe that was not heard of for so long is taken for lost. A call takes no longer.
const PROBE_PATIENCE: Duration = Duration::from_secs(30);

/// One breaker.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
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

/// Whether something goes through.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// Not before so long, and why.
    Shut(Duration, String),
}

/// What changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It opened: from now on everything waits.
    Opened(Open),
    /// It stays open for longer.
    Longer(Open),
    /// It closed: everything goes through again.
    Closed(Open),
}

impl Breaker {
    /// Asks to go through. Whoever may, says afterwards what came of it.
    pub(super) fn gate(&mut self, now: TimestampMs) -> Gate {
        let Some(open) = &mut self.open else { return Gate::Open };
        if now < open.until {
            return Gate::Shut(open.until.since(now), open.reason.clone());
        }
        match open.probing_since {
            Some(since) if now.since(since) < PROBE_PATIENCE => Gate::Shut(FIRST_WAIT, open.reason.clone()),
            Some(_) | None => {
                open.probing_since = Some(now);
                Gate::Open
            }
        }
    }

    /// A question failed; so many failures in a row open it.
    pub(super) fn failed(&mut self, now: TimestampMs, reason: &str, most: u32) -> Option<Turn> {
        self.failures = self.failures.saturating_add(1);
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
                Some(Turn::Longer(open.clone()))
            }
            None if self.failures >= most => {
                let open = Open {
                    since: now,
                    until: now.plus(FIRST_WAIT),
                    reason: reason.to_owned(),
                    wait: FIRST_WAIT,
                    probing_since: None,
                };
                self.open = Some(open.clone());
                Some(Turn::Opened(open))
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
    pub(super) fn succeeded(&mut self) -> Option<Turn> {
        self.failures = 0;
        self.open.take().map(Turn::Closed)
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether there is nothing to remember of it.
    pub(super) fn is_idle(&self) -> bool {
        self.failures == 0 && self.open.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> TimestampMs {
        TimestampMs(1_700_000_000_000 + ms)
    }

    #[test]
    fn failures_in_a_row_open_it_and_an_answer_between_them_does_not() {
        let mut breaker = Breaker::default();
        for _ in 0..3 {
            assert_eq!(breaker.failed(at(0), "down", 3), None);
            assert_eq!(breaker.failed(at(0), "down", 3), None);
            assert_eq!(breaker.succeeded(), None);
        }
        assert_eq!(breaker.gate(at(0)), Gate::Open);
        breaker.failed(at(0), "down", 3);
        breaker.failed(at(0), "down", 3);
        assert!(matches!(breaker.failed(at(0), "down", 3), Some(Turn::Opened(_))));
        assert_eq!(breaker.gate(at(500)), Gate::Shut(Duration::from_millis(1_500), "down".into()));
        // Those that were on their way.
        assert_eq!(breaker.failed(at(600), "down", 3), None);
        assert_eq!(breaker.gate(at(1_999)), Gate::Shut(Duration::from_millis(1), "down".into()));
    }

    #[test]
    fn one_probe_goes_through_at_a_time_and_waits_grow_to_a_minute() {
        let mut breaker = Breaker::default();
        breaker.failed(at(0), "down", 1);
        let mut now = at(0);
        for wait_s in [2, 4, 8, 16, 32, 60, 60] {
            let wait = Duration::from_secs(wait_s);
            assert_eq!(breaker.gate(now), Gate::Shut(wait, "down".into()));
            now = now.plus(wait);
            assert_eq!(breaker.gate(now), Gate::Open);
            assert!(matches!(breaker.gate(now), Gate::Shut(..)), "a second probe");
            assert!(matches!(breaker.failed(now, "down", 1), Some(Turn::Longer(_))));
        }
        now = now.plus(LONGEST_WAIT);
        assert_eq!(breaker.gate(now), Gate::Open);
        assert!(matches!(breaker.succeeded(), Some(Turn::Closed(open)) if open.since == at(0)));
        assert_eq!((breaker.gate(now), breaker.is_open()), (Gate::Open, false));
    }

    #[test]
    fn a_lost_probe_is_followed_by_another() {
        let mut breaker = Breaker::default();
        breaker.failed(at(0), "down", 1);
        assert_eq!(breaker.gate(at(2_000)), Gate::Open);
        assert!(matches!(breaker.gate(at(31_999)), Gate::Shut(..)));
        assert_eq!(breaker.gate(at(32_000)), Gate::Open);
    }
}
