//! Tokens, and which workspace each belongs to.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use tokio::sync::OnceCell;

use crate::slack::ids::TeamId;

/// A bot token. <https://docs.slack.dev/authentication/tokens>
#[derive(Debug, Clone)]
pub struct Token(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    secret: SecretString,
    /// The workspace Slack says it belongs to; asked once.
    owner: OnceCell<TeamId>,
}

/// A token that cannot be one. Its text is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is empty, or has blanks or letters that no token has")]
pub struct InvalidToken;

impl Token {
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

    /// The token itself.
    pub(super) fn expose(&self) -> &str {
        self.0.secret.expose_secret()
    }

    pub(super) fn owner(&self) -> &OnceCell<TeamId> {
        &self.0.owner
    }
}

/// A token per workspace.
pub type TokenTable = BTreeMap<TeamId, Token>;

/// The tokens there are.
pub struct Tokens(Source);

pub(super) enum Source {
    One(Token),
    PerTeam(Box<dyn Fn() -> Arc<TokenTable> + Send + Sync>),
}

impl Tokens {
    /// None at all.
    #[must_use]
    pub fn none() -> Self {
        Self::per_team(Arc::default)
    }

    /// The token of one workspace; which one that is, Slack is asked when it is first needed.
    #[must_use]
    pub fn one(token: Token) -> Self {
        Self(Source::One(token))
    }

    /// A token per workspace, as `table` answers each time it is asked: quickly, and with the same tokens unless they
    /// changed.
    #[must_use]
    pub fn per_team(table: impl Fn() -> Arc<TokenTable> + Send + Sync + 'static) -> Self {
        Self(Source::PerTeam(Box::new(table)))
    }

    pub(super) fn source(&self) -> &Source {
        &self.0
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::One(_) => f.write_str("Tokens(one)"),
            Source::PerTeam(_) => f.write_str("Tokens(per team)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_can_be_sent_and_is_never_shown() {
        let token = Token::parse(" xoxb-1-hidden\n").unwrap();
        assert_eq!(token.expose(), "xoxb-1-hidden");
        assert!(!format!("{token:?}").contains("hidden"));
        assert!(!format!("{:?}", Tokens::one(token)).contains("hidden"));
        for hostile in ["", "  ", "a b", "a\nb", "tök", "a\u{0}"] {
            assert!(Token::parse(hostile).is_err(), "{hostile:?}");
        }
    }
}
