//! Downloads: one streaming GET, redirects followed by this client.
//!
//! [`super::hosts`] must allow every URL and every redirect. A shared file is requested with the workspace's
//! token, and a redirect to a host that may not receive the token is refused: without the token, the response
//! would be a login page. Images are requested without a token.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{StatusCode, Url};
use tokio::time::{Instant, timeout_at};

use super::error::ApiError;
use super::hosts::{may_carry_token, may_fetch_image};
use super::reply::retry_after;
use super::tokens::BotToken;
use super::transport::{ResponseBody, SlackRequest, SlackResponse};
use super::{ApiUrl, WebApi};
use slack::ids::TeamId;

/// Slack redirects files once, on Enterprise Grid, and some images twice.
const MAX_REDIRECTS: usize = 3;

/// A longer MIME type is treated as missing.
const MAX_CONTENT_TYPE_BYTES: usize = 255;

/// The timeouts of a download.
#[derive(Debug, Clone, Copy)]
pub struct DownloadTimeLimits {
    /// From a request to the start of its response. Slack responds within a second, or within five if it must
    /// render the file first.
    pub answer: Duration,
    /// The longest pause between two chunks of the body; after it the connection counts as dead.
    pub stall: Duration,
    /// The complete download, so that a very slow one ends as well: a GiB at 300 kB/s.
    pub whole: Duration,
}

impl Default for DownloadTimeLimits {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            whole: Duration::from_secs(3_600),
        }
    }
}

/// Why a download failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownloadError {
    /// There is no usable token.
    #[error(transparent)]
    Token(#[from] ApiError),
    #[error("its address is not a URL")]
    NotAUrl,
    #[error("{0} is not a host where Slack keeps such files")]
    NotAllowed(String),
    /// Slack redirected to a host that is not allowed.
    #[error("Slack redirected to {0}, which is not a host where Slack keeps such files")]
    ForbiddenRedirect(String),
    /// Slack redirected too often, or without a valid location.
    #[error("Slack redirected without leading anywhere")]
    UnusableRedirects,
    /// There was no response.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// The body ended early.
    #[error("the download broke off: {0}")]
    Interrupted(String),
    /// The body stalled.
    #[error("nothing came for {} s", .0.as_secs())]
    Stalled(Duration),
    /// The body was not complete at the deadline.
    #[error("it was not finished after {} s", .0.as_secs())]
    TooSlow(Duration),
}

/// The kind of response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownloadStatus {
    /// 200: the bytes follow.
    Found,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 410.
    Gone,
    /// 429, with the pause that Slack requests.
    TooManyRequests(Duration),
    /// Any other status: a failure that may be temporary.
    Other(u16),
}

/// A response whose body is not read yet.
#[derive(Debug)]
pub struct Download {
    /// The kind of response.
    pub status: DownloadStatus,
    /// The declared MIME type, in lower case and without parameters.
    pub content_type: Option<String>,
    /// The declared length.
    pub size_bytes: Option<u64>,
    body: Box<dyn ResponseBody>,
    stall: Duration,
    whole: Duration,
    deadline: Instant,
}

impl Download {
    /// The next chunk of the body; `None` at its end, which matches the declared length.
    ///
    /// # Errors
    /// [`DownloadError::Interrupted`], [`DownloadError::Stalled`] or [`DownloadError::TooSlow`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, DownloadError> {
        let until = self.deadline.min(Instant::now() + self.stall);
        match timeout_at(until, self.body.chunk()).await {
            // With a body that is always ready, the timeout never fires.
            Ok(Ok(Some(_))) if Instant::now() >= self.deadline => Err(DownloadError::TooSlow(self.whole)),
            Ok(chunk) => chunk.map_err(DownloadError::Interrupted),
            Err(_) if until == self.deadline => Err(DownloadError::TooSlow(self.whole)),
            Err(_) => Err(DownloadError::Stalled(self.stall)),
        }
    }
}

