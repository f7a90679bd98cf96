//! Values that this process read or wrote a short time ago, so that not everything reads or writes them again.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Values by key, each for a limited time.
pub struct Recent<K, V = ()> {
    age: Duration,
    most: usize,
    values: Mutex<HashMap<K, (Instant, V)>>,
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    /// No values. Each will count for this time. If there are more than `most`, all are forgotten.
    pub fn new(age: Duration, most: usize) -> Self {
        Self { age, most, values: Mutex::default() }
    }

    /// A value that was read recently.
    pub fn find(&self, key: &K) -> Option<V> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.get(key).filter(|(read_at, _)| read_at.elapsed() < self.age).map(|(_, value)| value.clone())
    }

    /// Whether there is a recent value.
    pub fn has(&self, key: &K) -> bool {
        self.find(key).is_some()
    }

    /// Keeps a value whose read began at this time, and returns it.
    pub fn keep(&self, key: K, read_at: Instant, value: V) -> V {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if values.len() >= self.most {
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
        let recent = Recent::new(Duration::from_secs(10), 3);
        recent.keep(0, Instant::now(), "a");
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert_eq!((recent.find(&0), recent.find(&1)), (Some("a"), None));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(recent.find(&0), None);
        for key in 0..=3 {
            recent.keep(key, Instant::now(), "b");
        }
        assert_eq!((recent.find(&0), recent.find(&3)), (None, Some("b")));
    }
}
