//! An archive with injected faults.

use async_trait::async_trait;
use ports::archive::{Archive, ArchiveError, Item, ItemKey, Page, Query, Update, WriteOutcome};

use super::plan::PortMethod;
use super::port::FaultyPort;

/// An archive with injected faults. Each update of a batch is a call.
pub type FaultyArchive = FaultyPort<dyn Archive>;

#[async_trait]
impl Archive for FaultyArchive {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>> {
        let mut outcomes = Vec::with_capacity(updates.len());
        for update in updates {
            let write = async { self.inner.apply_once(&[update]).await.remove(0) };
            outcomes.push(self.call(PortMethod::Write, ArchiveError::Unavailable, write).await);
        }
        outcomes
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        self.call(PortMethod::Get, ArchiveError::Unavailable, self.inner.get(key)).await
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        self.call(PortMethod::Query, ArchiveError::Unavailable, self.inner.query(query)).await
    }

    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError> {
        let delete = self.inner.delete_unchanged(expected);
        self.call(PortMethod::DeleteUnchanged, ArchiveError::Unavailable, delete).await
    }

    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.call(PortMethod::Erase, ArchiveError::Unavailable, self.inner.erase(key)).await
    }

    async fn expire(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.call(PortMethod::Erase, ArchiveError::Unavailable, self.inner.expire(key)).await
    }

    async fn ready(&self) -> Result<(), ArchiveError> {
        self.call(PortMethod::Ready, ArchiveError::Unavailable, self.inner.ready()).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ports::archive::ArchiveExt;

    use super::*;
    use crate::faults::{CallFault, FaultPlan};
    use crate::memory::archive::MemoryArchive;

    /// Makes one write under a plan. Returns whether it succeeded, and whether it is stored.
    async fn write_one(plan: FaultPlan) -> (bool, bool) {
        let memory = Arc::new(MemoryArchive::new());
        let archive = FaultyArchive::new(memory.clone(), plan);
        let succeeded = archive.write(&Update::new(ItemKey::new("a", "1"))).await.is_ok();
        (succeeded, !memory.items().is_empty())
    }

    #[tokio::test]
    async fn a_write_fails_before_or_after_it_is_done() {
        assert_eq!(write_one(FaultPlan::none()).await, (true, true));
        assert_eq!(write_one(FaultPlan::fail_before(1)).await, (false, false));
        assert_eq!(write_one(FaultPlan::fail_after(1)).await, (false, true));
        let other = FaultPlan::none().with_rule(PortMethod::Get, 1..=1, CallFault::FailBefore);
        assert_eq!(write_one(other).await, (true, true));
    }
}
