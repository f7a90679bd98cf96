//! Rate limiting for log lines that any client can cause, so that the log cannot grow without bound.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::clock::TimestampMs;

/// At most one line of a kind per this period; metrics count the rest.
const PERIOD_MS: i64 = 10_000;

/// The same, for conditions that last while a clock or a secret is wrong.
const LONG_PERIOD_MS: i64 = 60_000;

/// Allows one line per period.
#[derive(Debug)]
pub struct LogThrottle {
    period_ms: i64,
    next_ms: AtomicI64,
    suppressed: AtomicU64,
}

impl Default for LogThrottle {
    fn default() -> Self {
        Self::new()
    }
}

impl LogThrottle {
    /// Allows a line per ten seconds, starting now.
    pub fn new() -> Self {
        Self::every(PERIOD_MS)
    }

    /// Allows a line per minute, starting now.
    pub fn once_a_minute() -> Self {
        Self::every(LONG_PERIOD_MS)
    }

    fn every(period_ms: i64) -> Self {
        Self { period_ms, next_ms: AtomicI64::new(i64::MIN), suppressed: AtomicU64::new(0) }
    }

    /// Whether a line may be logged now; if so, returns how many were suppressed since the last one.
    pub fn permit_line(&self, now: TimestampMs) -> Option<u64> {
        let next_ms = self.next_ms.load(Ordering::Relaxed);
        let until_ms = now.0.saturating_add(self.period_ms);
        // If the next line is later than a period, the clock was set back.
        let due = now.0 >= next_ms || next_ms > until_ms;
        // Of several concurrent callers only the one that updates the time logs.
        if due
            && self.next_ms.compare_exchange(next_ms, until_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_passes_per_period_and_the_others_are_counted() {
        let throttle = LogThrottle::new();
        assert_eq!(throttle.permit_line(TimestampMs(0)), Some(0));
        assert_eq!(throttle.permit_line(TimestampMs(1)), None);
        assert_eq!(throttle.permit_line(TimestampMs(PERIOD_MS - 1)), None);
        assert_eq!(throttle.permit_line(TimestampMs(PERIOD_MS)), Some(2));
        assert_eq!(throttle.permit_line(TimestampMs(PERIOD_MS + 1)), None);
        let throttle = LogThrottle::once_a_minute();
        assert_eq!(
            [0, 59_999, 60_000].map(|ms| throttle.permit_line(TimestampMs(ms))),
            [Some(0), None, Some(1)]
        );
    }

    #[test]
    fn a_line_passes_at_once_after_the_clock_was_set_back() {
        let throttle = LogThrottle::new();
        assert_eq!(
            [3_600_000, 0, 1, PERIOD_MS].map(|ms| throttle.permit_line(TimestampMs(ms))),
            [Some(0), Some(0), None, Some(1)]
        );
    }
}
