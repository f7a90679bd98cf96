//! Claims the file of a job, so that one downloader at a time fetches it, and only once.
//!
//! The queue delivers a file's jobs one after the other, except after a lease was lost during the work. A
//! claim is completed only if the file is stored. The file's row decides, not the claim: a retry of a file
//! without stored bytes tries again.

use ports::claims::{ClaimContext, ClaimKey, ClaimMode, ClaimsError};
use rules::file::FileJob;
use slack::ids::UserId;

use super::FileDownloader;
use super::known_file::KnownFile;
use crate::claims::{ClaimGuard, ClaimOutcome, Sink};
use crate::failure::JobFailure;

/// The result of claiming a file.
pub(super) enum DownloadTurn<'c> {
    /// The caller owns the claim.
    Ours(ClaimGuard<'c>),
    /// No download is needed: the file has been stored.
    Held(KnownFile),
    /// No download is needed: the file was erased meanwhile.
    Erased,
    /// Another process owns the claim, and may still fail.
    Later(JobFailure),
}

impl From<ClaimsError> for JobFailure {
    fn from(error: ClaimsError) -> Self {
        match error {
            ClaimsError::Unavailable(_) | ClaimsError::NotOwner => Self::Transient(error.to_string()),
        }
    }
}

impl FileDownloader {
    pub(super) async fn claim_file(&self, job: &FileJob) -> Result<DownloadTurn<'_>, JobFailure> {
        let claim = match self.claim(job, ClaimMode::IfFree).await? {
            ClaimOutcome::Completed => match self.read_known_file(job).await? {
                None => return Ok(DownloadTurn::Erased),
                Some(known) if known.held_as.is_some() => return Ok(DownloadTurn::Held(known)),
                // Another version is stored, or another workspace that shares the channel stored it, or the
                // row was lost.
                Some(_) => self.claim(job, ClaimMode::EvenCompleted).await?,
            },
            claim @ (ClaimOutcome::Ours(_) | ClaimOutcome::HeldFor(_)) => claim,
        };
        Ok(match claim {
            ClaimOutcome::Ours(guard) => DownloadTurn::Ours(guard),
            ClaimOutcome::HeldFor(left) => {
                let reason = format!("another process is fetching it, for at least {} s", left.as_secs());
                DownloadTurn::Later(JobFailure::Postponed(reason, left))
            }
            ClaimOutcome::Completed => {
                DownloadTurn::Later(JobFailure::Transient("it was completed at this moment".into()))
            }
        })
    }

    async fn claim(&self, job: &FileJob, take: ClaimMode) -> Result<ClaimOutcome<'_>, ClaimsError> {
        let key = ClaimKey::for_file(&job.object.id, &job.share.ts);
        let about = ClaimContext {
            file_id: Some(job.object.id.clone()),
            channel_id: Some(job.share.channel.clone()),
            // The file's owner, or otherwise the person who shared it.
            user_id: job
                .object
                .user
                .as_deref()
                .and_then(|user| UserId::parse(user).ok())
                .or_else(|| job.user.clone()),
        };
        // Bytes have one key and a state only grows: a file that is fetched twice is stored once.
        self.claimant.claim(key, about, Sink::Idempotent, take).await
    }
}
