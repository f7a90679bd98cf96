//! When the next attempt to open a connection is due: exponential, with jitter.

use std::time::Duration;

/// The first wait, doubled by each failure.
const FIRST: Duration = Duration::from_secs(1);

/// The longest wait that grows by itself: events wait no longer than that once Slack is there again.
const LONGEST: Duration = Duration::from_secs(60);

/// The longest pause of Slack that is obeyed as it is.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// Failures in a row.
#[derive(Debug, Default)]
pub(super) struct ConnectBackoff {
    failures: u32,
}

impl ConnectBackoff {
    /// The wait before the next attempt, in addition to `at_least`: connections that Slack refuses together do not
    /// return together. `jitter` is between 0 and 1; it spreads the waits over their second half.
    pub(super) fn next(&mut self, at_least: Duration, jitter: f64) -> Duration {
        let longest = FIRST.saturating_mul(1 << self.failures.min(6)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let wait = longest.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
        at_least.min(LONGEST_PAUSE) + wait
    }

    /// A connection was ready for a while.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_minute_and_obey_slacks_pause() {
        let mut backoff = ConnectBackoff::default();
        let waits: Vec<u64> = (0..8).map(|_| backoff.next(Duration::ZERO, 1.0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.next(Duration::from_secs(90), 1.0).as_secs(), 150);
        assert_eq!(backoff.next(Duration::MAX, 0.0), LONGEST_PAUSE + LONGEST / 2);
        backoff.reset();
        assert_eq!(backoff.next(Duration::ZERO, 0.0).as_millis(), 500);
        assert!((0..200).all(|_| backoff.next(Duration::ZERO, 0.7) <= LONGEST));
    }
}
