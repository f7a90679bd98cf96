//! Asks Slack for one file: what it knows of it, then its bytes.

use std::time::Duration;

use metrics::counter;
use ports::files::{FileKey, FilesError};
use ports::metrics::FILE_PAUSES;
use rules::file::row::{self, HeldBytes};
use rules::file::{Before, FileJob, FileObject, FileState, FileVerdict};
use serde::Deserialize;
use serde_json::Value;
use slack_api::download::{Download, DownloadError, DownloadStatus};
use slack_api::{ApiError, Method};

use super::FileDownloader;
use super::file::KnownFile;
use super::permits::Permit;
use crate::failure::JobFailure;

/// The scope without which Slack shows a login page instead of a file.
const SCOPE: &str = "files:read";

/// What came of asking.
pub(super) enum Fetched {
    /// Its bytes are in the store.
    Held(HeldBytes),
    /// They were there before, as Slack knows the file.
    Known(FileKey),
    /// There are no bytes to fetch.
    Verdict(FileVerdict),
    /// Asking again by itself would not help.
    Failed(String),
}

impl Fetched {
    /// As it is written down.
    pub(super) fn state(&self) -> FileState {
        match self {
            Self::Held(held) => FileState::Stored(held.key.clone()),
            Self::Known(key) => FileState::Stored(key.clone()),
            Self::Verdict(verdict) => FileState::Verdict(*verdict),
            Self::Failed(reason) => FileState::failed(reason),
        }
    }
}

/// What was in the way.
pub(super) enum Trouble {
    /// Slack's side, or the way there: after the permitted number of tries the file has failed.
    Transient(String),
    /// This side: a full disk has nothing to do with the file.
    Ours(JobFailure),
}

impl From<FilesError> for Trouble {
    fn from(error: FilesError) -> Self {
        match error {
            FilesError::Unavailable(_) => Self::Ours(JobFailure::Transient(error.to_string())),
        }
    }
}

fn nothing(verdict: FileVerdict) -> Result<Fetched, Trouble> {
    Ok(Fetched::Verdict(verdict))
}

fn failed(reason: impl Into<String>) -> Result<Fetched, Trouble> {
    Ok(Fetched::Failed(reason.into()))
}

impl FileDownloader {
    /// The result for a file that can be decided without a request, if any.
    pub(super) async fn without_asking(
        &self,
        job: &FileJob,
        key: &FileKey,
        receives: u32,
        permit: &Permit<'_>,
    ) -> Result<Option<Fetched>, Trouble> {
        // Published before a crash kept its row from saying so: Slack need not be asked for the same bytes again.
        if receives > 1
            && let Some(held) = self.held(&job.team, &job.object, key).await?
        {
            return Ok(Some(Fetched::Held(held)));
        }
        if let (Before::Settled(verdict), false) = (job.object.before_request(), job.refresh) {
            return nothing(verdict).map(Some);
        }
        match self.web.knows_token(&job.team).await {
            Ok(true) => Ok(None),
            Ok(false) => nothing(FileVerdict::Pending).map(Some),
            Err(error) => refused(error, job, permit).map(Some),
        }
    }

    /// Fetches a file that is not held.
    pub(super) async fn fetch(
        &self,
        job: &FileJob,
        known: &KnownFile,
        receives: u32,
        permit: &mut Permit<'_>,
    ) -> Result<Fetched, Trouble> {
        let mut object = job.object.clone();
        let mut before = object.before_request();
        // An event may name any address: bytes are a file's if Slack says that they are there. What plays Slack on this
        // machine makes addresses as it likes.
        if before == Before::Download && !object.has_own_address(&job.team) && !self.web.url().is_loopback() {
            before = Before::InfoNeeded;
        }
        // What failed before may be another file by now: an edited snippet, another address.
        if before != Before::Download || job.refresh || receives > 1 {
            match self.ask_about(job, permit).await {
                Ok(answer) => object = answer,
                Err(FetchAnswer::Final(fetched)) => return Ok(fetched),
                // Then what the message said has to do.
                Err(FetchAnswer::Trouble(Trouble::Transient(_))) if before == Before::Download => {}
                Err(FetchAnswer::Trouble(trouble)) => return Err(trouble),
            }
            match object.before_request() {
                Before::Settled(verdict) => return nothing(verdict),
                Before::InfoNeeded => return failed("Slack gives no address to download it from"),
                Before::Download => {}
            }
            // The message named an address of its own for it.
            if let Some(key) = known.held_as(job, &object) {
                return Ok(Fetched::Known(key));
            }
        }
        self.download(job, &object, &known.key, permit).await
    }

