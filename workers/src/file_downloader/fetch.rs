//! Fetches one file from Slack: first its metadata, then its bytes.

use std::ops::ControlFlow;
use std::time::Duration;

use metrics::counter;
use ports::files::{FileKey, FilesError};
use ports::metrics::FILE_PAUSES;
use ports::queue::waiting::WaitCause;
use rules::file::row::{self, StoredBytes};
use rules::file::{FileJob, FileObject, FilePrecheck, FileState, FileVerdict};
use serde::Deserialize;
use serde_json::Value;
use slack_api::download::{DownloadError, DownloadStatus};
use slack_api::{ApiError, Method};

use super::FileDownloader;
use super::known_file::KnownFile;
use crate::failure::JobFailure;

/// The scope without which Slack shows a login page instead of a file.
const SCOPE: &str = "files:read";

/// The result of a request for a file.
pub(super) enum Fetched {
    /// The bytes are in the store.
    Held(StoredBytes),
    /// The bytes were already stored, according to Slack's metadata of the file.
    Known(FileKey),
    /// There are no bytes to fetch.
    Verdict(FileVerdict),
    /// An automatic retry would not help.
    Failed(String),
}

impl Fetched {
    /// The state that is stored.
    pub(super) fn state(&self) -> FileState {
        match self {
            Self::Held(held) => FileState::Stored(held.key.clone()),
            Self::Known(key) => FileState::Stored(key.clone()),
            Self::Verdict(verdict) => FileState::Verdict(*verdict),
            Self::Failed(reason) => FileState::failed(reason),
        }
    }
}

/// The cause of an incomplete attempt.
pub(super) enum Trouble {
    /// A failure of Slack or the network: after the permitted number of tries the file has failed.
    Transient(String),
    /// A local failure: a full disk, for example, has nothing to do with the file.
    Local(JobFailure),
}

impl From<FilesError> for Trouble {
    fn from(error: FilesError) -> Self {
        Self::Local(error.into())
    }
}

fn without_bytes(verdict: FileVerdict) -> Result<Fetched, Trouble> {
    Ok(Fetched::Verdict(verdict))
}

fn failed(reason: impl Into<String>) -> Result<Fetched, Trouble> {
    Ok(Fetched::Failed(reason.into()))
}

impl FileDownloader {
    /// The result for a file that can be decided without a request, if any.
    pub(super) async fn decide_without_request(
        &self,
        job: &FileJob,
        known: &KnownFile,
        receives: u32,
    ) -> Result<Option<Fetched>, Trouble> {
        // The bytes were published before a crash prevented the row from recording it: Slack need not be
        // asked for them again.
        let expected = known.expected_source();
        if (receives > 1 && !job.object.is_canvas()) || expected.is_some() {
            let source = expected.map(str::to_owned).or_else(|| job.object.source(&job.team));
            if let Some(held) = self.stored_bytes(&known.key, &source.unwrap_or_default()).await? {
                return Ok(Some(Fetched::Held(held)));
            }
        }
        if let (FilePrecheck::Settled(verdict), false) = (job.object.precheck(), job.refresh) {
            return without_bytes(verdict).map(Some);
        }
        match self.web.has_token_for(&job.team).await {
            // Before the file is claimed.
            Ok(true) => self.permits.pause_left(&job.team).map_or(Ok(None), |pause| Err(postponed(pause))),
            Ok(false) => without_bytes(FileVerdict::Pending).map(Some),
            Err(error) => self.refused(error, job).map(Some),
        }
    }

