//! A client of Slack's Web API: methods with their rate limits, tokens per workspace, and downloads.
//!
//! No other code makes HTTP requests to Slack. A token is sent only through [`http`], and only to hosts that
//! [`hosts`] allows.
//! * [`method`] and [`limits`]: the methods and their rate limits; [`reply`] and [`error`]: the results of
//!   calls.
//! * [`download`]: streaming downloads, with redirects followed by this client. [`transport`] sends the
//!   requests of both.
//! * [`tokens`]: one per workspace, and never used for another; `workspace_tokens` finds it, and reads the tokens
//!   again; [`check`] verifies each with Slack.
//! * `socket`: connections of Socket Mode.

pub mod check;
pub mod download;
pub mod error;
pub mod hosts;
pub(crate) mod http;
pub mod limits;
pub mod method;
pub mod probe;
pub mod reply;
#[cfg(feature = "socket")]
pub mod socket;
pub mod tokens;
pub mod transport;
mod workspace_tokens;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use metrics::counter;

pub use error::ApiError;
pub use hosts::ApiUrl;
pub use method::Method;
pub use reply::ApiReply;
pub use tokens::{BotToken, TokenKind, Tokens};

use self::http::Http;
use self::limits::{LimitScope, MethodLimits};
use self::method::CallRate;
use self::transport::{SlackRequest, SlackResponse, Transport};
use ports::metrics::WEB_API_CALLS;
use slack::ids::{TeamId, Ts};

/// The timeout of a complete call. Slack takes some seconds for the largest page; the timeout also limits a
/// body that arrives slowly.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest pause that a call waits out. Slack requests up to a minute; the caller must schedule longer
/// pauses.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum number of consecutive pauses that a call waits out.
const PAUSES: u32 = 3;

/// The Web API, for every workspace with a token.
#[derive(Debug)]
pub struct WebApi {
    url: ApiUrl,
    tokens: Tokens,
    transport: Arc<dyn Transport>,
    limits: MethodLimits,
}

/// A call that this program's own rate limit permits now.
#[derive(Debug)]
pub struct PermittedCall<'w> {
    web: &'w WebApi,
    team: TeamId,
    method: Method,
    token: BotToken,
}

impl PermittedCall<'_> {
    /// Makes the call; if Slack refuses the token, once more with a new one, if there is one.
    pub async fn execute(self, parameters: &[(&str, &str)]) -> Result<ApiReply, ApiError> {
        let Self { web, team, method, token } = self;
        let attempt = async |token| {
            web.counted_attempt(Some(&team), token, method, parameters, method.time_limit()).await
        };
        let answer = attempt(&token).await;
        let is_refused = answer.as_ref().is_err_and(ApiError::is_token_error);
        match web.replacement(&team, &token, is_refused).await {
            Some(newer) => attempt(&newer).await,
            None => answer,
        }
    }
}

impl WebApi {
    /// A client. It sends no request before the first call.
    pub fn new(url: ApiUrl, tokens: Tokens) -> Self {
        let http = Arc::new(Http::new(url.is_loopback()));
        Self::with_transport(http, url, tokens)
    }

    /// A client with another transport, such as a test's Slack on virtual time.
    pub fn with_transport(transport: Arc<dyn Transport>, url: ApiUrl, tokens: Tokens) -> Self {
        Self { transport, limits: MethodLimits::new(), url, tokens }
    }

    /// The same client with a limit of messages posted per minute to a workspace, or without a limit.
    #[must_use]
    pub fn with_post_limit(self, per_minute: Option<NonZeroU32>) -> Self {
        Self { limits: self.limits.with_post_rate(CallRate::posts(per_minute)), ..self }
    }

    /// The base URL of the API.
    pub fn url(&self) -> &ApiUrl {
        &self.url
    }

    /// Calls a method for a workspace. Waits for the method's rate limit and for short pauses that Slack
    /// requests. If Slack refuses the token, calls once more with a new one, if there is one.
    ///
    /// # Errors
    /// [`ApiError`]; [`ApiError::RateLimited`] if Slack requests a long pause, or too many in a row.
    pub async fn call(
        &self,
        team: &TeamId,
        method: Method,
        parameters: &[(&str, &str)],
    ) -> Result<ApiReply, ApiError> {
        let token = self.token(team).await?;
        let answer = self.call_with_token(Some(team), &token, method, parameters).await;
        let is_refused = answer.as_ref().is_err_and(ApiError::is_token_error);
        match self.replacement(team, &token, is_refused).await {
            Some(newer) => self.call_with_token(Some(team), &newer, method, parameters).await,
            None => answer,
        }
    }

    /// Calls a method and waits only for this program's own rate limit. If Slack requests a pause, returns it
    /// as an error, so that the caller can wait elsewhere.
    ///
    /// # Errors
    /// [`ApiError`]; during a pause, [`ApiError::RateLimited`] without a call.
    pub async fn call_without_pauses(
        &self,
        team: &TeamId,
        method: Method,
        parameters: &[(&str, &str)],
    ) -> Result<ApiReply, ApiError> {
        self.permit(team, method).await?.execute(parameters).await
    }

