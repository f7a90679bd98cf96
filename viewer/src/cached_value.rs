//! Values that are read again after a while, for all requests together.

use std::sync::Arc;
use std::time::Duration;

use ports::archive::ArchiveError;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::answer::PageError;

/// A cached value, and when it was read.
pub(crate) struct CachedValue<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for CachedValue<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> CachedValue<T> {
    /// Returns the cached value, or reads it if it is older than `age`. Only one request reads concurrently.
    pub(crate) async fn or_read(
        &self,
        age: Duration,
        read: impl AsyncFnOnce() -> Result<T, ArchiveError>,
    ) -> Result<Arc<T>, PageError> {
        let mut known = self.0.lock().await;
        if let Some((at, value)) = &*known
            && at.elapsed() < age
        {
            return Ok(Arc::clone(value));
        }
        let value = Arc::new(read().await?);
        *known = Some((Instant::now(), Arc::clone(&value)));
        Ok(value)
    }
}
