//! Tokens and the workspaces that own them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::sync::OnceCell;

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

    /// The text of the token.
    pub(super) fn expose(&self) -> &str {
        self.0.secret.expose_secret()
    }

    pub(super) fn owner(&self) -> &OnceCell<TokenOwner> {
        &self.0.owner
    }
}

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

/// The available tokens.
pub struct Tokens(TokenSource);

pub(super) enum TokenSource {
    One(BotToken),
    PerTeam(Box<dyn Fn() -> Arc<TokenTable> + Send + Sync>),
}

impl Tokens {
    /// No tokens.
    pub fn empty() -> Self {
        Self::per_team(Arc::default)
    }

    /// The token of one workspace. Slack returns the workspace when it is first needed.
    pub fn one(token: BotToken) -> Self {
        Self(TokenSource::One(token))
    }

    /// A token per workspace. `table` is called for each use: it must be fast, and return the same tokens
    /// unless they changed.
    pub fn per_team(table: impl Fn() -> Arc<TokenTable> + Send + Sync + 'static) -> Self {
        Self(TokenSource::PerTeam(Box::new(table)))
    }

    /// Parses a secret: one token, or a JSON object of workspace ids and tokens, which starts with a
    /// character that no token has.
    ///
    /// # Errors
    /// What is wrong with the secret, without any of its contents.
    pub fn parse(secret: &SecretString) -> Result<Self, String> {
        let text = secret.expose_secret();
        if !text.trim_start().starts_with('{') {
            return BotToken::parse(text).map(Self::one).map_err(|error| error.to_string());
        }
        let table = Arc::new(parse_token_table(text)?);
        Ok(Self::per_team(move || Arc::clone(&table)))
    }

    pub(super) fn source(&self) -> &TokenSource {
        &self.0
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            TokenSource::One(_) => f.write_str("Tokens(one)"),
            TokenSource::PerTeam(_) => f.write_str("Tokens(per team)"),
        }
    }
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
