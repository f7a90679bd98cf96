//! What a call can end with. No variant holds a token or what Slack answered, but for the code of a refusal.

use std::time::Duration;

use super::method::Method;
use super::reply::TOO_LONG;
use slack::ids::TeamId;

/// Why a call has no answer that could be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// There is no token for this workspace.
    #[error("there is no token for workspace {0}")]
    NoToken(TeamId),
    /// The token belongs to another workspace; it was not used.
    #[error("the token given for workspace {team} belongs to {owner}: give each workspace its own")]
    WrongToken {
        /// The workspace that was asked about.
        team: TeamId,
        /// The one Slack says the token belongs to.
        owner: TeamId,
    },
    /// Slack said no. <https://docs.slack.dev/apis/web-api/#responses>
    #[error("Slack refused {}: {error}{}", method.name(), scope_hint(needed.as_deref()))]
    Refused {
        /// What was asked.
        method: Method,
        /// Slack's code, such as `missing_scope`.
        error: String,
        /// The scopes the token lacks.
        needed: Option<String>,
    },
    /// Too many calls. The method is held back for this workspace until then.
    #[error("Slack wants a pause of {} s before the next {}", retry_after.as_secs(), method.name())]
    RateLimited {
        /// What was asked.
        method: Method,
        /// How long Slack wants to be left alone.
        retry_after: Duration,
    },
    /// No answer, or one that says that Slack has trouble.
    #[error("Slack cannot be reached for {}: {why}", method.name())]
    Unreachable {
        /// What was asked.
        method: Method,
        /// What happened.
        why: String,
    },
    /// An answer that is not what Slack's documentation says.
    #[error("the answer to {} makes no sense: {why}", method.name())]
    Garbled {
        /// What was asked.
        method: Method,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl ApiError {
    /// Slack's code, if it said no.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Refused { error, .. } => Some(error),
            Self::NoToken(_)
            | Self::WrongToken { .. }
            | Self::RateLimited { .. }
            | Self::Unreachable { .. }
            | Self::Garbled { .. } => None,
        }
    }

    /// Whether Slack takes the token for nothing at all, whatever it was asked for: so it is with every channel and every method.
    pub fn is_of_token(&self) -> bool {
        matches!(
            self.refusal(),
            Some(
                "token_revoked"
                    | "token_expired"
                    | "invalid_auth"
                    | "not_authed"
                    | "account_inactive"
                    | "access_denied"
                    | "team_access_not_granted"
            )
        )
    }

    /// Whether the answer was longer than any that is taken: a smaller page may help.
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::Garbled { why, .. } if *why == TOO_LONG)
    }

    /// For metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::NoToken(_) | Self::WrongToken { .. } => "no_token",
            Self::Refused { .. } => "refused",
            Self::RateLimited { .. } => "rate_limited",
            Self::Unreachable { .. } => "unreachable",
            Self::Garbled { .. } => "garbled",
        }
    }
}

fn scope_hint(needed: Option<&str>) -> String {
    needed.map_or_else(String::new, |scopes| format!(", the app needs the scope {scopes}"))
}

/// A code from an answer, if it looks like one: what does not may be anything, a token included.
pub(super) fn code(text: &str) -> Option<String> {
    let is_code = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_:.,".contains(&byte);
    // Longer than any of Slack's.
    (1..=120).contains(&text.len()).then_some(())?;
    (text.bytes().all(is_code) && !text.contains("xox")).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_codes_are_repeated() {
        for fine in ["missing_scope", "channels:read,groups:read", "is_archived"] {
            assert_eq!(code(fine).as_deref(), Some(fine));
        }
        for hostile in ["", "xoxb-1-2", "bad token xoxb", "<script>", "a\nb", &"a".repeat(121)] {
            assert_eq!(code(hostile), None, "{hostile}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_add() {
        let error = ApiError::Refused {
            method: Method::EmojiList,
            error: "missing_scope".into(),
            needed: Some("emoji:read".into()),
        };
        assert_eq!(
            error.to_string(),
            "Slack refused emoji.list: missing_scope, the app needs the scope emoji:read"
        );
    }
}