    /// Waits like [`WebApi::call_without_pauses`] and leaves the call to the caller, which can thus write
    /// something between the wait and the call.
    ///
    /// # Errors
    /// [`ApiError`], if the call is not permitted.
    pub async fn permit(&self, team: &TeamId, method: Method) -> Result<PermittedCall<'_>, ApiError> {
        let token = match tokio::time::timeout(Method::AuthTest.time_limit(), self.token(team)).await {
            Ok(token) => token?,
            Err(_) => {
                let why = "no answer in time".to_owned();
                return Err(ApiError::Unreachable { method: Method::AuthTest, why });
            }
        };
        let permit = self.limits.permit(LimitScope::Team(team), method, Duration::ZERO).await;
        permit.map_err(|retry_after| ApiError::RateLimited { method, retry_after })?;
        Ok(PermittedCall { web: self, team: team.clone(), method, token })
    }

    /// Lowers the rate limit of a method for a workspace: Slack's limits for some apps are lower than the
    /// documented limits of the method.
    pub fn lower_limit(&self, team: &TeamId, method: Method, per_minute: NonZeroU32) {
        self.limits.lower(LimitScope::Team(team), method, per_minute);
    }

    /// Slack's time when it confirmed the owner of the workspace's token. It is requested once, so that a
    /// process that has just started has a time that is not later than now.
    ///
    /// # Errors
    /// As [`WebApi::call`]; [`ApiError::Garbled`] if the response has no date.
    pub async fn first_slack_time(&self, team: &TeamId) -> Result<Ts, ApiError> {
        let token = self.token(team).await?;
        let said_at = self.owner(&token).await?.confirmed_at.clone();
        said_at.ok_or(ApiError::Garbled { method: Method::AuthTest, why: "it has no date" })
    }

    /// The current time of Slack's clock, rounded down to the second. Sends a request each time, which also
    /// checks that Slack still accepts the token.
    ///
    /// # Errors
    /// As [`WebApi::call`]; [`ApiError::Garbled`] if the response has no date.
    pub async fn slack_time(&self, team: &TeamId) -> Result<Ts, ApiError> {
        let reply = self.call(team, Method::AuthTest, &[]).await?;
        reply.date().cloned().ok_or(ApiError::Garbled { method: Method::AuthTest, why: "it has no date" })
    }

    async fn call_with_token(
        &self,
        team: Option<&TeamId>,
        token: &BotToken,
        method: Method,
        parameters: &[(&str, &str)],
    ) -> Result<ApiReply, ApiError> {
        let mut pauses = 0;
        loop {
            let permit = self.limits.permit(limit_scope(team, token), method, TIMEOUT).await;
            permit.map_err(|retry_after| ApiError::RateLimited { method, retry_after })?;
            let answer = self.counted_attempt(team, token, method, parameters, CALL_TIMEOUT).await;
            match answer {
                Err(ApiError::RateLimited { retry_after, .. }) => {
                    if pauses == PAUSES || retry_after > TIMEOUT {
                        return Err(ApiError::RateLimited { method, retry_after });
                    }
                    pauses += 1;
                }
                Ok(_)
                | Err(
                    ApiError::NoToken(_)
                    | ApiError::WrongToken { .. }
                    | ApiError::Refused { .. }
                    | ApiError::Unreachable { .. }
                    | ApiError::Garbled { .. },
                ) => return answer,
            }
        }
    }

    /// Makes one call and counts it. A pause that Slack requests applies to all callers of this method for
    /// this workspace.
    async fn counted_attempt(
        &self,
        team: Option<&TeamId>,
        token: &BotToken,
        method: Method,
        parameters: &[(&str, &str)],
        time_limit: Duration,
    ) -> Result<ApiReply, ApiError> {
        let answer = match self.send(Some(token), method, parameters, time_limit).await {
            Ok(response) => ApiReply::receive(method, response).await,
            Err(error) => Err(error),
        };
        let outcome = answer.as_ref().err().map_or("ok", ApiError::label);
        counter!(WEB_API_CALLS, "method" => method.name(), "outcome" => outcome).increment(1);
        if let Err(ApiError::RateLimited { retry_after, .. }) = &answer {
            self.limits.pause(limit_scope(team, token), method, *retry_after);
        }
        answer
    }

    async fn send(
        &self,
        token: Option<&BotToken>,
        method: Method,
        parameters: &[(&str, &str)],
        time_limit: Duration,
    ) -> Result<SlackResponse, ApiError> {
        let request = SlackRequest {
            url: self.url.method(method.name()),
            token,
            form: Some(parameters),
            time_limit: Some(time_limit),
        };
        self.transport.send_request(request).await.map_err(|why| ApiError::Unreachable { method, why })
    }
}
fn limit_scope<'a>(team: Option<&'a TeamId>, token: &'a BotToken) -> LimitScope<'a> {
    team.map_or(LimitScope::Token(token), LimitScope::Team)
}
