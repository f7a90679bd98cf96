//! Carries a request to Slack and the answer back.
//!
//! In the program that is [`super::http`] and nothing else. A test that runs on virtual time plays Slack in its place:
//! a socket would let real time in. A transport is called only after the hosts were checked, and follows no redirect.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
pub use reqwest::header::HeaderMap;
pub use reqwest::{StatusCode, Url};

use super::tokens::BotToken;

/// Carries requests.
#[async_trait]
pub trait Transport: Debug + Send + Sync + 'static {
    /// Sends a request and waits for the head of its answer, for as long as the request says. The reason of a failure
    /// does not name the URL, which may be private.
    async fn carry(&self, question: SlackRequest<'_>) -> Result<SlackResponse, String>;
}

/// A request.
#[derive(Debug)]
pub struct SlackRequest<'a> {
    /// Where to: a host that was checked.
    pub url: Url,
    /// Whose token goes along as a bearer.
    pub token: Option<&'a BotToken>,
    /// The form of a POST; a GET has none.
    pub form: Option<&'a [(&'a str, &'a str)]>,
    /// How long the whole may take, the body included; without it, the caller waits as long as it likes.
    pub time_limit: Option<Duration>,
}

/// An answer, its body still to come.
#[derive(Debug)]
pub struct SlackResponse {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// How long the body claims to be.
    pub size_bytes: Option<u64>,
    /// The body.
    pub body: Box<dyn ResponseBody>,
}

/// The body of an answer, piece by piece.
#[async_trait]
pub trait ResponseBody: Debug + Send + Sync {
    /// The next piece; `None` at the end. The reason of a failure does not name the URL.
    async fn chunk(&mut self) -> Result<Option<Bytes>, String>;
}
