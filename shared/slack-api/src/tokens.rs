//! Tokens and the workspaces that own them.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::sync::OnceCell;

use ports::clock::SharedClock;
use ports::queue::DedupId;
use ports::reread::{Reread, RereadLimits};
use slack::ids::{TeamId, Ts};

/// A bot token. <https://docs.slack.dev/authentication/tokens>
#[derive(Debug, Clone)]
pub struct BotToken(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    secret: SecretString,
    /// The workspace that owns it according to Slack; requested once.
    owner: OnceCell<TokenOwner>,
}

/// The workspace that owns a token.
#[derive(Debug)]
pub(super) struct TokenOwner {
    pub(super) team: TeamId,
    /// When Slack confirmed it, by Slack's clock.
    pub(super) confirmed_at: Option<Ts>,
}

/// An invalid token. The error does not contain its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is empty, or has blanks or letters that no token has")]
pub struct InvalidToken;

impl BotToken {
    /// Parses a token; surrounding whitespace is removed.
    ///
    /// # Errors
    /// [`InvalidToken`] for a text that cannot be sent as a token.
    pub fn parse(text: &str) -> Result<Self, InvalidToken> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidToken);
        }
        Ok(Self(Arc::new(Owned { secret: text.into(), owner: OnceCell::new() })))
    }

    /// The kind of the token, by its prefix.
    pub fn kind(&self) -> TokenKind {
        let text = self.expose();
        // A token that expires has this additional prefix.
        let base = text.strip_prefix("xoxe.").unwrap_or(text);
        let kinds = [
            ("xoxb-", TokenKind::Bot),
            ("xoxp-", TokenKind::User),
            ("xapp-", TokenKind::App),
            ("xoxe-", TokenKind::Refresh),
        ];
        let kind = kinds.into_iter().find(|(prefix, _)| base.starts_with(prefix));
        kind.map_or(TokenKind::Other, |(_, kind)| kind)
    }

    /// A mark that differs for another token: the first 32 bits of a hash, from which no token can be guessed.
    #[must_use]
    pub fn mark(&self) -> String {
        DedupId::from_parts(&[b"token", self.expose().as_bytes()]).to_hex()[..8].to_owned()
    }

    /// The text of the token.
    pub(super) fn expose(&self) -> &str {
        self.0.secret.expose_secret()
    }

    pub(super) fn owner(&self) -> &OnceCell<TokenOwner> {
        &self.0.owner
    }
}

impl PartialEq for BotToken {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for BotToken {}

/// The kinds of tokens that one app has. <https://docs.slack.dev/authentication/tokens>
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Acts for the app in one workspace: the kind that Annalist needs.
    Bot,
    /// Acts for the user who installed the app.
    User,
    /// Acts for the app, without a workspace.
    App,
    /// Only obtains a new token.
    Refresh,
    /// Has none of these prefixes.
    Other,
}

/// A token per workspace.
pub type TokenTable = BTreeMap<TeamId, BotToken>;

/// The contents of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSecret {
    /// The token of one workspace. Slack returns the workspace when it is first needed.
    One(BotToken),
    PerTeam(TokenTable),
}

impl TokenSecret {
    /// Parses a secret: one token, or a JSON object of workspace ids and tokens, which starts with a
    /// character that no token has.
    ///
    /// # Errors
    /// What is wrong with the secret, without any of its contents.
    pub fn parse(secret: &SecretString) -> Result<Self, String> {
        let text = secret.expose_secret();
        if text.trim_start().starts_with('{') {
            parse_token_table(text).map(Self::PerTeam)
        } else {
            BotToken::parse(text).map(Self::One).map_err(|error| error.to_string())
        }
    }

    /// The tokens, each with the workspace that the secret assigns to it, if any.
    pub(super) fn tokens(&self) -> Vec<(Option<&TeamId>, &BotToken)> {
        match self {
            Self::One(token) => vec![(None, token)],
            Self::PerTeam(table) => table.iter().map(|(team, token)| (Some(team), token)).collect(),
        }
    }

    fn tokens_mut(&mut self) -> Vec<&mut BotToken> {
        match self {
            Self::One(token) => vec![token],
            Self::PerTeam(table) => table.values_mut().collect(),
        }
    }
}

/// Reads all secrets again.
pub type ReadTokens =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Vec<TokenSecret>, String>> + Send>> + Send + Sync>;

/// The available tokens: the secrets in their order, of which a later one replaces a workspace's token of an
/// earlier one.
#[derive(Debug)]
pub struct Tokens(Reread<Vec<TokenSecret>>);

impl Tokens {
    /// The minimum interval between two reads: a new token is used at most this long after Slack refused the
    /// last one.
    const MIN_INTERVAL: Duration = Duration::from_secs(15);

    /// The timeout of a read: longer than that of Secrets Manager's client for one secret.
    const TIME_LIMIT: Duration = Duration::from_secs(8);

