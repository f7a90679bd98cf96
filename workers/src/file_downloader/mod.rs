//! file-downloader: turns file jobs into stored bytes, or into a verdict that states why there are no bytes.
//!
//! * [`permits`] limits the request rate of each workspace, and keeps the pauses Slack asks for.
//! * [`file`] runs the job of a shared file: reads its known state, makes the requests, writes the result.
//! * [`claim`] ensures that no other process fetches the same file at the same time.
//! * [`fetch`] requests one file from Slack; [`bytes`] receives and stores its bytes.
//! * [`erased`] removes data that was stored for messages or people erased meanwhile.
//! * [`unshared`] removes files that no message shares any more.
//! * [`canvas`] fetches versions of canvases, and stores their text.
//! * [`image`] runs the job of an avatar or an emoji.

pub(crate) mod bytes;
mod canvas;
mod claim;
pub(crate) mod erased;
mod fetch;
mod file;
mod image;
mod known_file;
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
use crate::runtime::{Batch, BatchJob, DecodedPayload, Worker};

use permits::Permits;
pub use settings::{DEFAULT_FILES_PER_MINUTE, DEFAULT_MAX_FILE_BYTES, DownloadSettings};

/// Further received jobs would wait here for the rate of their workspace, on a lease, while another process may
/// fetch them; and a file that takes an hour would delay the rest of its batch for as long.
const MAX_BATCH: usize = 1;

/// Fetches files and pictures, and stores them.
pub struct FileDownloader {
    archive: Arc<dyn Archive>,
    files: Arc<dyn Files>,
    web: Arc<WebApi>,
    claimant: Claimant,
    settings: DownloadSettings,
    permits: Permits,
}

impl FileDownloader {
    /// A downloader from Slack to this store and archive, which claims files before it fetches them.
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
        let message = &job.delivery.message_id;
        // A replayed job has already been tried.
        let receives = job.delivery.receive_count.saturating_add(u32::from(job.is_replayed()));
        let done = if let DecodedPayload::File(file) = &job.payload {
            let tries = receives.saturating_sub(self.permits.postponements(message)).max(1);
            let done = self.file(file, tries).await;
            self.permits.note_postponement(
                message,
                matches!(done, Err(JobFailure::Postponed(..))),
                done.is_ok(),
            );
            done
        } else if let DecodedPayload::Image(image) = &job.payload {
            self.image(image, receives).await
        } else {
            return job.refuse_payload();
        };
        job.finish(done);
    }

    /// Applies updates together; returns the items that rejected an update, as they were then.
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

#[async_trait]
impl Worker for FileDownloader {
    fn queue(&self) -> QueueName {
        QueueName::Files
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }

    async fn permit(&self) {
        self.permits.until_fewer_are_paused(self.web.token_count()).await;
    }

    async fn work(&self, batch: &Batch<'_>) {
        for job in batch.jobs() {
            self.do_job(job).await;
        }
    }
}
