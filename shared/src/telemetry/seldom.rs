//! Lines that anyone can cause are logged seldom: a log is bounded too.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::clock::TimestampMs;

/// At most one line of a kind in this time; the rest is in the metrics.
const PERIOD_MS: i64 = 10_000;

/// Lets a line through now and then.
#[derive(Debug)]
pub struct Seldom {
    next_ms: AtomicI64,
    left_out: AtomicU64,
}

impl Default for Seldom {
    fn default() -> Self {
        Self::new()
    }
}

impl Seldom {
    /// Nothing was logged yet.
    #[must_use]
    pub fn new() -> Self {
        Self { next_ms: AtomicI64::new(i64::MIN), left_out: AtomicU64::new(0) }
    }

    /// Whether a line may be logged now: how many were left out since the last one.
    pub fn pass(&self, now: TimestampMs) -> Option<u64> {
        let next_ms = self.next_ms.load(Ordering::Relaxed);
        let due = now.0 >= next_ms;
        let until_ms = now.0.saturating_add(PERIOD_MS);
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
        let seldom = Seldom::new();
        assert_eq!(seldom.pass(TimestampMs(0)), Some(0));
        assert_eq!(seldom.pass(TimestampMs(1)), None);
        assert_eq!(seldom.pass(TimestampMs(PERIOD_MS - 1)), None);
        assert_eq!(seldom.pass(TimestampMs(PERIOD_MS)), Some(2));
        assert_eq!(seldom.pass(TimestampMs(PERIOD_MS + 1)), None);
    }
}
