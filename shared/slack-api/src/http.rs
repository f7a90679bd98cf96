//! The only HTTP client for Slack. It never follows redirects: a generic client would either drop the token
//! or send it to another host.

use std::error::Error as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::redirect::Policy;

use super::transport::{ResponseBody, SlackRequest, SlackResponse, Transport};

/// Slack responds within a fraction of a second; a host that does not accept a connection within this time is
/// down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection without data for this long is dead: this limits the wait for a response and for each chunk of
/// a body.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Creates the client when it is first needed: loading the system's certificates takes longer than starting
/// the process.
#[derive(Debug)]
pub(crate) struct Http {
    /// Bypasses any proxy: a fake Slack on this machine is called without encryption, and no other host may
    /// see the requests.
    direct: bool,
    client: OnceLock<Result<reqwest::Client, String>>,
}

impl Http {
    pub(crate) fn new(direct: bool) -> Self {
        Self { direct, client: OnceLock::new() }
    }

    pub(crate) fn client(&self) -> Result<&reqwest::Client, String> {
        // Only the machine's certificates can keep it from being built.
        let build = || {
            let advice = "install the certificates of authorities (ca-certificates)";
            build(self.direct).map_err(|error| format!("{}: {advice}", describe(error)))
        };
        self.client.get_or_init(build).as_ref().map_err(Clone::clone)
    }
}

#[async_trait]
impl Transport for Http {
    async fn send_request(&self, slack_request: SlackRequest<'_>) -> Result<SlackResponse, String> {
        let client = self.client()?;
        let mut request = match slack_request.form {
            Some(form) => client.post(slack_request.url).form(form),
            None => client.get(slack_request.url),
        };
        if let Some(time_limit) = slack_request.time_limit {
            request = request.timeout(time_limit);
        }
        if let Some(token) = slack_request.token {
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
        // If another thread was faster, its provider is the same.
        drop(provider.install_default().map_err(Arc::unwrap_or_clone));
    }
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .redirect(Policy::none())
        .user_agent(concat!("annalist/", env!("CARGO_PKG_VERSION")));
    // Without encryption no certificates are needed, and a minimal system has none.
    if direct { builder.no_proxy().tls_certs_only([]) } else { builder }.build()
}

/// Describes an error with its causes, without the URL, which may be private.
pub(crate) fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut description = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        description.push_str(": ");
        description.push_str(&error.to_string());
        cause = error.source();
    }
    description
}
