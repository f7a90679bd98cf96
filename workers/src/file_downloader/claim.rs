//! Whose turn it is to fetch a file: a file in a message is fetched by one downloader at a time, and once.
//!
//! The queue hands a file's jobs out one after the other, except after a lease that was lost during the work. Only
//! a file that is held completes a claim; and the file's row decides, not the claim: a retry of a file
//! whose row holds no file tries again.

use ports::claims::{About, ClaimKey, ClaimsError, Take};
use rules::file::FileJob;
use slack::ids::UserId;

use super::FileDownloader;
use super::file::KnownFile;
use crate::claims::{ClaimGuard, ClaimOutcome, Sink};
use crate::failure::JobFailure;
use crate::runtime::JobRetry;

/// Whose turn it is.
pub(super) enum DownloadTurn<'c> {
    /// The caller's.
    Ours(ClaimGuard<'c>),
    /// Not ours and not needed: the file is held by now.
    Held(KnownFile),
    /// Not ours and not needed: it was erased meanwhile.
    Erased,
    /// Another process has it, and may yet fail.
    Later(JobRetry),
}

impl From<ClaimsError> for JobFailure {
    fn from(error: ClaimsError) -> Self {
        match error {
            ClaimsError::Unavailable(_) | ClaimsError::NotOwner => Self::Transient(error.to_string()),
        }
    }
}

impl FileDownloader {
    /// Claims the file of a job.
    pub(super) async fn turn(&self, job: &FileJob) -> Result<DownloadTurn<'_>, JobFailure> {
        let check = match self.check(job, Take::IfFree).await? {
            ClaimOutcome::Completed => match self.known(job).await? {
                None => return Ok(DownloadTurn::Erased),
                Some(known) if known.held_as.is_some() => return Ok(DownloadTurn::Held(known)),
                // Another version is, or another workspace that shares the channel holds it, or the row was lost.
                Some(_) => self.check(job, Take::EvenCompleted).await?,
            },
            check @ (ClaimOutcome::Ours(_) | ClaimOutcome::HeldFor(_)) => check,
        };
        Ok(match check {
            ClaimOutcome::Ours(guard) => DownloadTurn::Ours(guard),
            ClaimOutcome::HeldFor(left) => DownloadTurn::Later(JobRetry {
                reason: format!("another process is fetching it, for {} s at least", left.as_secs()),
                after: Some(left),
            }),
            ClaimOutcome::Completed => DownloadTurn::Later(JobRetry {
                reason: "it was completed in this moment".into(),
                after: None,
            }),
        })
    }

    async fn check(&self, job: &FileJob, take: Take) -> Result<ClaimOutcome<'_>, ClaimsError> {
        let key = ClaimKey::of_file(&job.object.id, &job.share.ts);
        let about = About {
            file_id: Some(job.object.id.clone()),
            channel_id: Some(job.share.channel.clone()),
            // Whose file it is, or else who shared it.
            user_id: job
                .object
                .user
                .as_deref()
                .and_then(|user| UserId::parse(user).ok())
                .or_else(|| job.user.clone()),
        };
        // Bytes have one place and a state only grows: fetched twice, a file is the same file.
        self.claimant.claim(key, about, Sink::Idempotent, take).await
    }

    /// The file is held.
    pub(super) async fn complete(&self, guard: ClaimGuard<'_>) {
        if let Err(error) = guard.complete().await {
            tracing::debug!(%error, "a file is held and its claim does not say so; its row does");
        }
    }
}
