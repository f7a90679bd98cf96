//! file-downloader: from file jobs to bytes that are kept, or to a verdict that says why there are no bytes.
//!
//! * [`permits`] keeps to a rate, and to the pauses Slack asks for.
//! * [`file`] does the job of a shared file: what is known already, what has to be asked, what is written.
//! * [`claim`] makes sure that no other process asks for the same file at the same time.
//! * [`fetch`] asks Slack for one file; [`bytes`] takes what comes.
//! * [`erased`] takes back what was stored for what was erased meanwhile.
//! * [`unshared`] removes files that no message shares any more.
//! * [`image`] does the job of an avatar or an emoji.

pub(crate) mod bytes;
mod claim;
pub(crate) mod erased;
mod fetch;
mod file;
mod image;
mod permits;
mod settings;
pub(crate) mod unshared;

use std::sync::Arc;

use async_trait::async_trait;
use ports::archive::{Archive, ArchiveError, ArchiveExt, Item, Update, WriteOutcome};
use ports::files::Files;
use ports::queue::QueueName;
use slack_api::WebApi;

use crate::claims::Claimant;
use crate::failure::JobFailure;
use crate::runtime::{Batch, BatchJob, DecodedPayload, JobOutcome, Worker};

use permits::Permits;
pub use settings::DownloadSettings;

/// One permit is for one job. What is received beyond it would wait here for the next, on a lease, while another process
/// may have one to spare; and a file that takes an hour would keep what came with it for as long.
const MAX_BATCH: usize = 1;

/// Fetches files and pictures, and keeps them.
pub struct FileDownloader {
    archive: Arc<dyn Archive>,
    files: Arc<dyn Files>,
    web: Arc<WebApi>,
    claimant: Claimant,
    settings: DownloadSettings,
    permits: Permits,
}

impl FileDownloader {
    /// A downloader from Slack to this store and archive, which claims what it fetches.
    pub fn new(
        archive: Arc<dyn Archive>,
        files: Arc<dyn Files>,
        web: Arc<WebApi>,
        claimant: Claimant,
        settings: DownloadSettings,
    ) -> Self {
        let permits = Permits::new(settings.files_per_minute);
        Self { archive, files, web, claimant, settings, permits }
    }

    async fn do_job(&self, job: &BatchJob<'_>) {
        let mut permit = self.permits.claim();
        // A replayed job was tried before.
        let receives = job.delivery.receive_count.saturating_add(u32::from(job.replayed));
        let done = if let DecodedPayload::File(file) = &job.payload {
            self.file(file, receives, &mut permit).await
        } else if let DecodedPayload::Image(image) = &job.payload {
            self.image(image, receives).await
        } else {
            return job.refuse_payload();
        };
        match done {
            Ok(()) => job.settle(JobOutcome::Done),
            Err(DownloadStop::Failure(failure)) => job.settle(failure.outcome()),
            Err(DownloadStop::After(retry)) => job.settle(JobOutcome::Retry(retry)),
        }
    }

    /// Applies updates together and returns the items that refused one, as they were then.
    async fn write(&self, updates: &[&Update]) -> Result<Vec<Item>, ArchiveError> {
        let mut refused = Vec::new();
        for outcome in self.archive.write_all(updates).await {
            if let WriteOutcome::Rejected(stored) = outcome? {
                refused.push(stored);
            }
        }
        Ok(refused)
    }
}

/// Why a job ends without being done.
enum DownloadStop {
    /// As every worker's do.
    Failure(JobFailure),
    /// The other side wants to be left alone about this one.
    After(crate::runtime::JobRetry),
}

impl<F: Into<JobFailure>> From<F> for DownloadStop {
    fn from(failure: F) -> Self {
        Self::Failure(failure.into())
    }
}

#[async_trait]
impl Worker for FileDownloader {
    fn queue(&self) -> QueueName {
        QueueName::Files
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }

    async fn permit(&self) {
        self.permits.grant().await;
    }

    async fn work(&self, batch: &Batch<'_>) {
        for job in batch.jobs() {
            self.do_job(job).await;
        }
    }
}
