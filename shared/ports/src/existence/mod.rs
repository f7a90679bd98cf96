//! The existence port: who and what Slack confirmed to exist, kept for five minutes.
//!
//! A cache and nothing more: whatever it cannot say costs a question to Slack. Backends return what they hold; whether a
//! row still counts is for the reader to say, by its own clock, since no backend removes rows on the second.

mod key;

use std::time::Duration;

use async_trait::async_trait;

use crate::clock::TimestampMs;

pub use key::CacheKey;

/// How long a confirmation counts.
pub const TTL: Duration = Duration::from_secs(300);

/// [`TTL`] as rows have it.
const TTL_S: i64 = 300;

/// How far the clocks of two machines may differ. A row that claims more was not made by a valid clock.
const MAX_SKEW_S: i64 = 60;

/// What the cache could not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExistenceError {
    /// The backend did not answer in time or failed.
    #[error("the cache of the existence check is unavailable: {0}")]
    Unavailable(String),
}

/// One row: that Slack confirmed a workspace, a person and a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// The second from which on the row does not count, and may be removed.
    pub ttl_s: i64,
    /// The second at which Slack was asked; for people, and not needed.
    pub verified_at_s: Option<i64>,
}

impl Verified {
    /// What was confirmed at this time.
    pub fn at(verified_at: TimestampMs) -> Self {
        let verified_at_s = verified_at.seconds();
        Self { ttl_s: verified_at_s.saturating_add(TTL_S), verified_at_s: Some(verified_at_s) }
    }

    /// When Slack was asked, where the row still counts: an expired row never does, removed or not, and neither does one
    /// that would count for longer than any row may.
    pub fn counts_since(&self, now: TimestampMs) -> Option<TimestampMs> {
        let verified_at = TimestampMs(self.ttl_s.saturating_sub(TTL_S).saturating_mul(1000));
        let left_s = self.ttl_s.saturating_sub(now.seconds());
        (1..=TTL_S + MAX_SKEW_S).contains(&left_s).then_some(verified_at.min(now))
    }
}

/// A cache of confirmations. Every method may be repeated without harm; the last write of a key wins.
#[async_trait]
pub trait Existence: Send + Sync + 'static {
    /// The rows of these keys, in their order, expired ones included where they are still there. A backend may leave out
    /// what it cannot read at once.
    async fn look_up(&self, keys: &[CacheKey]) -> Result<Vec<Option<Verified>>, ExistenceError>;

    /// Keeps rows; one of a key that is there already replaces it. A backend under pressure may keep only some.
    async fn remember(&self, rows: &[(CacheKey, Verified)]) -> Result<(), ExistenceError>;

    /// Whether a row could be kept now.
    async fn ready(&self) -> Result<(), ExistenceError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_counts_for_five_minutes_and_not_a_second_longer() {
        let start = TimestampMs(1_700_000_000_500);
        let row = Verified::at(start);
        assert_eq!(row, Verified { ttl_s: 1_700_000_300, verified_at_s: Some(1_700_000_000) });
        let after = |ms| row.counts_since(TimestampMs(start.0 + ms)).is_some();
        assert!(after(0) && after(299_499));
        assert!(!after(299_500) && !after(1_000_000));
    }

    #[test]
    fn a_clock_that_is_ahead_makes_no_row_count_for_ever() {
        let now = TimestampMs(1_700_000_000_000);
        let row = |ttl_s| Verified { ttl_s, verified_at_s: None };
        assert_eq!(row(1_700_000_330).counts_since(now), Some(now));
        for ttl_s in [1_700_000_361, 4_000_000_000, i64::MAX, 0, i64::MIN] {
            assert_eq!(row(ttl_s).counts_since(now), None, "{ttl_s}");
        }
    }
}
