//! An archive with injected faults.

use std::sync::Arc;

use async_trait::async_trait;
use ports::archive::{Archive, ArchiveError, Item, ItemKey, Page, Query, Update, WriteOutcome};

use super::crash::CrashPoint;
use super::plan::{self, FaultPlan, FaultSchedule, PlanProgress, PortMethod};

/// An archive whose calls fail as a schedule decides.
pub struct FaultyArchive {
    inner: Arc<dyn Archive>,
    schedule: Arc<dyn FaultSchedule>,
}

impl FaultyArchive {
    /// `inner` with the faults of a plan.
    pub fn new(inner: Arc<dyn Archive>, plan: FaultPlan) -> Self {
        Self::with_schedule(inner, Arc::new(PlanProgress::new(plan)))
    }

    /// `inner` with the faults that a schedule decides call by call.
    pub fn with_schedule(inner: Arc<dyn Archive>, schedule: Arc<dyn FaultSchedule>) -> Self {
        Self { inner, schedule }
    }

    /// `inner` as seen by a process that dies at the crash point.
    pub fn with_crash_point(inner: Arc<dyn Archive>, point: Arc<CrashPoint>) -> Self {
        Self::with_schedule(inner, point)
    }

    async fn call<T>(
        &self,
        method: PortMethod,
        done: impl Future<Output = Result<T, ArchiveError>>,
    ) -> Result<T, ArchiveError> {
        let fault = self.schedule.before(method, 1).await;
        let result = plan::apply_fault(fault, done, ArchiveError::Unavailable).await;
        self.schedule.after(method).await;
        result
    }
}

#[async_trait]
impl Archive for FaultyArchive {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>> {
        let mut outcomes = Vec::with_capacity(updates.len());
        for update in updates {
            let write = async { self.inner.apply_once(&[update]).await.remove(0) };
            outcomes.push(self.call(PortMethod::Write, write).await);
        }
        outcomes
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        self.call(PortMethod::Get, self.inner.get(key)).await
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        self.call(PortMethod::Query, self.inner.query(query)).await
    }

    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError> {
        self.call(PortMethod::DeleteUnchanged, self.inner.delete_unchanged(expected)).await
    }

    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.call(PortMethod::Erase, self.inner.erase(key)).await
    }

    async fn ready(&self) -> Result<(), ArchiveError> {
        self.call(PortMethod::Ready, self.inner.ready()).await
    }
}

#[cfg(test)]
mod tests {
    use ports::archive::ArchiveExt;

    use super::*;
    use crate::faults::CallFault;
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
