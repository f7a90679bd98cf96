//! The call that posts a part, and what an answer to it means.

use std::time::Duration;

use rules::question::QuestionId;
use serde::Deserialize;
use serde_json::json;
use slack::ids::Ts;
use slack_api::{ApiError, PermittedCall};

/// The type of the metadata that every part carries: by it a part is found again.
pub(super) const METADATA: &str = "annalist_reply";

/// Slack shows a message at once in almost all cases; a repetition waits for it to show this long.
pub(super) const SHOWN_AFTER: Duration = Duration::from_secs(10);

/// A token that may not post is tried again this often: a person has to give it the scope.
pub(super) const STOPPED_FOR: Duration = Duration::from_secs(300);

/// A part that is to be posted.
pub(super) struct PartMessage<'p> {
    pub(super) id: &'p QuestionId,
    pub(super) number: usize,
    /// How many parts the answer has.
    pub(super) of: usize,
    pub(super) text: &'p str,
}

/// What became of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PostOutcome {
    /// It is posted, as this message.
    Posted(Ts),
    /// It was surely not posted, and may be after this long.
    NotPosted(Duration),
    /// No token of the workspace may post.
    Stopped(String, Duration),
    /// Only Slack knows.
    Unknown(String),
    /// It will never be posted.
    Refused(String),
}

#[derive(Deserialize)]
struct PostedTs<'a> {
    #[serde(borrow)]
    ts: &'a str,
}

impl PartMessage<'_> {
    /// Posts it. The generation is no part of its name: what an earlier attempt has posted is found too.
    pub(super) async fn post(&self, call: PermittedCall<'_>) -> PostOutcome {
        let Self { id, number, of, text } = self;
        let payload = json!({ "id": id.name(), "part": number, "of": of });
        let metadata = json!({ "event_type": METADATA, "event_payload": payload }).to_string();
        let parameters = [
            ("channel", id.channel.as_str()),
            ("thread_ts", id.thread_ts.as_str()),
            ("text", text),
            ("metadata", &metadata),
            ("mrkdwn", "true"),
            ("parse", "none"),
            // A link with data in it would be asked for by Slack.
            ("unfurl_links", "false"),
            ("unfurl_media", "false"),
        ];
        match call.make(&parameters).await {
            Ok(reply) => match reply.read::<PostedTs<'_>>().ok().and_then(|posted| Ts::parse(posted.ts).ok())
            {
                Some(ts) => PostOutcome::Posted(ts),
                None => PostOutcome::Unknown("Slack accepted the message and did not name it".into()),
            },
            Err(error) => meaning(&error),
        }
    }
}

/// What an error says of the message. <https://docs.slack.dev/reference/methods/chat.postMessage#errors>
pub(super) fn meaning(error: &ApiError) -> PostOutcome {
    match error {
        ApiError::RateLimited { retry_after, .. } => PostOutcome::NotPosted(*retry_after),
        ApiError::Unreachable { .. } | ApiError::Garbled { .. } => PostOutcome::Unknown(error.to_string()),
        ApiError::NoToken(_) | ApiError::WrongToken { .. } => {
            PostOutcome::Stopped(error.to_string(), STOPPED_FOR)
        }
        ApiError::Refused { error: code, .. } => match code.as_str() {
            _ if error.is_of_token() => PostOutcome::Stopped(error.to_string(), STOPPED_FOR),
            "missing_scope" | "not_allowed_token_type" | "no_permission" => {
                PostOutcome::Stopped(error.to_string(), STOPPED_FOR)
            }
            _ => PostOutcome::Refused(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use slack_api::Method;

    use super::*;

    #[test]
    fn only_what_slack_refused_is_surely_not_posted() {
        let method = Method::ChatPostMessage;
        let refused =
            |code: &str| meaning(&ApiError::Refused { method, error: code.to_owned(), needed: None });
        let pause = Duration::from_secs(7);
        assert_eq!(
            meaning(&ApiError::RateLimited { method, retry_after: pause }),
            PostOutcome::NotPosted(pause)
        );
        for unknown in [
            ApiError::Unreachable { method, why: "no answer in time".into() },
            ApiError::Garbled { method, why: "it is not UTF-8" },
        ] {
            assert!(matches!(meaning(&unknown), PostOutcome::Unknown(_)), "{unknown}");
        }
        for code in ["missing_scope", "token_revoked"] {
            assert!(matches!(refused(code), PostOutcome::Stopped(..)), "{code}");
        }
        for code in
            ["not_in_channel", "is_archived", "channel_not_found", "restricted_action", "msg_too_long"]
        {
            assert!(matches!(refused(code), PostOutcome::Refused(_)), "{code}");
        }
    }
}
