//! Lines that any client can cause are logged at a limited rate: a log is bounded too.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ports::clock::TimestampMs;

/// At most one line of a kind in this time; the rest is in the metrics.
const PERIOD_MS: i64 = 10_000;

/// The same, for conditions that last as long as a clock or a secret is wrong.
const LONG_PERIOD_MS: i64 = 60_000;

/// Lets one line through per period.
#[derive(Debug)]
pub struct LogThrottle {
    period_ms: i64,
    next_ms: AtomicI64,
    left_out: AtomicU64,
}

impl Default for LogThrottle {
    fn default() -> Self {
        Self::new()
    }
}

impl LogThrottle {
    /// A line in ten seconds; nothing was logged yet.
    pub fn new() -> Self {
        Self::every(PERIOD_MS)
    }

    /// A line in a minute; nothing was logged yet.
    pub fn once_a_minute() -> Self {
        Self::every(LONG_PERIOD_MS)
    }

    fn every(period_ms: i64) -> Self {
        Self { period_ms, next_ms: AtomicI64::new(i64::MIN), left_out: AtomicU64::new(0) }
    }

    /// Whether a line may be logged now: how many were left out since the last one.
    pub fn pass(&self, now: TimestampMs) -> Option<u64> {
        let next_ms = self.next_ms.load(Ordering::Relaxed);
        let due = now.0 >= next_ms;
        let until_ms = now.0.saturating_add(self.period_ms);
        // Of several at once only the one that moves the time logs.
        if due
            && self.next_ms.compare_exchange(next_ms, until_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_passes_per_period_and_says_how_many_did_not() {
        let throttle = LogThrottle::new();
        assert_eq!(throttle.pass(TimestampMs(0)), Some(0));
        assert_eq!(throttle.pass(TimestampMs(1)), None);
        assert_eq!(throttle.pass(TimestampMs(PERIOD_MS - 1)), None);
        assert_eq!(throttle.pass(TimestampMs(PERIOD_MS)), Some(2));
        assert_eq!(throttle.pass(TimestampMs(PERIOD_MS + 1)), None);
        let throttle = LogThrottle::once_a_minute();
        assert_eq!([0, 59_999, 60_000].map(|ms| throttle.pass(TimestampMs(ms))), [Some(0), None, Some(1)]);
    }
}