/// Whether a download may request `url`: with a token, as for a shared file, or without one, as for an image.
fn is_allowed(token: Option<&BotToken>, url: &Url, api: &ApiUrl) -> bool {
    if token.is_some() { may_carry_token(url, api) } else { may_fetch_image(url, api) }
}

impl WebApi {
    /// Starts the download of a shared file with the workspace's token; if Slack refuses it, once more with a
    /// new one, if there is one.
    pub async fn download(
        &self,
        team: &TeamId,
        url: &str,
        time_limits: DownloadTimeLimits,
    ) -> Result<Download, DownloadError> {
        let token = self.token(team).await?;
        let answer = self.get(Some(&token), url, time_limits).await;
        // Slack redirects a request with a refused token to its login page.
        let is_refused = matches!(
            &answer,
            Ok(Download { status: DownloadStatus::Unauthorized, .. })
                | Err(DownloadError::ForbiddenRedirect(_))
        );
        match self.replacement(team, &token, is_refused).await {
            Some(newer) => self.get(Some(&newer), url, time_limits).await,
            None => answer,
        }
    }

    /// Starts the download of an avatar or an emoji, without a token.
    pub async fn download_image(
        &self,
        url: &str,
        time_limits: DownloadTimeLimits,
    ) -> Result<Download, DownloadError> {
        self.get(None, url, time_limits).await
    }

    async fn get(
        &self,
        token: Option<&BotToken>,
        url: &str,
        time_limits: DownloadTimeLimits,
    ) -> Result<Download, DownloadError> {
        let deadline = Instant::now() + time_limits.whole;
        let mut url = Url::parse(url).map_err(|_| DownloadError::NotAUrl)?;
        if !is_allowed(token, &url, &self.url) {
            return Err(DownloadError::NotAllowed(origin(&url)));
        }
        for _ in 0..=MAX_REDIRECTS {
            let request = SlackRequest { url: url.clone(), token, form: None, time_limit: None };
            let until = deadline.min(Instant::now() + time_limits.answer);
            let answer = match timeout_at(until, self.transport.send_request(request)).await {
                Ok(answer) => answer.map_err(DownloadError::Unreachable)?,
                Err(_) => return Err(DownloadError::Unreachable("no answer in time".into())),
            };
            if !answer.status.is_redirection() {
                return Ok(begin(answer, time_limits, deadline));
            }
            url = next(&url, &answer.headers).ok_or(DownloadError::UnusableRedirects)?;
            if !is_allowed(token, &url, &self.url) {
                return Err(DownloadError::ForbiddenRedirect(origin(&url)));
            }
        }
        Err(DownloadError::UnusableRedirects)
    }
}

fn begin(answer: SlackResponse, time_limits: DownloadTimeLimits, deadline: Instant) -> Download {
    let headers = &answer.headers;
    let status = match answer.status {
        StatusCode::OK => DownloadStatus::Found,
        StatusCode::UNAUTHORIZED => DownloadStatus::Unauthorized,
        StatusCode::FORBIDDEN => DownloadStatus::Forbidden,
        StatusCode::NOT_FOUND => DownloadStatus::NotFound,
        StatusCode::GONE => DownloadStatus::Gone,
        StatusCode::TOO_MANY_REQUESTS => DownloadStatus::TooManyRequests(retry_after(headers)),
        other => DownloadStatus::Other(other.as_u16()),
    };
    Download {
        status,
        content_type: content_type(headers),
        size_bytes: answer.size_bytes,
        body: answer.body,
        stall: time_limits.stall,
        whole: time_limits.whole,
        deadline,
    }
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = text.split(';').next().unwrap_or_default().trim();
    (kind.len() <= MAX_CONTENT_TYPE_BYTES).then(|| kind.to_ascii_lowercase())
}

fn next(url: &Url, headers: &HeaderMap) -> Option<Url> {
    url.join(headers.get(LOCATION)?.to_str().ok()?).ok()
}

/// The scheme, host and port of a URL. The rest of the URL may be private.
fn origin(url: &Url) -> String {
    let host = url.host_str().unwrap_or("nowhere");
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}://{host}{port}", url.scheme())
}