    /// Fetches a file that is not stored.
    pub(super) async fn fetch(
        &self,
        job: &FileJob,
        known: &KnownFile,
        receives: u32,
    ) -> Result<Fetched, Trouble> {
        let mut object = job.object.clone();
        let mut before = object.precheck();
        // An event may name any address: bytes belong to a file only if Slack confirms the address. The
        // simulated Slack on this machine uses arbitrary addresses.
        if before == FilePrecheck::Download
            && !object.has_own_address(&job.team)
            && !self.web.url().is_loopback()
        {
            before = FilePrecheck::InfoNeeded;
        }
        // The message names an earlier edit of a canvas than the one that Slack returns now.
        if before == FilePrecheck::Download && object.is_canvas() {
            before = FilePrecheck::InfoNeeded;
        }
        // A failed file may have changed since: an edited snippet, another address.
        if before != FilePrecheck::Download || job.refresh || receives > 1 {
            match self.request_info(job, known).await {
                Ok(ControlFlow::Continue(current)) => object = current,
                Ok(ControlFlow::Break(fetched)) => return Ok(fetched),
                // Use the metadata of the message instead.
                Err(Trouble::Transient(_)) if before == FilePrecheck::Download => {}
                Err(trouble) => return Err(trouble),
            }
            match object.precheck() {
                FilePrecheck::Settled(verdict) => return without_bytes(verdict),
                FilePrecheck::InfoNeeded => return failed("Slack returns no download address"),
                FilePrecheck::Download => {}
            }
            // The message named a different address for a file that is already stored.
            if let Some(key) = known.held_as(job, &object) {
                return Ok(Fetched::Known(key));
            }
        }
        match object.updated {
            Some(updated) => self.fetch_version(job, known, &object, updated).await,
            None => {
                let source = object.source(&job.team).unwrap_or_default();
                self.download(job, &object, &known.key, &source).await
            }
        }
    }

    /// Downloads the bytes of a file from the address in its object.
    pub(super) async fn download(
        &self,
        job: &FileJob,
        object: &FileObject,
        key: &FileKey,
        source: &str,
    ) -> Result<Fetched, Trouble> {
        let Some(url) = object.url() else { return failed("Slack returns no download address") };
        if object.exact_size_bytes().is_some_and(|size_bytes| size_bytes > self.settings.max_file_bytes) {
            return without_bytes(FileVerdict::TooBig);
        }
        self.permits.request(&job.team).await.map_err(postponed)?;
        let download = match self.web.download(&job.team, url, self.settings.file_time_limits).await {
            Ok(download) => download,
            Err(error) => return self.not_begun(error, job).await,
        };
        match download.status {
            DownloadStatus::Found => self.store_body(object, key, source, download).await,
            DownloadStatus::Unauthorized => self.login_asked(job, "Slack answered 401").await,
            DownloadStatus::Forbidden => without_bytes(FileVerdict::AccessDenied),
            DownloadStatus::NotFound => without_bytes(FileVerdict::NotFound),
            DownloadStatus::Gone => without_bytes(FileVerdict::Gone),
            DownloadStatus::TooManyRequests(pause) => Err(self.pause(job, pause)),
            DownloadStatus::Other(status) => Err(Trouble::Transient(format!("Slack answered {status}"))),
        }
    }

    /// Asks Slack for the current metadata of the file, unless Slack's answer decides on the file.
    /// <https://docs.slack.dev/reference/methods/files.info>
    async fn request_info(
        &self,
        job: &FileJob,
        known: &KnownFile,
    ) -> Result<ControlFlow<Fetched, FileObject>, Trouble> {
        let file = job.object.id.as_str();
        let reply = match self.web.call(&job.team, Method::FilesInfo, &[("file", file)]).await {
            Ok(reply) => reply,
            Err(error) => return self.refused(error, job).map(ControlFlow::Break),
        };
        let info = reply.read::<FileInfo>().map_err(|error| Trouble::Transient(error.to_string()))?;
        let object = FileObject::read(&info.file).filter(|object| object.id == job.object.id);
        let garbled = || Trouble::Transient("files.info answered with another file".into());
        let object = object.ok_or_else(garbled)?;
        // A process may end before it writes anything else: the row shows where the file was shared.
        let seen = row::seen(&job.team, &object, known.room_for_share(job));
        self.write(&[&seen]).await.map_err(|error| Trouble::Local(error.into()))?;
        Ok(ControlFlow::Continue(object))
    }

