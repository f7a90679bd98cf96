//! A file store with injected faults.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use ports::files::{FileKey, FileReader, FileWriter, Files, FilesError, ListedFile, Published};

use super::plan::{self, FaultSchedule, PortMethod};
use super::port::FaultyPort;

/// A file store with injected faults, also in the steps of its writers and readers.
pub type FaultyFiles = FaultyPort<dyn Files>;

#[async_trait]
impl Files for FaultyFiles {
    async fn create(&self, key: &FileKey) -> Result<Box<dyn FileWriter>, FilesError> {
        let inner =
            self.call(PortMethod::CreateFile, FilesError::Unavailable, self.inner.create(key)).await?;
        Ok(Box::new(FaultyWriter { inner, schedule: Arc::clone(&self.schedule) }))
    }

    async fn open(&self, key: &FileKey) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        let inner = self.call(PortMethod::OpenFile, FilesError::Unavailable, self.inner.open(key)).await?;
        let schedule = Arc::clone(&self.schedule);
        Ok(inner.map(|inner| Box::new(FaultyReader { inner, schedule }) as Box<dyn FileReader>))
    }

    async fn delete(&self, key: &FileKey) -> Result<bool, FilesError> {
        self.call(PortMethod::DeleteFile, FilesError::Unavailable, self.inner.delete(key)).await
    }

    async fn list(&self, after: Option<&FileKey>) -> Result<Vec<ListedFile>, FilesError> {
        self.call(PortMethod::ListFiles, FilesError::Unavailable, self.inner.list(after)).await
    }

    async fn ready(&self) -> Result<(), FilesError> {
        self.call(PortMethod::Ready, FilesError::Unavailable, self.inner.ready()).await
    }
}

struct FaultyWriter {
    inner: Box<dyn FileWriter>,
    schedule: Arc<dyn FaultSchedule>,
}

#[async_trait]
impl FileWriter for FaultyWriter {
    async fn write(&mut self, chunk: Bytes) -> Result<(), FilesError> {
        let write = self.inner.write(chunk);
        plan::call(&*self.schedule, PortMethod::WriteFile, FilesError::Unavailable, write).await
    }

    async fn publish(self: Box<Self>) -> Result<Published, FilesError> {
        let publish = self.inner.publish();
        plan::call(&*self.schedule, PortMethod::PublishFile, FilesError::Unavailable, publish).await
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
        plan::call(&*self.schedule, PortMethod::ReadFile, FilesError::Unavailable, self.inner.next()).await
    }
}

#[cfg(test)]
mod tests {
    use slack::ids::TeamId;

    use super::*;
    use crate::faults::{CallFault, CrashPoint, FaultPlan};
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
