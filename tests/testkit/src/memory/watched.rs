//! An archive that records the rows that are read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use ports::archive::{Archive, ArchiveError, Item, ItemKey, Page, Partition, Query, Update, WriteOutcome};

/// An archive that records the rows that are read, except those of thread queries.
pub struct WatchedArchive {
    inner: Arc<dyn Archive>,
    read: Mutex<Vec<String>>,
}

impl WatchedArchive {
    /// Wraps an archive, with an empty record.
    pub fn new(inner: Arc<dyn Archive>) -> Self {
        Self { inner, read: Mutex::default() }
    }

    /// The partitions of the rows that were read, one entry for each row.
    pub fn read(&self) -> Vec<String> {
        self.rows().clone()
    }

    fn record<'i>(&self, items: impl IntoIterator<Item = &'i Item>) {
        self.rows().extend(items.into_iter().map(|item| item.key.item_id.clone()));
    }

    fn rows(&self) -> MutexGuard<'_, Vec<String>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Archive for WatchedArchive {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>> {
        self.inner.apply_once(updates).await
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        let found = self.inner.get(key).await?;
        self.record(&found);
        Ok(found)
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        let page = self.inner.query(query).await?;
        if matches!(query.partition, Partition::Item(_)) {
            self.record(&page.items);
        }
        Ok(page)
    }

    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError> {
        self.inner.delete_unchanged(expected).await
    }

    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.inner.erase(key).await
    }

    async fn expire(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.inner.expire(key).await
    }

    async fn ready(&self) -> Result<(), ArchiveError> {
        self.inner.ready().await
    }
}
