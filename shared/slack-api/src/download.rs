//! Downloads: one streaming GET, redirects followed by this client.
//!
//! Every URL and every hop is held to the rule of [`super::hosts`]. A shared file is asked for with the workspace's
//! token, and a hop to where the token may not go is refused: without it, the answer would be a login page. Pictures
//! are asked for without any token.

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

/// Slack redirects once, on Enterprise Grid; some of its pictures twice.
const MAX_REDIRECTS: usize = 3;

/// A longer MIME type is treated as missing.
const MAX_CONTENT_TYPE_BYTES: usize = 255;

/// How long a download may take.
#[derive(Debug, Clone, Copy)]
pub struct DownloadTimeLimits {
    /// From a request to the beginning of its answer. Slack answers within a second, and after five of them if it
    /// has to render the file first.
    pub answer: Duration,
    /// Longest pause between two pieces of the body; after it the connection counts as dead.
    pub stall: Duration,
    /// The whole of it, so that a trickle ends as well: a GiB at 300 kB/s.
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

/// Why there is no download, or no end to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownloadError {
    /// There is no token that could be sent along.
    #[error(transparent)]
    Token(#[from] ApiError),
    /// It is no URL.
    #[error("its address is not a URL")]
    NotAUrl,
    /// Such a URL is never asked.
    #[error("{0} is not a place that Slack keeps such files at")]
    NotAllowed(String),
    /// Slack sent to such a URL.
    #[error("Slack redirected to {0}, which is not a place that Slack keeps such files at")]
    RedirectedAway(String),
    /// Slack sent from one place to another without an end, or nowhere.
    #[error("Slack redirected without leading anywhere")]
    RedirectsInVain,
    /// There was no answer.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// The body ended before its end.
    #[error("the download broke off: {0}")]
    BrokeOff(String),
    /// The body stopped coming.
    #[error("nothing came for {} s", .0.as_secs())]
    Stalled(Duration),
    /// The body never came to its end.
    #[error("it was not finished after {} s", .0.as_secs())]
    TooSlow(Duration),
}

/// What kind of answer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownloadStatus {
    /// The bytes follow.
    Found,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 410.
    Gone,
    /// 429, and how long to leave Slack alone.
    TooManyRequests(Duration),
    /// Anything else: trouble that may pass.
    Other(u16),
}

/// An answer, its body still to come.
#[derive(Debug)]
pub struct Download {
    /// What kind of answer it is.
    pub status: DownloadStatus,
    /// The MIME type it claims to have, in lower case and without parameters.
    pub content_type: Option<String>,
    /// The length it claims to have.
    pub size_bytes: Option<u64>,
    body: Box<dyn ResponseBody>,
    stall: Duration,
    whole: Duration,
    deadline: Instant,
}

impl Download {
    /// The next piece of the body; `None` at its end, which is where it was announced to be.
    ///
    /// # Errors
    /// [`DownloadError::BrokeOff`], [`DownloadError::Stalled`] or [`DownloadError::TooSlow`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, DownloadError> {
        let until = self.deadline.min(Instant::now() + self.stall);
        match timeout_at(until, self.body.chunk()).await {
            // A body that is always ready never lets a timeout be seen.
            Ok(Ok(Some(_))) if Instant::now() >= self.deadline => Err(DownloadError::TooSlow(self.whole)),
            Ok(chunk) => chunk.map_err(DownloadError::BrokeOff),
            Err(_) if until == self.deadline => Err(DownloadError::TooSlow(self.whole)),
            Err(_) => Err(DownloadError::Stalled(self.stall)),
        }
    }
}

/// What is fetched decides where from, and with what.
enum HostRule<'a> {
    File(&'a BotToken),
    Image,
}

impl HostRule<'_> {
    /// Whose token goes along, if one does.
    fn token(&self) -> Option<&BotToken> {
        match self {
            Self::File(token) => Some(token),
            Self::Image => None,
        }
    }

    fn allows(&self, url: &Url, api: &ApiUrl) -> bool {
        match self {
            Self::File(_) => may_carry_token(url, api),
            Self::Image => may_fetch_image(url, api),
        }
    }
}

impl WebApi {
    /// Begins to download a shared file with the workspace's token.
    pub async fn download(
        &self,
        team: &TeamId,
        url: &str,
        time_limits: DownloadTimeLimits,
    ) -> Result<Download, DownloadError> {
        let token = self.token(team).await?;
        self.get(&HostRule::File(&token), url, time_limits).await
    }

    /// Begins to download an avatar or an emoji, without any token.
    pub async fn download_image(
        &self,
        url: &str,
        time_limits: DownloadTimeLimits,
    ) -> Result<Download, DownloadError> {
        self.get(&HostRule::Image, url, time_limits).await
    }

    async fn get(
        &self,
        rule: &HostRule<'_>,
        url: &str,
        time_limits: DownloadTimeLimits,
    ) -> Result<Download, DownloadError> {
        let deadline = Instant::now() + time_limits.whole;
        let mut url = Url::parse(url).map_err(|_| DownloadError::NotAUrl)?;
        if !rule.allows(&url, &self.url) {
            return Err(DownloadError::NotAllowed(place(&url)));
        }
        for _ in 0..=MAX_REDIRECTS {
            let question =
                SlackRequest { url: url.clone(), token: rule.token(), form: None, time_limit: None };
            let until = deadline.min(Instant::now() + time_limits.answer);
            let answer = match timeout_at(until, self.transport.carry(question)).await {
                Ok(answer) => answer.map_err(DownloadError::Unreachable)?,
                Err(_) => return Err(DownloadError::Unreachable("no answer in time".into())),
            };
            if !answer.status.is_redirection() {
                return Ok(begin(answer, time_limits, deadline));
            }
            url = next(&url, &answer.headers).ok_or(DownloadError::RedirectsInVain)?;
            if !rule.allows(&url, &self.url) {
                return Err(DownloadError::RedirectedAway(place(&url)));
            }
        }
        Err(DownloadError::RedirectsInVain)
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

/// The host of a URL. The rest of the URL may be private.
fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or("nowhere");
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}://{host}{port}", url.scheme())
}
