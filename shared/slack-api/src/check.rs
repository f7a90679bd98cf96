//! Checks each token with Slack: once, without waits and retries, so that the user sees a mistake
//! immediately.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;

use super::reply::{date_s, scopes};
use super::tokens::TokenSecret;
use super::{ApiError, ApiReply, BotToken, Method, TokenKind, WebApi};
use ports::clock::{Clock, TimestampMs};
use slack::envelope::text_or_none;
use slack::ids::TeamId;

/// Slack responds within a fraction of a second.
const TIMEOUT: Duration = Duration::from_secs(8);

/// A token with Slack's response to it.
#[derive(Debug)]
pub struct CheckedToken {
    token: BotToken,
    /// The workspace that the token file assigns to it, if any.
    pub configured_team: Option<TeamId>,
    pub kind: TokenKind,
    /// The result of the check.
    pub check: TokenCheck,
}

/// The result of checking a token.
#[derive(Debug)]
pub struct TokenCheck {
    /// The identity of the token, or the error.
    pub answer: Result<BotIdentity, ApiError>,
    /// The scopes of the token, if Slack returned them.
    pub scopes: Option<BTreeSet<String>>,
    /// A comparison of the clocks, if Slack returned a date.
    pub clocks: Option<ClockComparison>,
}

/// A comparison of Slack's clock with this machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockComparison {
    /// When Slack responded, by its own clock, in whole seconds since the Unix epoch.
    pub slack_s: i64,
    /// This machine's time before the request.
    pub before: TimestampMs,
    /// This machine's time after the response.
    pub after: TimestampMs,
}

impl ClockComparison {
    /// The minimum number of seconds that this machine's clock is ahead of Slack's; negative if it is behind.
    /// Slack's second was current at some moment between request and response.
    pub fn ahead_s(&self) -> i64 {
        let (before_s, after_s) = (self.before.seconds(), self.after.seconds());
        if before_s > self.slack_s {
            before_s - self.slack_s
        } else if after_s < self.slack_s {
            after_s - self.slack_s
        } else {
            0
        }
    }
}

/// The identity of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BotIdentity {
    pub team: TeamId,
    pub team_name: Option<String>,
    /// The name of the app's user there.
    pub user: Option<String>,
    /// The id of the app's bot there.
    pub bot_id: Option<String>,
}

#[derive(Deserialize)]
struct Identity<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    team_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    team: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    user: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    bot_id: Option<Cow<'a, str>>,
}

impl WebApi {
    /// Checks at most `max_tokens` tokens with Slack, one after the other.
    pub async fn check_tokens(&self, max_tokens: usize, clock: &dyn Clock) -> Vec<CheckedToken> {
        let secrets = self.tokens.source().last();
        let tokens = secrets.iter().flat_map(TokenSecret::tokens).take(max_tokens);
        let tokens: Vec<(Option<TeamId>, BotToken)> =
            tokens.map(|(team, token)| (team.cloned(), token.clone())).collect();
        let mut checked = Vec::with_capacity(tokens.len());
        for (given_for, token) in tokens {
            let look = self.check_token(Some(&token), clock).await;
            checked.push(CheckedToken { configured_team: given_for, kind: token.kind(), check: look, token });
        }
        checked
    }

    /// Makes a call without a token, which returns only Slack's time.
    pub async fn check_without_token(&self, clock: &dyn Clock) -> TokenCheck {
        self.check_token(None, clock).await
    }

    /// Calls a method with a checked token. Does not wait out pauses: a pause that Slack requests is returned
    /// as an error.
    pub async fn call_once(
        &self,
        checked: &CheckedToken,
        method: Method,
        parameters: &[(&str, &str)],
    ) -> Result<ApiReply, ApiError> {
        let response = self.send(Some(&checked.token), method, parameters, TIMEOUT).await?;
        ApiReply::receive(method, response).await
    }

    async fn check_token(&self, token: Option<&BotToken>, clock: &dyn Clock) -> TokenCheck {
        let method = Method::AuthTest;
        let before = clock.now();
        match self.send(token, method, &[], TIMEOUT).await {
            Err(error) => TokenCheck { answer: Err(error), scopes: None, clocks: None },
            Ok(response) => {
                let after = clock.now();
                let times =
                    date_s(&response.headers).map(|slack_s| ClockComparison { slack_s, before, after });
                let scopes = scopes(&response.headers);
                let answer = ApiReply::receive(method, response).await.and_then(|reply| bot_identity(&reply));
                TokenCheck { answer, scopes, clocks: times }
            }
        }
    }
}

/// The identity of a token from the reply of `auth.test`.
pub(super) fn bot_identity(reply: &ApiReply) -> Result<BotIdentity, ApiError> {
    let identity: Identity<'_> = reply.read()?;
    let team = identity.team_id.and_then(|team| TeamId::parse(&team).ok());
    let team = team.ok_or(ApiError::Garbled { method: Method::AuthTest, why: "it names no workspace" })?;
    let text = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned).filter(|text| !text.is_empty());
    Ok(BotIdentity {
        team,
        team_name: text(identity.team),
        user: text(identity.user),
        bot_id: text(identity.bot_id),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_difference_excludes_the_duration_of_the_request() {
        let ahead = |before_s: i64, after_s: i64| {
            let ms = |seconds: i64| TimestampMs(seconds * 1000 + 900);
            ClockComparison { slack_s: 1000, before: ms(before_s), after: ms(after_s) }.ahead_s()
        };
        for (before_s, after_s, expected) in
            [(1000, 1000, 0), (998, 1003, 0), (1001, 1002, 1), (1400, 1401, 400), (700, 701, -299)]
        {
            assert_eq!(ahead(before_s, after_s), expected, "{before_s}");
        }
    }
}
