//! A file store with injected faults.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use ports::files::{FileKey, FileReader, FileWriter, Files, FilesError, Published};

use super::crash::CrashPoint;
use super::plan::{self, FaultPlan, FaultSchedule, PlanProgress, PortMethod};

/// Runs a step with the fault that the schedule decides.
async fn step<T>(
    schedule: &dyn FaultSchedule,
    method: PortMethod,
    done: impl Future<Output = Result<T, FilesError>>,
) -> Result<T, FilesError> {
    let fault = schedule.before(method, 1).await;
    let result = plan::apply_fault(fault, done, FilesError::Unavailable).await;
    schedule.after(method).await;
    result
}

/// A file store whose steps fail as a schedule decides, including those of its writers and readers.
pub struct FaultyFiles {
    inner: Arc<dyn Files>,
    schedule: Arc<dyn FaultSchedule>,
}

impl FaultyFiles {
    /// `inner` with the faults of a plan.
    pub fn new(inner: Arc<dyn Files>, plan: FaultPlan) -> Self {
        Self::with_schedule(inner, Arc::new(PlanProgress::new(plan)))
    }

    /// `inner` with the faults that a schedule decides step by step.
    pub fn with_schedule(inner: Arc<dyn Files>, schedule: Arc<dyn FaultSchedule>) -> Self {
        Self { inner, schedule }
    }

    /// `inner` as seen by a process that dies at the crash point.
    pub fn with_crash_point(inner: Arc<dyn Files>, point: Arc<CrashPoint>) -> Self {
        Self::with_schedule(inner, point)
    }
}

#[async_trait]
impl Files for FaultyFiles {
    async fn create(&self, key: &FileKey) -> Result<Box<dyn FileWriter>, FilesError> {
        let inner = step(&*self.schedule, PortMethod::CreateFile, self.inner.create(key)).await?;
        Ok(Box::new(FaultyWriter { inner, schedule: Arc::clone(&self.schedule) }))
    }

    async fn open(&self, key: &FileKey) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        let inner = step(&*self.schedule, PortMethod::OpenFile, self.inner.open(key)).await?;
        let schedule = Arc::clone(&self.schedule);
        Ok(inner.map(|inner| Box::new(FaultyReader { inner, schedule }) as Box<dyn FileReader>))
    }

    async fn delete(&self, key: &FileKey) -> Result<bool, FilesError> {
        step(&*self.schedule, PortMethod::DeleteFile, self.inner.delete(key)).await
    }

    async fn ready(&self) -> Result<(), FilesError> {
        step(&*self.schedule, PortMethod::Ready, self.inner.ready()).await
    }
}

struct FaultyWriter {
    inner: Box<dyn FileWriter>,
    schedule: Arc<dyn FaultSchedule>,
}

#[async_trait]
impl FileWriter for FaultyWriter {
    async fn write(&mut self, chunk: Bytes) -> Result<(), FilesError> {
        step(&*self.schedule, PortMethod::WriteFile, self.inner.write(chunk)).await
    }

    async fn publish(self: Box<Self>) -> Result<Published, FilesError> {
        step(&*self.schedule, PortMethod::PublishFile, self.inner.publish()).await
    }
}

struct FaultyReader {
    inner: Box<dyn FileReader>,
    schedule: Arc<dyn FaultSchedule>,
}

#[async_trait]
impl FileReader for FaultyReader {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    async fn next(&mut self) -> Result<Option<Bytes>, FilesError> {
        step(&*self.schedule, PortMethod::ReadFile, self.inner.next()).await
    }
}

#[cfg(test)]
mod tests {
    use slack::ids::TeamId;

    use super::*;
    use crate::faults::CallFault;
    use crate::memory::files::MemoryFiles;

    /// Publishes one file. Returns whether that succeeded, and whether the file is stored.
    async fn publish_one(files: impl FnOnce(Arc<dyn Files>) -> FaultyFiles) -> (bool, bool) {
        let memory = MemoryFiles::new();
        let files = files(Arc::new(memory.clone()));
        let key = FileKey::image(&TeamId::parse("T1").unwrap(), "https://x/");
        let write = async {
            let mut writer = files.create(&key).await?;
            writer.write(Bytes::from_static(b"abc")).await?;
            writer.publish().await
        };
        (write.await.is_ok(), !memory.published().is_empty())
    }

    #[tokio::test]
    async fn a_step_fails_before_or_after_it_is_done() {
        let planned = |plan| publish_one(|inner| FaultyFiles::new(inner, plan));
        assert_eq!(planned(FaultPlan::none()).await, (true, true));
        assert_eq!(planned(FaultPlan::fail_before(3)).await, (false, false));
        assert_eq!(planned(FaultPlan::fail_after(3)).await, (false, true));
        assert_eq!(
            planned(FaultPlan::none().with_rule(PortMethod::WriteFile, 1..=1, CallFault::FailBefore)).await,
            (false, false)
        );
        let dying =
            |steps| publish_one(move |inner| FaultyFiles::with_crash_point(inner, CrashPoint::after(steps)));
        assert_eq!(dying(2).await, (false, false));
        assert_eq!(dying(3).await, (true, true));
    }
}
