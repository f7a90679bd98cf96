//! Tokens, and which workspace each belongs to.

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
    /// The workspace Slack says it belongs to; asked once.
    owner: OnceCell<TokenOwner>,
}

/// The workspace that a token belongs to.
#[derive(Debug)]
pub(super) struct TokenOwner {
    pub(super) team: TeamId,
    /// When Slack said so, by its own clock.
    pub(super) said_at: Option<Ts>,
}

/// A token that cannot be one. Its text is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is empty, or has blanks or letters that no token has")]
pub struct InvalidToken;

impl BotToken {
    /// Takes a token; space around it is left out.
    ///
    /// # Errors
    /// [`InvalidToken`] for what could not even be sent.
    pub fn parse(text: &str) -> Result<Self, InvalidToken> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidToken);
        }
        Ok(Self(Arc::new(Owned { secret: text.into(), owner: OnceCell::new() })))
    }

    /// What kind of token it is, by how it begins.
    pub fn kind(&self) -> TokenKind {
        let text = self.expose();
        // A token that expires has this in front of what it would be otherwise.
        let lasting = text.strip_prefix("xoxe.").unwrap_or(text);
        let kinds = [
            ("xoxb-", TokenKind::Bot),
            ("xoxp-", TokenKind::User),
            ("xapp-", TokenKind::App),
            ("xoxe-", TokenKind::Refresh),
        ];
        let kind = kinds.into_iter().find(|(prefix, _)| lasting.starts_with(prefix));
        kind.map_or(TokenKind::Other, |(_, kind)| kind)
    }

    /// The token itself.
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
    /// Acts for the app in one workspace: the one that is wanted.
    Bot,
    /// Acts for the person who installed the app.
    User,
    /// Acts for the app in no workspace at all.
    App,
    /// Gets a new token and calls nothing else.
    Refresh,
    /// Begins as none of them.
    Other,
}

/// A token per workspace.
pub type TokenTable = BTreeMap<TeamId, BotToken>;

/// The tokens there are.
pub struct Tokens(TokenSource);

pub(super) enum TokenSource {
    One(BotToken),
    PerTeam(Box<dyn Fn() -> Arc<TokenTable> + Send + Sync>),
}

impl Tokens {
    /// None at all.
    pub fn none() -> Self {
        Self::per_team(Arc::default)
    }

    /// The token of one workspace; which one that is, Slack is asked when it is first needed.
    pub fn one(token: BotToken) -> Self {
        Self(TokenSource::One(token))
    }

    /// A token per workspace, as `table` answers each time it is asked: quickly, and with the same tokens unless they
    /// changed.
    pub fn per_team(table: impl Fn() -> Arc<TokenTable> + Send + Sync + 'static) -> Self {
        Self(TokenSource::PerTeam(Box::new(table)))
    }

    /// What a secret holds: one token, or a JSON object of workspace ids and tokens, which begins as no token does.
    ///
    /// # Errors
    /// What is wrong with it, without a word of what is in it.
    pub fn read(secret: &SecretString) -> Result<Self, String> {
        let text = secret.expose_secret();
        if !text.trim_start().starts_with('{') {
            return BotToken::parse(text).map(Self::one).map_err(|error| error.to_string());
        }
        let table = Arc::new(read_table(text)?);
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

/// A JSON object of workspace ids and tokens. Nothing of the text is ever repeated, an id that has changed places with its token included.
pub fn read_table(text: &str) -> Result<TokenTable, String> {
    let shape = || r#"it is not of the form {"T0123ABCD": "xoxb-…"}"#.to_owned();
    let entries: BTreeMap<String, Value> = serde_json::from_str(text).map_err(|error| {
        if error.is_data() { shape() } else { format!("it is no JSON from line {} on", error.line()) }
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
    fn a_token_is_what_can_be_sent_and_is_never_shown() {
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
    fn a_mistake_is_told_without_what_is_in_the_file() {
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
            let error = read_table(text).unwrap_err();
            assert!(error.contains(expected) && !error.contains("hidden"), "{text}: {error}");
        }
    }
}