    /// The result of a download that could not start.
    async fn not_begun(&self, error: DownloadError, job: &FileJob) -> Result<Fetched, Trouble> {
        match error {
            DownloadError::Token(error) => self.refused(error, job),
            DownloadError::NotAUrl | DownloadError::NotAllowed(_) => failed(error.to_string()),
            // Slack redirects to the login page.
            DownloadError::ForbiddenRedirect(_) => self.login_asked(job, &error.to_string()).await,
            DownloadError::UnusableRedirects
            | DownloadError::Unreachable(_)
            | DownloadError::Interrupted(_)
            | DownloadError::Stalled(_)
            | DownloadError::TooSlow(_) => Err(Trouble::Transient(error.to_string())),
        }
    }

    /// The result if Slack wants a login for the bytes: either it refuses the token, or the app lacks the scope.
    async fn login_asked(&self, job: &FileJob, what: &str) -> Result<Fetched, Trouble> {
        match self.web.call(&job.team, Method::AuthTest, &[]).await {
            Err(error) if error.is_token_error() => self.refused(error, job),
            Ok(_) | Err(_) => failed(login_needed(what)),
        }
    }

    /// The result of the last try: the file has failed if Slack answers for its workspace. If it does not, this
    /// says nothing about the file.
    pub(super) async fn last_failure(&self, job: &FileJob, reason: String) -> Result<Fetched, Trouble> {
        match self.web.call(&job.team, Method::AuthTest, &[]).await {
            Err(ApiError::Unreachable { .. } | ApiError::Garbled { .. }) => {
                Err(Trouble::Local(JobFailure::Waits(WaitCause::Slack, reason)))
            }
            Err(error) if error.is_token_error() => self.refused(error, job),
            Ok(_) | Err(_) => failed(reason),
        }
    }

    /// The result of a call that was refused, or that has no token. A refused token says nothing about the file.
    fn refused(&self, error: ApiError, job: &FileJob) -> Result<Fetched, Trouble> {
        match &error {
            ApiError::NoToken(_) => without_bytes(FileVerdict::Pending),
            ApiError::WrongToken { .. } => failed(error.to_string()),
            ApiError::Refused { error: code, needed, .. } => match code.as_str() {
                "file_not_found" => without_bytes(FileVerdict::NotFound),
                "file_deleted" => without_bytes(FileVerdict::Gone),
                "access_denied"
                | "no_permission"
                | "team_access_not_granted"
                | "not_allowed"
                | "not_in_channel" => without_bytes(FileVerdict::AccessDenied),
                _ if error.is_token_error() => {
                    let reason = format!("{error}: workspace {} needs a new token", job.team);
                    Err(Trouble::Local(JobFailure::Waits(WaitCause::Token, reason)))
                }
                "missing_scope" if needed.is_none() => {
                    failed(format!("{error}, the app needs the scope {SCOPE}"))
                }
                _ => failed(error.to_string()),
            },
            ApiError::RateLimited { retry_after, .. } => Err(self.pause(job, *retry_after)),
            ApiError::Unreachable { .. } | ApiError::Garbled { .. } => {
                Err(Trouble::Transient(error.to_string()))
            }
        }
    }

    /// Pauses the file requests of the job's workspace.
    fn pause(&self, job: &FileJob, pause: Duration) -> Trouble {
        counter!(FILE_PAUSES).increment(1);
        let (team, pause_s) = (&job.team, pause.as_secs());
        tracing::warn!(%team, pause_s, "Slack asked for a pause; the workspace's downloads resume after it");
        self.permits.pause(team, pause);
        postponed(pause)
    }
}

#[derive(Deserialize)]
struct FileInfo {
    #[serde(default)]
    file: Value,
}

/// The job of a paused workspace goes back to the queue until the pause ends.
fn postponed(pause: Duration) -> Trouble {
    let reason = format!("Slack wants a pause of {} s", pause.as_secs());
    Trouble::Local(JobFailure::Postponed(reason, pause))
}

/// An error message that names the scope the app may lack.
pub(super) fn login_needed(what: &str) -> String {
    format!("{what}: does the app have the scope {SCOPE}?")
}