    async fn download(
        &self,
        job: &FileJob,
        object: &FileObject,
        key: &FileKey,
        permit: &mut Permit<'_>,
    ) -> Result<Fetched, Trouble> {
        let Some(url) = object.url() else { return failed("Slack gives no address to download it from") };
        if object.exact_size_bytes().is_some_and(|size_bytes| size_bytes > self.settings.max_file_bytes) {
            return nothing(FileVerdict::TooBig);
        }
        let download = loop {
            permit.request().await;
            match self.web.download(&job.team, url, self.settings.file_time_limits).await {
                Ok(Download { status: DownloadStatus::TooManyRequests(pause), .. }) => hold(permit, pause),
                Ok(download) => break download,
                Err(error) => return not_begun(error, job, permit),
            }
        };
        match download.status {
            DownloadStatus::Found => self.take(&job.team, object, key, download).await,
            DownloadStatus::Unauthorized => failed(login_needed("Slack answered 401")),
            DownloadStatus::Forbidden => nothing(FileVerdict::AccessDenied),
            DownloadStatus::NotFound => nothing(FileVerdict::NotFound),
            DownloadStatus::Gone => nothing(FileVerdict::Gone),
            DownloadStatus::TooManyRequests(pause) => Err(too_many_requests(pause)),
            DownloadStatus::Other(status) => Err(Trouble::Transient(format!("Slack answered {status}"))),
        }
    }

    /// What Slack knows of the file now. <https://docs.slack.dev/reference/methods/files.info>
    async fn ask_about(&self, job: &FileJob, permit: &mut Permit<'_>) -> Result<FileObject, FetchAnswer> {
        let file = job.object.id.as_str();
        let reply = loop {
            match self.web.call(&job.team, Method::FilesInfo, &[("file", file)]).await {
                Ok(reply) => break reply,
                // It has waited for as long as it will; everyone else should too.
                Err(ApiError::RateLimited { retry_after, .. }) => {
                    hold(permit, retry_after);
                    permit.until_no_pause().await;
                }
                Err(error) => return Err(refused(error, job, permit).into()),
            }
        };
        let info = reply.read::<FileInfo>().map_err(|error| Trouble::Transient(error.to_string()))?;
        let object = FileObject::read(&info.file).filter(|object| object.id == job.object.id);
        let garbled = || Trouble::Transient("files.info answered with another file".into());
        let object = object.ok_or_else(garbled)?;
        let seen = row::seen(&job.team, &object, None);
        self.write(&[&seen]).await.map_err(|error| Trouble::Ours(error.into()))?;
        Ok(object)
    }
}

/// What it means that no download began.
fn not_begun(error: DownloadError, job: &FileJob, permit: &Permit<'_>) -> Result<Fetched, Trouble> {
    match error {
        DownloadError::Token(error) => refused(error, job, permit),
        DownloadError::NotAUrl | DownloadError::NotAllowed(_) => failed(error.to_string()),
        // Where Slack sends those who have to log in.
        DownloadError::RedirectedAway(_) => failed(login_needed(&error.to_string())),
        DownloadError::RedirectsInVain
        | DownloadError::Unreachable(_)
        | DownloadError::BrokeOff(_)
        | DownloadError::Stalled(_)
        | DownloadError::TooSlow(_) => Err(Trouble::Transient(error.to_string())),
    }
}

/// What it means that Slack, or the lack of a token, did not let a call through.
fn refused(error: ApiError, job: &FileJob, permit: &Permit<'_>) -> Result<Fetched, Trouble> {
    match &error {
        ApiError::NoToken(_) => nothing(FileVerdict::Pending),
        ApiError::WrongToken { .. } => failed(error.to_string()),
        ApiError::Refused { error: code, needed, .. } => match code.as_str() {
            "file_not_found" => nothing(FileVerdict::NotFound),
            "file_deleted" => nothing(FileVerdict::Gone),
            "access_denied"
            | "no_permission"
            | "team_access_not_granted"
            | "not_allowed"
            | "not_in_channel" => nothing(FileVerdict::AccessDenied),
            "invalid_auth" | "not_authed" | "token_revoked" | "token_expired" | "account_inactive" => {
                failed(format!("{error}: workspace {} needs a new token", job.team))
            }
            "missing_scope" if needed.is_none() => {
                failed(format!("{error}, the app needs the scope {SCOPE}"))
            }
            _ => failed(error.to_string()),
        },
        ApiError::RateLimited { retry_after, .. } => {
            hold(permit, *retry_after);
            Err(too_many_requests(*retry_after))
        }
        ApiError::Unreachable { .. } | ApiError::Garbled { .. } => Err(Trouble::Transient(error.to_string())),
    }
}

/// What asking about a file ends with, where it is not the file's object.
enum FetchAnswer {
    Final(Fetched),
    Trouble(Trouble),
}

impl From<Trouble> for FetchAnswer {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<Result<Fetched, Trouble>> for FetchAnswer {
    fn from(answer: Result<Fetched, Trouble>) -> Self {
        answer.map_or_else(Self::Trouble, Self::Final)
    }
}

#[derive(Deserialize)]
struct FileInfo {
    #[serde(default)]
    file: Value,
}

/// Stops the requests for files of this process for a while.
fn hold(permit: &Permit<'_>, pause: Duration) {
    counter!(FILE_PAUSES).increment(1);
    tracing::warn!(pause_s = pause.as_secs(), "Slack asked for a pause; file downloads resume after it");
    permit.pause(pause);
}

fn too_many_requests(pause: Duration) -> Trouble {
    Trouble::Ours(JobFailure::Transient(format!("Slack wants a pause of {} s", pause.as_secs())))
}

/// An error that says which scope the app may lack.
pub(super) fn login_needed(what: &str) -> String {
    format!("{what}: does the app have the scope {SCOPE}?")
}
