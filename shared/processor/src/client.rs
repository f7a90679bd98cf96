//! The HTTP client of processors. It is no other's: no token of Slack's can reach it. It follows no redirect, which would carry
//! a key to another host.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};

use crate::{MAX_ANSWER_BYTES, ProcessorError};

/// A host that takes no connection in this time is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest pause that is kept: what is beyond it was never meant.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// What surrounds an answer in JSON, and escapes in it.
const MAX_BODY_BYTES: usize = 2 * MAX_ANSWER_BYTES;

/// Where a processor is: an address that begins with https, or one of this machine.
#[derive(Clone, PartialEq, Eq)]
pub struct ProcessorUrl(Url);

/// An address that no processor can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidUrl(&'static str);

impl FromStr for ProcessorUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let url = Url::parse(text.trim()).map_err(|_| InvalidUrl("it is no address"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidUrl("it holds a user name or a password"));
        }
        let host = url.host_str().unwrap_or_default();
        match url.scheme() {
            "https" if !host.is_empty() => Ok(Self(url)),
            "http" if is_this_machine(host) => Ok(Self(url)),
            _ => Err(InvalidUrl("it has to begin with https://, or be an address of this machine")),
        }
    }
}

impl ProcessorUrl {
    /// The same with this path behind it.
    pub fn joined(&self, path: &str) -> Self {
        let mut url = self.0.clone();
        url.set_path(&format!("{}{path}", self.0.path().trim_end_matches('/')));
        Self(url)
    }

    pub(crate) fn url(&self) -> Url {
        self.0.clone()
    }
}

/// A path or a query may hold a secret.
impl fmt::Debug for ProcessorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessorUrl({})", self.0.host_str().unwrap_or_default())
    }
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// A client that waits for this long for a whole answer.
pub(crate) fn build(url: &ProcessorUrl, timeout: Duration) -> Result<Client, String> {
    let provider = rustls::crypto::ring::default_provider();
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have been faster; its provider is the same one.
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

/// Sends a request, and reads an answer of a bounded length. What a status means is decided here: 408, 425, 429, 529 and the
/// rest of 5xx pass, everything else but 200 does not.
pub(crate) async fn ask(request: RequestBuilder) -> Result<Vec<u8>, ProcessorError> {
    let unreachable = |error: reqwest::Error| {
        let reason =
            if error.is_timeout() { "no answer in time".into() } else { error.without_url().to_string() };
        ProcessorError::transient(format!("the processor cannot be reached: {reason}"))
    };
    let mut response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    if status != StatusCode::OK {
        return Err(refused(&response));
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

fn refused(response: &Response) -> ProcessorError {
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
    fn a_processor_is_behind_https_or_on_this_machine() {
        for fine in
            ["https://a.example/x?y=1", "http://127.0.0.1:8080/", "http://localhost/a", "http://[::1]:1"]
        {
            assert!(fine.parse::<ProcessorUrl>().is_ok(), "{fine}");
        }
        for refused in
            ["", "a.example", "http://a.example/", "http://127.0.0.1.a.example", "ftp://a", "https://u:p@a/"]
        {
            assert!(refused.parse::<ProcessorUrl>().is_err(), "{refused}");
        }
        let url: ProcessorUrl = "https://a.example/base/".parse().unwrap();
        assert_eq!(url.joined("/v1/messages").url().as_str(), "https://a.example/base/v1/messages");
        assert!(!format!("{url:?}").contains("base"));
    }
}
