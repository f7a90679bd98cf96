//! Errors of a call. No variant contains a token or Slack's response, except for the error code of a refusal.

use std::time::Duration;

use super::method::Method;
use slack::ids::TeamId;

/// The reason for rejecting a reply that is longer than any that Slack sends.
pub(super) const TOO_LONG: &str = "it is longer than 16 MiB";

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    #[error("there is no token for workspace {0}")]
    NoToken(TeamId),
    /// The token belongs to another workspace; it was not used.
    #[error("the token given for workspace {team} belongs to {owner}: give each workspace its own")]
    WrongToken {
        /// The workspace of the call.
        team: TeamId,
        /// The workspace that owns the token according to Slack.
        owner: TeamId,
    },
    /// Slack refused the call. <https://docs.slack.dev/apis/web-api/#responses>
    #[error("Slack refused {}: {error}{}", method.name(), scope_hint(needed.as_deref()))]
    Refused {
        /// The method that was called.
        method: Method,
        /// Slack's code, such as `missing_scope`.
        error: String,
        /// The scopes the token lacks.
        needed: Option<String>,
    },
    /// Too many calls. The method is paused for this workspace until then.
    #[error("Slack wants a pause of {} s before the next {}", retry_after.as_secs(), method.name())]
    RateLimited {
        /// The method that was called.
        method: Method,
        /// The pause that Slack requests.
        retry_after: Duration,
    },
    /// No response, or one that reports a failure of Slack.
    #[error("Slack cannot be reached for {}: {why}", method.name())]
    Unreachable {
        /// The method that was called.
        method: Method,
        /// What happened.
        why: String,
    },
    /// A response that does not follow Slack's documentation.
    #[error("the answer to {} makes no sense: {why}", method.name())]
    Garbled {
        /// The method that was called.
        method: Method,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl ApiError {
    /// Slack's error code, if Slack refused the call.
    pub fn refusal_code(&self) -> Option<&str> {
        match self {
            Self::Refused { error, .. } => Some(error),
            Self::NoToken(_)
            | Self::WrongToken { .. }
            | Self::RateLimited { .. }
            | Self::Unreachable { .. }
            | Self::Garbled { .. } => None,
        }
    }

    /// Whether Slack refuses the token itself, so that every call of the workspace fails.
    pub fn is_token_error(&self) -> bool {
        matches!(
            self.refusal_code(),
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

    /// Whether the response exceeded the length limit: a smaller page may help.
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::Garbled { why, .. } if *why == TOO_LONG)
    }

    /// A label for metrics.
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

/// An error code from a response, if it has the format of one: other text may be anything, even a token.
pub(super) fn code(text: &str) -> Option<String> {
    let is_code = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_:.,".contains(&byte);
    // 120 characters are more than any code of Slack has.
    (1..=120).contains(&text.len()).then_some(())?;
    (text.bytes().all(is_code) && !text.contains("xox")).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_codes_are_included() {
        for valid in ["missing_scope", "channels:read,groups:read", "is_archived"] {
            assert_eq!(code(valid).as_deref(), Some(valid));
        }
        for hostile in ["", "xoxb-1-2", "bad token xoxb", "<script>", "a\nb", &"a".repeat(121)] {
            assert_eq!(code(hostile), None, "{hostile}");
        }
    }

    #[test]
    fn a_refusal_names_the_missing_scope() {
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
