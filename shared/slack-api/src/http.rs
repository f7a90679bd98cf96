//! The one HTTP client. Redirects are never followed here: a generic client would either lose the token on the way or
//! carry it to another host.

use std::error::Error as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::redirect::Policy;

use super::transport::{ResponseBody, SlackRequest, SlackResponse, Transport};

/// Slack answers within a fraction of a second; a host that does not take a connection in this time is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection that says nothing for this long is dead: it bounds the wait for an answer and for each piece of a body.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes the client when it is first needed: reading the machine's certificates takes longer than starting.
#[derive(Debug)]
pub(crate) struct Http {
    /// Bypasses any proxy: a fake Slack on this machine is called without encryption, which no other host may see.
    direct: bool,
    client: OnceLock<Result<reqwest::Client, String>>,
}

impl Http {
    pub(crate) fn new(direct: bool) -> Self {
        Self { direct, client: OnceLock::new() }
    }

    /// The client.
    pub(crate) fn client(&self) -> Result<&reqwest::Client, String> {
        let build = || build(self.direct).map_err(describe);
        self.client.get_or_init(build).as_ref().map_err(Clone::clone)
    }
}

#[async_trait]
impl Transport for Http {
    async fn carry(&self, question: SlackRequest<'_>) -> Result<SlackResponse, String> {
        let client = self.client()?;
        let mut request = match question.form {
            Some(form) => client.post(question.url).form(form),
            None => client.get(question.url),
        };
        if let Some(time_limit) = question.time_limit {
            request = request.timeout(time_limit);
        }
        if let Some(token) = question.token {
            request = request.bearer_auth(token.expose());
        }
        let response = request.send().await.map_err(describe)?;
        Ok(SlackResponse {
            status: response.status(),
            headers: response.headers().clone(),
            size_bytes: response.content_length(),
            body: Box::new(response),
        })
    }
}

#[async_trait]
impl ResponseBody for reqwest::Response {
    async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        reqwest::Response::chunk(self).await.map_err(describe)
    }
}

fn build(direct: bool) -> reqwest::Result<reqwest::Client> {
    let provider = rustls::crypto::ring::default_provider();
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have been faster; its provider is the same one.
        drop(provider.install_default().map_err(Arc::unwrap_or_clone));
    }
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .redirect(Policy::none())
        .user_agent(concat!("annalist/", env!("CARGO_PKG_VERSION")));
    if direct { builder.no_proxy() } else { builder }.build()
}

/// What went wrong, down to its cause, without the URL, which may be private.
pub(crate) fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut description = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        description.push_str(": ");
        description.push_str(&deeper.to_string());
        cause = deeper.source();
    }
    description
}
