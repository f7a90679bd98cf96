//! The errors of reading history, and their consequence for the rest.

use std::time::Duration;

use ports::archive::ArchiveError;
use ports::queue::QueueError;
use rules::filled::UnreadableReason;
use slack_api::ApiError;

/// The reason why a part of history could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HistoryError {
    /// Slack did not return the requested page.
    #[error(transparent)]
    Slack(#[from] ApiError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A job for a file could not be sent.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Slack reports more messages, but does not return them.
    #[error("Slack reports more messages but returns none of them")]
    Stuck,
}

/// The consequence of an error for the rest of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consequence {
    /// A retry may succeed later; after this delay, if it is known.
    Later(Option<Duration>),
    /// This channel cannot be read; others can.
    Channel(Option<UnreadableReason>),
    /// No channel of this workspace can be read.
    Workspace,
}

impl HistoryError {
    /// The consequence of this error for the rest of the history.
    pub fn consequence(&self) -> Consequence {
        match self {
            Self::Slack(error) => consequence_of_slack(error),
            Self::Archive(_) | Self::Queue(_) => Consequence::Later(None),
            Self::Stuck => Consequence::Channel(None),
        }
    }

    /// Slack's error code, if it refused the call.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Slack(error) => error.refusal_code(),
            Self::Archive(_) | Self::Queue(_) | Self::Stuck => None,
        }
    }
}

/// The consequence of an API error, by the codes of
/// <https://docs.slack.dev/reference/methods/conversations.history#errors>.
fn consequence_of_slack(error: &ApiError) -> Consequence {
    match error {
        ApiError::RateLimited { retry_after, .. } => Consequence::Later(Some(*retry_after)),
        ApiError::Unreachable { .. } => Consequence::Later(None),
        ApiError::NoToken(_) | ApiError::WrongToken { .. } => Consequence::Workspace,
        ApiError::Garbled { .. } => Consequence::Channel(None),
        ApiError::Refused { error: code, .. } => match code.as_str() {
            "not_in_channel" => Consequence::Channel(Some(UnreadableReason::NotInChannel)),
            "channel_not_found" => Consequence::Channel(Some(UnreadableReason::NotFound)),
            "missing_scope" => Consequence::Channel(Some(UnreadableReason::MissingScope)),
            _ if error.is_token_error() => Consequence::Workspace,
            _ => Consequence::Channel(None),
        },
    }
}

#[cfg(test)]
mod tests {
    use slack_api::Method;

    use super::*;

    #[test]
    fn an_unreadable_channel_stops_no_other_and_a_revoked_token_stops_all() {
        let refused = |error: &str| {
            let error = ApiError::Refused {
                method: Method::ConversationsHistory,
                error: error.to_owned(),
                needed: None,
            };
            HistoryError::from(error).consequence()
        };
        for (code, expected) in [
            ("not_in_channel", Consequence::Channel(Some(UnreadableReason::NotInChannel))),
            ("channel_not_found", Consequence::Channel(Some(UnreadableReason::NotFound))),
            ("missing_scope", Consequence::Channel(Some(UnreadableReason::MissingScope))),
            ("something_new", Consequence::Channel(None)),
            ("token_revoked", Consequence::Workspace),
            ("invalid_auth", Consequence::Workspace),
            ("account_inactive", Consequence::Workspace),
        ] {
            assert_eq!(refused(code), expected, "{code}");
        }
        let pause = Duration::from_secs(7);
        let limited = ApiError::RateLimited { method: Method::ConversationsReplies, retry_after: pause };
        assert_eq!(HistoryError::from(limited).consequence(), Consequence::Later(Some(pause)));
    }
}
