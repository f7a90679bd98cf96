//! The HTTP client of processors. It is separate from all other clients, so that no Slack token can reach it.
//! It follows no redirects, which could send a key to another host.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};

use crate::{MAX_ANSWER_BYTES, ProcessorError};

/// A host that accepts no connection within this time is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest pause to observe: longer ones are a mistake.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// Includes the JSON around an answer and its escapes.
const MAX_BODY_BYTES: usize = 2 * MAX_ANSWER_BYTES;

/// The URL of a processor: it has the scheme https, or a host on this machine.
#[derive(Clone, PartialEq, Eq)]
pub struct ProcessorUrl(Url);

/// An invalid processor URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidUrl(&'static str);

impl FromStr for ProcessorUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let url = Url::parse(text.trim()).map_err(|_| InvalidUrl("it is not a URL"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidUrl("it contains a user name or a password"));
        }
        let host = url.host_str().unwrap_or_default();
        match url.scheme() {
            "https" if !host.is_empty() => Ok(Self(url)),
            "http" if is_this_machine(host) => Ok(Self(url)),
            _ => Err(InvalidUrl("it must begin with https://, or be an address of this machine")),
        }
    }
}

impl ProcessorUrl {
    /// The same URL with this path appended.
    pub fn with_path(&self, path: &str) -> Self {
        let mut url = self.0.clone();
        url.set_path(&format!("{}{path}", self.0.path().trim_end_matches('/')));
        Self(url)
    }

    pub(crate) fn url(&self) -> Url {
        self.0.clone()
    }
}

/// Omits path and query, which may contain a secret.
impl fmt::Debug for ProcessorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessorUrl({})", self.0.host_str().unwrap_or_default())
    }
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// A client with this timeout for a complete response.
pub(crate) fn build_client(url: &ProcessorUrl, timeout: Duration) -> Result<Client, String> {
    let provider = rustls::crypto::ring::default_provider();
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // If another thread was faster, its provider is the same.
        drop(provider.install_default().map_err(Arc::unwrap_or_clone));
    }
    let builder = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(timeout)
        .redirect(Policy::none())
        .user_agent(concat!("annalist/", env!("CARGO_PKG_VERSION")));
    let builder = if url.0.scheme() == "http" { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| error.without_url().to_string())
}

/// Sends a request and reads a response of limited length. Maps the status: 408, 425, 429 and 5xx are
/// transient errors, every other status except 200 is a permanent error.
pub(crate) async fn send_request(request: RequestBuilder) -> Result<Vec<u8>, ProcessorError> {
    let unreachable = |error: reqwest::Error| {
        let reason =
            if error.is_timeout() { "no answer in time".into() } else { error.without_url().to_string() };
        ProcessorError::transient(format!("the processor cannot be reached: {reason}"))
    };
    let mut response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    if status != StatusCode::OK {
        return Err(status_error(&response));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(ProcessorError::Permanent("the processor's answer is longer than 256 KiB".into()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn status_error(response: &Response) -> ProcessorError {
    let status = response.status();
    let reason = format!("the processor answered HTTP {}", status.as_u16());
    if status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429) {
        ProcessorError::Transient { reason, after: pause(response.headers()) }
    } else {
        ProcessorError::Permanent(reason)
    }
}

fn pause(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_url_has_https_or_a_loopback_host() {
        for valid in
            ["https://a.example/x?y=1", "http://127.0.0.1:8080/", "http://localhost/a", "http://[::1]:1"]
        {
            assert!(valid.parse::<ProcessorUrl>().is_ok(), "{valid}");
        }
        for invalid in
            ["", "a.example", "http://a.example/", "http://127.0.0.1.a.example", "ftp://a", "https://u:p@a/"]
        {
            assert!(invalid.parse::<ProcessorUrl>().is_err(), "{invalid}");
        }
        let url: ProcessorUrl = "https://a.example/base/".parse().unwrap();
        assert_eq!(url.with_path("/v1/messages").url().as_str(), "https://a.example/base/v1/messages");
        assert!(!format!("{url:?}").contains("base"));
    }
}
