//! The existence port: workspaces, users and channels that Slack confirmed to exist, kept for five minutes.
//!
//! It is only a cache: a miss costs a request to Slack. Backends return the stored rows; the reader decides
//! by its own clock whether a row is still valid, since no backend removes rows exactly on time.

mod key;

use std::time::Duration;

use async_trait::async_trait;

use crate::clock::TimestampMs;

pub use key::CacheKey;

/// How long a confirmation is valid.
pub const TTL: Duration = Duration::from_secs(300);

/// [`TTL`] in seconds.
const TTL_S: i64 = 300;

/// The maximum clock skew between two machines. A row that is further ahead was written by a wrong clock.
const MAX_SKEW_S: i64 = 60;

/// A failed operation of the cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExistenceError {
    /// The backend did not answer in time or failed.
    #[error("the cache of the existence check is unavailable: {0}")]
    Unavailable(String),
}

/// One row: Slack confirmed a workspace, a user and a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// The second from which the row is invalid and may be removed.
    pub ttl_s: i64,
    /// The second at which Slack confirmed it; informational only.
    pub verified_at_s: Option<i64>,
}

impl Verified {
    /// A row confirmed at this time.
    pub fn at(verified_at: TimestampMs) -> Self {
        let verified_at_s = verified_at.seconds();
        Self { ttl_s: verified_at_s.saturating_add(TTL_S), verified_at_s: Some(verified_at_s) }
    }

    /// When Slack confirmed it, if the row is still valid. An expired row is invalid, even if it is not
    /// removed yet, and so is one that would stay valid for longer than any row may.
    pub fn valid_since(&self, now: TimestampMs) -> Option<TimestampMs> {
        let verified_at = TimestampMs(self.ttl_s.saturating_sub(TTL_S).saturating_mul(1000));
        let left_s = self.ttl_s.saturating_sub(now.seconds());
        (1..=TTL_S + MAX_SKEW_S).contains(&left_s).then_some(verified_at.min(now))
    }
}

/// A cache of confirmations. Every method can be retried safely; the last write of a key wins.
#[async_trait]
pub trait Existence: Send + Sync + 'static {
    /// Returns the rows of these keys, in the order of the keys, including expired rows that are not removed
    /// yet. A backend may omit rows that it cannot read at once.
    async fn look_up(&self, keys: &[CacheKey]) -> Result<Vec<Option<Verified>>, ExistenceError>;

    /// Stores rows and replaces those with the same key. A backend under load may store only some.
    async fn remember(&self, rows: &[(CacheKey, Verified)]) -> Result<(), ExistenceError>;

    /// Checks whether the cache can accept a row now.
    async fn ready(&self) -> Result<(), ExistenceError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_valid_for_five_minutes_and_not_a_second_longer() {
        let start = TimestampMs(1_700_000_000_500);
        let row = Verified::at(start);
        assert_eq!(row, Verified { ttl_s: 1_700_000_300, verified_at_s: Some(1_700_000_000) });
        let after = |ms| row.valid_since(TimestampMs(start.0 + ms)).is_some();
        assert!(after(0) && after(299_499));
        assert!(!after(299_500) && !after(1_000_000));
    }

    #[test]
    fn a_clock_that_is_ahead_does_not_make_a_row_valid_forever() {
        let now = TimestampMs(1_700_000_000_000);
        let row = |ttl_s| Verified { ttl_s, verified_at_s: None };
        assert_eq!(row(1_700_000_330).valid_since(now), Some(now));
        for ttl_s in [1_700_000_361, 4_000_000_000, i64::MAX, 0, i64::MIN] {
            assert_eq!(row(ttl_s).valid_since(now), None, "{ttl_s}");
        }
    }
}
