//! Sends a request to Slack and returns the response.
//!
//! Programs use only [`super::http`]. A test on virtual time replaces it with a simulated Slack, since a
//! socket would depend on real time. A transport is called only after the host was checked, and follows no
//! redirects.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
pub use reqwest::header::HeaderMap;
pub use reqwest::{StatusCode, Url};

use super::tokens::BotToken;

/// Sends requests to Slack.
#[async_trait]
pub trait Transport: Debug + Send + Sync + 'static {
    /// Sends a request and waits for the head of the response, up to the request's time limit. The error does
    /// not contain the URL, which may be private.
    async fn send_request(&self, request: SlackRequest<'_>) -> Result<SlackResponse, String>;
}

#[derive(Debug)]
pub struct SlackRequest<'a> {
    /// The URL; its host was checked.
    pub url: Url,
    /// The token to send as bearer token.
    pub token: Option<&'a BotToken>,
    /// The form of a POST; a GET has none.
    pub form: Option<&'a [(&'a str, &'a str)]>,
    /// The timeout of the request including the body; if `None`, the caller enforces its own.
    pub time_limit: Option<Duration>,
}

/// A response whose body is not read yet.
#[derive(Debug)]
pub struct SlackResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The declared length of the body.
    pub size_bytes: Option<u64>,
    pub body: Box<dyn ResponseBody>,
}

/// The body of a response, in chunks.
#[async_trait]
pub trait ResponseBody: Debug + Send + Sync {
    /// The next chunk; `None` at the end. The error does not contain the URL.
    async fn chunk(&mut self) -> Result<Option<Bytes>, String>;
}
