//! Slack's Web API: methods with their limits, tokens per workspace, and downloads.
//!
//! Nothing else talks HTTP to Slack. A token leaves only through [`http`], and only to hosts that [`hosts`] allows.
//! * [`method`] and [`limits`]: what is called, and how often; [`reply`] and [`error`]: what comes of it.
//! * [`download`]: bytes, with redirects followed by this client. [`transport`] is what carries both.
//! * [`tokens`]: one per workspace, and never used for another; [`check`] asks Slack what it thinks of each.

pub mod check;
pub mod download;
pub mod error;
pub mod hosts;
pub(crate) mod http;
pub mod limits;
pub mod method;
pub mod probe;
pub mod reply;
pub mod tokens;
pub mod transport;

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
use self::limits::MethodLimits;
use self::method::CallRate;
use self::tokens::{TokenOwner, TokenSource};
use self::transport::{SlackRequest, SlackResponse, Transport};
use ports::metrics::WEB_API_CALLS;
use slack::ids::{TeamId, Ts};

/// The whole of a call. Slack takes some seconds over the largest page; this also bounds a body that trickles.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Slack asks for up to a minute. A longer pause is the caller's to plan.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How many pauses in a row are waited out.
const PAUSES: u32 = 3;

/// The Web API, for every workspace there is a token for.
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
    /// Makes the call.
    pub async fn make(self, parameters: &[(&str, &str)]) -> Result<ApiReply, ApiError> {
        let Self { web, team, method, token } = self;
        web.counted_attempt(Some(&team), &token, method, parameters, method.time_limit()).await
    }
}

impl WebApi {
    /// A client. Nothing is asked before it is needed.
    pub fn new(url: ApiUrl, tokens: Tokens) -> Self {
        let http = Arc::new(Http::new(url.is_loopback()));
        Self::carried_by(http, url, tokens)
    }

    /// A client whose requests something else carries: a test's Slack on virtual time.
    pub fn carried_by(transport: Arc<dyn Transport>, url: ApiUrl, tokens: Tokens) -> Self {
        Self { transport, limits: MethodLimits::new(), url, tokens }
    }

    /// The same, posting this number of messages a minute to a workspace, or any number.
    #[must_use]
    pub fn posting(self, per_minute: Option<NonZeroU32>) -> Self {
        Self { limits: self.limits.posting(CallRate::posts(per_minute)), ..self }
    }

    /// Where the API is.
    pub fn url(&self) -> &ApiUrl {
        &self.url
    }

    /// Whether there is any token at all.
    pub fn has_tokens(&self) -> bool {
        match self.tokens.source() {
            TokenSource::One(_) => true,
            TokenSource::PerTeam(table) => !table().is_empty(),
        }
    }

    /// The workspaces there is a token for.
    ///
    /// # Errors
    /// [`ApiError`] if Slack has to be asked whose the only token is, and does not say.
    pub async fn teams(&self) -> Result<Vec<TeamId>, ApiError> {
        match self.tokens.source() {
            TokenSource::One(token) => Ok(vec![self.owner(token).await?.team.clone()]),
            TokenSource::PerTeam(table) => Ok(table().keys().cloned().collect()),
        }
    }

    /// Whether there is a token for this workspace.
    ///
    /// # Errors
    /// As [`WebApi::teams`].
    pub async fn knows_token(&self, team: &TeamId) -> Result<bool, ApiError> {
        match self.tokens.source() {
            TokenSource::One(token) => Ok(self.owner(token).await?.team == *team),
            TokenSource::PerTeam(table) => Ok(table().contains_key(team)),
        }
    }

    /// Calls a method for a workspace, waiting for the method's limit and for short pauses that Slack asks for.
    ///
    /// # Errors
    /// [`ApiError`]; [`ApiError::RateLimited`] if Slack asks for a long pause, or for one after the other.
    pub async fn call(
        &self,
        team: &TeamId,
        method: Method,
        parameters: &[(&str, &str)],
    ) -> Result<ApiReply, ApiError> {
        let token = self.token(team).await?;
        self.ask(Some(team), &token, method, parameters).await
    }

    /// Calls a method and waits for this program's own rate limit only: if Slack asks for a pause, the pause is the answer, so
    /// that the caller can wait elsewhere.
    ///
    /// # Errors
    /// [`ApiError`]; [`ApiError::RateLimited`] even without a call, as long as the pause lasts.
    pub async fn call_without_pauses(
        &self,
        team: &TeamId,
        method: Method,
        parameters: &[(&str, &str)],
    ) -> Result<ApiReply, ApiError> {
        self.permit(team, method).await?.make(parameters).await
    }

