//! The existence port on one map. It never removes expired rows, so callers must check them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use ports::existence::{CacheKey, Existence, ExistenceError, Verified};

/// A cache that lives as long as the process.
#[derive(Debug, Default)]
pub struct MemoryExistence {
    rows: Mutex<BTreeMap<CacheKey, Verified>>,
    looked_up: AtomicUsize,
    fails: AtomicBool,
}

impl MemoryExistence {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    pub fn rows(&self) -> BTreeMap<CacheKey, Verified> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of lookups.
    pub fn looked_up(&self) -> usize {
        self.looked_up.load(Ordering::SeqCst)
    }

    /// Makes every call fail, or work again.
    pub fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    fn answer(&self) -> Result<(), ExistenceError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(ExistenceError::Unavailable("the test makes it fail".into()));
        }
        Ok(())
    }
}

#[async_trait]
impl Existence for MemoryExistence {
    async fn look_up(&self, keys: &[CacheKey]) -> Result<Vec<Option<Verified>>, ExistenceError> {
        self.looked_up.fetch_add(1, Ordering::SeqCst);
        self.answer()?;
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(keys.iter().map(|key| rows.get(key).copied()).collect())
    }

    async fn remember(&self, rows: &[(CacheKey, Verified)]) -> Result<(), ExistenceError> {
        self.answer()?;
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).extend(rows.iter().cloned());
        Ok(())
    }

    async fn ready(&self) -> Result<(), ExistenceError> {
        self.answer()
    }
}
