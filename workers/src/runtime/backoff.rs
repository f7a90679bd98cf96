//! The wait before a retry.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Exponential backoff with jitter.
pub(super) struct Backoff {
    base: Duration,
    cap: Duration,
    random: Mutex<fastrand::Rng>,
}

impl Backoff {
    pub(super) fn new(base: Duration, cap: Duration, seed: u64) -> Self {
        Self { base, cap, random: Mutex::new(fastrand::Rng::with_seed(seed)) }
    }

    /// The wait before the next try after `tries` of them: between half and all of `base`, doubled with each
    /// try. A requested delay (`requested`) is used exactly, up to the cap.
    pub(super) fn wait(&self, tries: u32, requested: Option<Duration>) -> Duration {
        if let Some(requested) = requested {
            return requested.min(self.cap);
        }
        let doublings = tries.saturating_sub(1).min(20);
        let full = self.base.saturating_mul(1 << doublings).min(self.cap);
        let jitter = self.random.lock().unwrap_or_else(PoisonError::into_inner).f64();
        full.mul_f64(0.5 + jitter / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_with_jitter() {
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5), 7);
        for (tries, full_ms) in [(0, 100), (1, 100), (2, 200), (3, 400), (7, 5000), (u32::MAX, 5000)] {
            let full = Duration::from_millis(full_ms);
            for _ in 0..100 {
                let wait = backoff.wait(tries, None);
                assert!(wait >= full / 2 && wait <= full, "{tries}: {wait:?}");
            }
        }
    }

    #[test]
    fn retry_after_is_honoured_up_to_the_cap() {
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5), 7);
        assert_eq!(backoff.wait(9, Some(Duration::from_secs(3))), Duration::from_secs(3));
        assert_eq!(backoff.wait(1, Some(Duration::from_secs(3600))), Duration::from_secs(5));
    }
}