    /// Waits as [`WebApi::call_without_pauses`] does, and leaves the call to the caller: what has to be written shortly before it is
    /// not written before the wait.
    ///
    /// # Errors
    /// [`ApiError`], of a call that was not made.
    pub async fn permit(&self, team: &TeamId, method: Method) -> Result<PermittedCall<'_>, ApiError> {
        let token = match tokio::time::timeout(Method::AuthTest.time_limit(), self.token(team)).await {
            Ok(token) => token?,
            Err(_) => {
                let why = "no answer in time".to_owned();
                return Err(ApiError::Unreachable { method: Method::AuthTest, why });
            }
        };
        let permit = self.limits.permit(Some(team), method, Duration::ZERO).await;
        permit.map_err(|retry_after| ApiError::RateLimited { method, retry_after })?;
        Ok(PermittedCall { web: self, team: team.clone(), method, token })
    }

    /// Calls a method for a workspace less often from now on: Slack's limits for some apps are lower than those it documents
    /// for the method.
    pub fn lower(&self, team: &TeamId, method: Method, per_minute: NonZeroU32) {
        self.limits.lower(Some(team), method, per_minute);
    }

    /// When Slack said, by its own clock, whose the token of a workspace is: asked once, so that a process that has just started
    /// knows a time that is not later than now.
    ///
    /// # Errors
    /// As [`WebApi::call`]; [`ApiError::Garbled`] if Slack named no time.
    pub async fn first_answer(&self, team: &TeamId) -> Result<Ts, ApiError> {
        let token = self.token(team).await?;
        let said_at = self.owner(&token).await?.said_at.clone();
        said_at.ok_or(ApiError::Garbled { method: Method::AuthTest, why: "it has no date" })
    }

    /// What time it is by Slack's clock, to the second before. Slack is asked each time, so this says as well whether it still
    /// accepts the token.
    ///
    /// # Errors
    /// As [`WebApi::call`]; [`ApiError::Garbled`] if Slack named no time.
    pub async fn now(&self, team: &TeamId) -> Result<Ts, ApiError> {
        let reply = self.call(team, Method::AuthTest, &[]).await?;
        reply.date().cloned().ok_or(ApiError::Garbled { method: Method::AuthTest, why: "it has no date" })
    }

    /// The token of a workspace. Slack has confirmed that it is that workspace's: a mistake in a file of tokens does
    /// not mix up two workspaces.
    async fn token(&self, team: &TeamId) -> Result<BotToken, ApiError> {
        match self.tokens.source() {
            TokenSource::One(token) if self.owner(token).await?.team == *team => Ok(token.clone()),
            TokenSource::One(_) => Err(ApiError::NoToken(team.clone())),
            TokenSource::PerTeam(table) => {
                let token = table().get(team).cloned().ok_or_else(|| ApiError::NoToken(team.clone()))?;
                match &self.owner(&token).await?.team {
                    owner if owner == team => {}
                    owner => {
                        return Err(ApiError::WrongToken { team: team.clone(), owner: owner.clone() });
                    }
                }
                Ok(token)
            }
        }
    }

    /// The workspace a token belongs to. Slack is asked once. <https://docs.slack.dev/reference/methods/auth.test>
    async fn owner<'t>(&self, token: &'t BotToken) -> Result<&'t TokenOwner, ApiError> {
        let ask = || async {
            let reply = self.ask(None, token, Method::AuthTest, &[]).await?;
            Ok(TokenOwner { team: check::bot(&reply)?.team, said_at: reply.date().cloned() })
        };
        token.owner().get_or_try_init(ask).await
    }

    async fn ask(
        &self,
        team: Option<&TeamId>,
        token: &BotToken,
        method: Method,
        parameters: &[(&str, &str)],
    ) -> Result<ApiReply, ApiError> {
        let mut pauses = 0;
        loop {
            let permit = self.limits.permit(team, method, TIMEOUT).await;
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

    /// One call, counted; a pause that Slack asks for is kept by all who call this method for this workspace.
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
            self.limits.hold(team, method, *retry_after);
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
        let question = SlackRequest {
            url: self.url.method(method.name()),
            token,
            form: Some(parameters),
            time_limit: Some(time_limit),
        };
        self.transport.carry(question).await.map_err(|why| ApiError::Unreachable { method, why })
    }
}
