//! Values that were read a short time ago, so that not every request reads them again.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Maximum number of values: of people, more than read in a minute. If there are more, all are read again.
const MAX_VALUES: usize = 10_000;

/// Values by key, each for a limited time.
pub(super) struct Recent<K, V> {
    age: Duration,
    values: Mutex<BTreeMap<K, (Instant, V)>>,
}

impl<K: Ord, V: Clone> Recent<K, V> {
    /// No values. Each will count for this time.
    pub(super) fn new(age: Duration) -> Self {
        Self { age, values: Mutex::default() }
    }

    /// A value that was read recently.
    pub(super) fn find(&self, key: &K) -> Option<V> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.get(key).filter(|(read_at, _)| read_at.elapsed() < self.age).map(|(_, value)| value.clone())
    }

    /// Keeps a value whose read began at this time, and returns it.
    pub(super) fn keep(&self, key: K, read_at: Instant, value: V) -> V {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if values.len() >= MAX_VALUES {
            values.clear();
        }
        values.insert(key, (read_at, value.clone()));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses virtual time.
    #[tokio::test(start_paused = true)]
    async fn a_value_counts_for_a_time_and_their_number_is_limited() {
        let recent = Recent::new(Duration::from_secs(10));
        recent.keep(0, Instant::now(), "a");
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert_eq!((recent.find(&0), recent.find(&1)), (Some("a"), None));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(recent.find(&0), None);
        for key in 0..=MAX_VALUES {
            recent.keep(key, Instant::now(), "b");
        }
        assert_eq!((recent.find(&0), recent.find(&MAX_VALUES)), (None, Some("b")));
    }
}
