//! What Slack thinks of each token: asked once, without waiting and without retries, so that the user hears of a
//! mistake at once.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::header::HeaderMap;
use serde::Deserialize;

use super::error::code;
use super::reply::date_s;
use super::tokens::TokenSource;
use super::{ApiError, ApiReply, BotToken, Method, TokenKind, WebApi};
use ports::clock::{Clock, TimestampMs};
use slack::envelope::text_or_none;
use slack::ids::TeamId;

/// Slack answers within a fraction of a second.
const TIMEOUT: Duration = Duration::from_secs(8);

/// Every answer to a token names the scopes it has. <https://docs.slack.dev/apis/web-api/>
const SCOPES: &str = "x-oauth-scopes";

/// A token, and what Slack said about it.
#[derive(Debug)]
pub struct Checked {
    token: BotToken,
    /// The workspace it was given for, if it was given for one.
    pub given_for: Option<TeamId>,
    /// What kind of token it is.
    pub kind: TokenKind,
    /// What Slack answered.
    pub look: Look,
}

/// One answer of Slack's.
#[derive(Debug)]
pub struct Look {
    /// Whom the token acts for.
    pub answer: Result<Bot, ApiError>,
    /// What the token may do, if Slack said so.
    pub scopes: Option<BTreeSet<String>>,
    /// What time it was here and there, if Slack said so.
    pub times: Option<ClockComparison>,
}

/// Slack's clock beside this machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockComparison {
    /// When Slack answered, by its own clock, in whole seconds since the Unix epoch.
    pub slack_s: i64,
    /// This machine's time before it asked.
    pub before: TimestampMs,
    /// This machine's time when it had the answer.
    pub after: TimestampMs,
}

impl ClockComparison {
    /// How many seconds this machine's clock is ahead of Slack's, at least; negative if it is behind. Slack's second
    /// had begun at some moment between asking and having the answer.
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

/// Whom a token acts for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bot {
    /// The workspace.
    pub team: TeamId,
    /// What the workspace is called.
    pub team_name: Option<String>,
    /// What the app is called there.
    pub user: Option<String>,
}

#[derive(Deserialize)]
struct Identity<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    team_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    team: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    user: Option<Cow<'a, str>>,
}

impl WebApi {
    /// How many tokens there are.
    pub fn token_count(&self) -> usize {
        match self.tokens.source() {
            TokenSource::One(_) => 1,
            TokenSource::PerTeam(table) => table().len(),
        }
    }

    /// Shows Slack each of the first tokens, one after the other.
    pub async fn check_tokens(&self, most: usize, clock: &dyn Clock) -> Vec<Checked> {
        let tokens: Vec<(Option<TeamId>, BotToken)> = match self.tokens.source() {
            TokenSource::One(token) => vec![(None, token.clone())],
            TokenSource::PerTeam(table) => {
                table().iter().take(most).map(|(team, token)| (Some(team.clone()), token.clone())).collect()
            }
        };
        let mut checked = Vec::with_capacity(tokens.len());
        for (given_for, token) in tokens {
            let look = self.look(Some(&token), clock).await;
            checked.push(Checked { given_for, kind: token.kind(), look, token });
        }
        checked
    }

    /// What Slack says to a call without a token: nothing but its time.
    pub async fn look_without_token(&self, clock: &dyn Clock) -> Look {
        self.look(None, clock).await
    }

    /// Calls a method with a token that was checked. Nothing is waited out: the pause that Slack asks for is the answer.
    pub async fn call_once(
        &self,
        checked: &Checked,
        method: Method,
        parameters: &[(&str, &str)],
    ) -> Result<ApiReply, ApiError> {
        let answered = self.send(Some(&checked.token), method, parameters, TIMEOUT).await?;
        ApiReply::receive(method, answered).await
    }

    async fn look(&self, token: Option<&BotToken>, clock: &dyn Clock) -> Look {
        let method = Method::AuthTest;
        let before = clock.now();
        match self.send(token, method, &[], TIMEOUT).await {
            Err(error) => Look { answer: Err(error), scopes: None, times: None },
            Ok(answered) => {
                let after = clock.now();
                let times =
                    date_s(&answered.headers).map(|slack_s| ClockComparison { slack_s, before, after });
                let scopes = scopes(&answered.headers);
                let answer = ApiReply::receive(method, answered).await.and_then(|reply| bot(&reply));
                Look { answer, scopes, times }
            }
        }
    }
}

/// Whose a token is, by the answer of `auth.test`.
pub(super) fn bot(reply: &ApiReply) -> Result<Bot, ApiError> {
    let identity: Identity<'_> = reply.read()?;
    let team = identity.team_id.and_then(|team| TeamId::parse(&team).ok());
    let team = team.ok_or(ApiError::Garbled { method: Method::AuthTest, why: "it names no workspace" })?;
    let text = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned).filter(|text| !text.is_empty());
    Ok(Bot { team, team_name: text(identity.team), user: text(identity.user) })
}

fn scopes(headers: &HeaderMap) -> Option<BTreeSet<String>> {
    let list = headers.get(SCOPES)?.to_str().ok()?;
    Some(list.split(',').filter_map(|scope| code(scope.trim())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_differ_by_what_cannot_be_explained_by_the_way_there_and_back() {
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

    #[test]
    fn scopes_are_what_the_header_lists() {
        let listed = |value: &str| {
            let name = reqwest::header::HeaderName::from_static(SCOPES);
            scopes(&HeaderMap::from_iter([(name, value.parse().unwrap())]))
        };
        let expected = BTreeSet::from(["channels:read".to_owned(), "files:read".to_owned()]);
        assert_eq!(listed("channels:read,files:read"), Some(expected.clone()));
        assert_eq!(listed(" files:read , channels:read, xoxb-1"), Some(expected));
        assert_eq!(listed(""), Some(BTreeSet::new()));
        assert_eq!(scopes(&HeaderMap::new()), None);
    }
}