    /// No tokens.
    pub fn empty() -> Self {
        Self::fixed(Vec::new())
    }

    /// The token of one workspace.
    pub fn one(token: BotToken) -> Self {
        Self::fixed(vec![TokenSecret::One(token)])
    }

    pub fn per_team(table: TokenTable) -> Self {
        Self::fixed(vec![TokenSecret::PerTeam(table)])
    }

    /// Tokens that never change.
    pub fn fixed(secrets: Vec<TokenSecret>) -> Self {
        Self(Reread::fixed(secrets))
    }

    /// Tokens that are read again when they have this age, and at once when a token does not fit. `name` is
    /// the setting, for the log.
    pub fn reread(
        name: &'static str,
        secrets: Vec<TokenSecret>,
        max_age: Duration,
        clock: SharedClock,
        read: ReadTokens,
    ) -> Self {
        let limits = RereadLimits { max_age, min_interval: Self::MIN_INTERVAL, time_limit: Self::TIME_LIMIT };
        let read = Box::new(move |last| {
            let read = read();
            Box::pin(async move { Ok(keep_owners(last, read.await?)) })
                as Pin<Box<dyn Future<Output = _> + Send>>
        });
        Self(Reread::new(name, Arc::new(secrets), limits, clock, read))
    }

    pub(super) fn source(&self) -> &Reread<Vec<TokenSecret>> {
        &self.0
    }
}

/// The secrets that were read again: the last ones if nothing changed. A token that stays keeps its owner.
fn keep_owners(last: Arc<Vec<TokenSecret>>, mut read: Vec<TokenSecret>) -> Arc<Vec<TokenSecret>> {
    if *last == read {
        return last;
    }
    let known: HashMap<&str, &BotToken> =
        last.iter().flat_map(TokenSecret::tokens).map(|(_, token)| (token.expose(), token)).collect();
    for token in read.iter_mut().flat_map(TokenSecret::tokens_mut) {
        if let Some(known) = known.get(token.expose()) {
            *token = (*known).clone();
        }
    }
    Arc::new(read)
}

/// Parses a JSON object of workspace ids and tokens. An error never contains any of the text, since an id and
/// its token may be swapped.
pub fn parse_token_table(text: &str) -> Result<TokenTable, String> {
    let shape = || r#"it is not of the form {"T0123ABCD": "xoxb-…"}"#.to_owned();
    let entries: BTreeMap<String, Value> = serde_json::from_str(text).map_err(|error| {
        if error.is_data() { shape() } else { format!("it is not valid JSON at line {}", error.line()) }
    })?;
    let mut table = TokenTable::new();
    for (number, (team, token)) in (1..).zip(&entries) {
        let team = TeamId::parse(team)
            .map_err(|_| format!("a key, number {number} in their order, is not the id of a workspace"))?;
        let token = token.as_str().ok_or_else(shape)?;
        let token =
            BotToken::parse(token).map_err(|error| format!("the token of {team} cannot be one: {error}"))?;
        table.insert(team, token);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sendable_text_and_is_never_shown() {
        let token = BotToken::parse(" xoxb-1-hidden\n").unwrap();
        assert_eq!(token.expose(), "xoxb-1-hidden");
        assert!(!format!("{token:?}").contains("hidden"));
        assert!(!format!("{:?}", Tokens::one(token)).contains("hidden"));
        for (text, kind) in [
            ("xoxb-1", TokenKind::Bot),
            ("xoxe.xoxb-1", TokenKind::Bot),
            ("xoxp-1", TokenKind::User),
            ("xoxe.xoxp-1", TokenKind::User),
            ("xapp-1", TokenKind::App),
            ("xoxe-1", TokenKind::Refresh),
            ("8f742231b10e8888", TokenKind::Other),
        ] {
            assert_eq!(BotToken::parse(text).unwrap().kind(), kind, "{text}");
        }
        for hostile in ["", "  ", "a b", "a\nb", "tök", "a\u{0}"] {
            assert!(BotToken::parse(hostile).is_err(), "{hostile:?}");
        }
    }

    #[test]
    fn an_error_does_not_contain_the_contents_of_the_file() {
        for (text, expected) in [
            ("", "line 1"),
            ("{\n\"T1\":", "line 2"),
            ("[]", "of the form"),
            (r#""xoxb-hidden""#, "of the form"),
            (r#"{"T1": {"token": "xoxb-hidden"}}"#, "of the form"),
            (r#"{"xoxb-hidden": "T1"}"#, "number 1"),
            (r#"{"T1": "xoxb hidden"}"#, "T1"),
            (r#"{"T1": ""}"#, "T1"),
        ] {
            let error = parse_token_table(text).unwrap_err();
            assert!(error.contains(expected) && !error.contains("hidden"), "{text}: {error}");
        }
    }
}
