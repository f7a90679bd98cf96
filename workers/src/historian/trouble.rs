//! Why history could not be read, and what that means for what is left to read.

use std::time::Duration;

use ports::archive::ArchiveError;
use ports::queue::QueueError;
use rules::filled::UnreadableReason;
use slack_api::ApiError;

/// Why a part of history could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HistoryError {
    /// Slack did not answer with what was asked for.
    #[error(transparent)]
    Slack(#[from] ApiError),
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A job for a file could not be sent.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Slack says that there is more, and does not show it.
    #[error("Slack says that there are more messages and shows none of them")]
    Stuck,
}

/// What an error means for what is left to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consequence {
    /// The same may succeed later; if it is known, after this long.
    Later(Option<Duration>),
    /// This channel cannot be read; others can.
    Channel(Option<UnreadableReason>),
    /// No channel of this workspace can be read.
    Workspace,
}

impl HistoryError {
    /// What it means for what is left to read.
    pub fn consequence(&self) -> Consequence {
        match self {
            Self::Slack(error) => of_slack(error),
            Self::Archive(_) | Self::Queue(_) => Consequence::Later(None),
            Self::Stuck => Consequence::Channel(None),
        }
    }

    /// Slack's code, if it said no.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Slack(error) => error.refusal(),
            Self::Archive(_) | Self::Queue(_) | Self::Stuck => None,
        }
    }
}

/// By the codes of <https://docs.slack.dev/reference/methods/conversations.history#errors>.
fn of_slack(error: &ApiError) -> Consequence {
    match error {
        ApiError::RateLimited { retry_after, .. } => Consequence::Later(Some(*retry_after)),
        ApiError::Unreachable { .. } => Consequence::Later(None),
        ApiError::NoToken(_) | ApiError::WrongToken { .. } => Consequence::Workspace,
        ApiError::Garbled { .. } => Consequence::Channel(None),
        ApiError::Refused { error: code, .. } => match code.as_str() {
            "not_in_channel" => Consequence::Channel(Some(UnreadableReason::NotInChannel)),
            "channel_not_found" => Consequence::Channel(Some(UnreadableReason::NotFound)),
            "missing_scope" => Consequence::Channel(Some(UnreadableReason::MissingScope)),
            _ if error.is_of_token() => Consequence::Workspace,
            _ => Consequence::Channel(None),
        },
    }
}

#[cfg(test)]
mod tests {
    use slack_api::Method;

    use super::*;

    #[test]
    fn one_channel_that_cannot_be_read_stops_no_other_and_a_revoked_token_stops_all() {
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
