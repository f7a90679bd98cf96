//! The job of an avatar or an emoji. No other job waits for it, and the next directory sync requests it
//! again, so a picture that cannot be fetched is dropped without an error.
//!
//! Unlike a file, a picture is not claimed before it is fetched: it has no ID and no message to claim it by,
//! it takes at most a hundredth of a file's time, and two concurrent downloads store one picture.

use metrics::counter;
use ports::archive::Item;
use ports::files::{FileKey, FilesError};
use ports::metrics::{FILE_BYTES, IMAGES};
use rules::file::image::ImageJob;
use slack_api::download::{Download, DownloadError, DownloadStatus};

use super::FileDownloader;
use super::erased::forget_picture;
use crate::failure::JobFailure;
use crate::runtime::JobRetry;

/// The result of a request for a picture.
enum Picture {
    /// The picture is in the store.
    Held,
    /// The picture cannot be fetched.
    GivenUp(String),
    /// The picture may be fetched later, but not before the delay.
    Later(JobRetry),
}

impl Picture {
    fn later(reason: impl ToString) -> Self {
        Self::Later(JobRetry { reason: reason.to_string(), after: None })
    }
}

impl FileDownloader {
    /// Fetches a picture unless it is stored, and writes its key to the row it belongs to.
    pub(super) async fn image(&self, job: &ImageJob, receives: u32) -> Result<(), JobFailure> {
        let key = FileKey::image(&job.team, &job.url);
        let (archive, files) = (&*self.archive, &*self.files);
        if archive.get(&job.key()).await?.is_some_and(|row| row.is_erased()) {
            return Ok(forget_picture(archive, files, job, &key).await?);
        }
        // Many people share one default picture.
        let is_stored = self.files.open(&key).await?.is_some();
        let picture = if is_stored { Picture::Held } else { self.fetch_image(job, &key).await? };
        let outcome = match picture {
            Picture::Held => {
                if self.write(&[&job.stored(&key)]).await?.iter().any(Item::is_erased) {
                    return Ok(forget_picture(archive, files, job, &key).await?);
                }
                if is_stored { "already_held" } else { "stored" }
            }
            Picture::Later(retry) if receives < self.settings.image_tries => {
                return Err(retry.into());
            }
            Picture::Later(JobRetry { reason, .. }) | Picture::GivenUp(reason) => {
                tracing::info!(team = %job.team, image = %key, reason, "gave up on a picture");
                "given_up"
            }
        };
        counter!(IMAGES, "outcome" => outcome).increment(1);
        Ok(())
    }

    async fn fetch_image(&self, job: &ImageJob, key: &FileKey) -> Result<Picture, FilesError> {
        let download = match self.web.download_image(&job.url, self.settings.image_time_limits).await {
            Ok(download) => download,
            Err(error) => return Ok(from_error(&error)),
        };
        match download.status {
            DownloadStatus::Found => self.take_image(key, download).await,
            DownloadStatus::TooManyRequests(pause) => {
                Ok(Picture::Later(JobRetry { reason: "too many requests".into(), after: Some(pause) }))
            }
            DownloadStatus::Unauthorized
            | DownloadStatus::Forbidden
            | DownloadStatus::NotFound
            | DownloadStatus::Gone => Ok(Picture::GivenUp(format!("{:?}", download.status))),
            DownloadStatus::Other(status) => Ok(Picture::later(format!("the answer was {status}"))),
        }
    }

    async fn take_image(&self, key: &FileKey, mut download: Download) -> Result<Picture, FilesError> {
        let content_type = download.content_type.as_deref().unwrap_or_default();
        if !content_type.starts_with("image/") {
            return Ok(Picture::GivenUp(format!("{content_type} is not a picture")));
        }
        let max_bytes = self.settings.max_image_bytes;
        let too_big = || Ok(Picture::GivenUp(format!("it is longer than {max_bytes} bytes")));
        if download.size_bytes.is_some_and(|announced| announced > max_bytes) {
            return too_big();
        }
        let mut writer = self.files.create(key).await?;
        let mut size_bytes = 0;
        loop {
            match download.chunk().await {
                Ok(Some(chunk)) => {
                    size_bytes += chunk.len() as u64;
                    if size_bytes > max_bytes {
                        return too_big();
                    }
                    writer.write(chunk).await?;
                }
                Ok(None) => break,
                Err(error) => return Ok(from_error(&error)),
            }
        }
        if size_bytes == 0 {
            return Ok(Picture::GivenUp("it is empty".into()));
        }
        writer.publish().await?;
        counter!(FILE_BYTES).increment(size_bytes);
        Ok(Picture::Held)
    }
}

fn from_error(error: &DownloadError) -> Picture {
    match error {
        DownloadError::NotAUrl
        | DownloadError::NotAllowed(_)
        | DownloadError::ForbiddenRedirect(_)
        | DownloadError::UnusableRedirects
        // Pictures are requested without a token.
        | DownloadError::Token(_) => Picture::GivenUp(error.to_string()),
        DownloadError::Unreachable(_)
        | DownloadError::Interrupted(_)
        | DownloadError::Stalled(_)
        | DownloadError::TooSlow(_) => Picture::later(error),
    }
}
