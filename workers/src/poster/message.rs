//! The call that posts a part, and the outcomes of its response.

use std::time::Duration;

use rules::question::QuestionId;
use serde::Deserialize;
use serde_json::json;
use slack::ids::Ts;
use slack_api::{ApiError, PermittedCall};

/// The type of the metadata in every part, by which a posted part is found again.
pub(super) const METADATA: &str = "annalist_reply";

/// Slack almost always shows a message immediately; a retry waits this long for it to appear.
pub(super) const SHOWN_AFTER: Duration = Duration::from_secs(10);

/// The retry interval for a token that may not post: a person has to grant the scope.
pub(super) const STOPPED_FOR: Duration = Duration::from_secs(300);

/// A part to be posted.
pub(super) struct PartMessage<'p> {
    pub(super) id: &'p QuestionId,
    pub(super) number: usize,
    /// The number of parts of the answer.
    pub(super) part_count: usize,
    pub(super) text: &'p str,
}

/// The outcome of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PostOutcome {
    /// The part was posted as this message.
    Posted(Ts),
    /// The part was certainly not posted; it may be tried after this delay.
    NotPosted(Duration),
    /// No token of the workspace may post.
    Stopped(String, Duration),
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
    /// Posts the part. Its name does not include the generation, so parts posted by an earlier attempt are
    /// found too.
    pub(super) async fn post(&self, call: PermittedCall<'_>) -> PostOutcome {
        let Self { id, number, part_count: of, text } = self;
        let payload = json!({ "id": id.name(), "part": number, "of": of });
        let metadata = json!({ "event_type": METADATA, "event_payload": payload }).to_string();
        let parameters = [
            ("channel", id.channel.as_str()),
            ("thread_ts", id.thread_ts.as_str()),
            ("text", text),
            ("metadata", &metadata),
            ("mrkdwn", "true"),
            ("parse", "none"),
            // Slack would request unfurled links, which may contain data.
            ("unfurl_links", "false"),
            ("unfurl_media", "false"),
        ];
        match call.execute(&parameters).await {
            Ok(reply) => match reply.read::<PostedTs<'_>>().ok().and_then(|posted| Ts::parse(posted.ts).ok())
            {
                Some(ts) => PostOutcome::Posted(ts),
                None => PostOutcome::Unknown("Slack accepted the message and did not name it".into()),
            },
            Err(error) => post_outcome(&error),
        }
    }
}

/// The outcome that an error implies. <https://docs.slack.dev/reference/methods/chat.postMessage#errors>
pub(super) fn post_outcome(error: &ApiError) -> PostOutcome {
    match error {
        ApiError::RateLimited { retry_after, .. } => PostOutcome::NotPosted(*retry_after),
        ApiError::Unreachable { .. } | ApiError::Garbled { .. } => PostOutcome::Unknown(error.to_string()),
        ApiError::NoToken(_) | ApiError::WrongToken { .. } => {
            PostOutcome::Stopped(error.to_string(), STOPPED_FOR)
        }
        ApiError::Refused { error: code, .. } => match code.as_str() {
            _ if error.is_token_error() => PostOutcome::Stopped(error.to_string(), STOPPED_FOR),
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
    fn only_a_refused_message_is_certainly_not_posted() {
        let method = Method::ChatPostMessage;
        let refused =
            |code: &str| post_outcome(&ApiError::Refused { method, error: code.to_owned(), needed: None });
        let pause = Duration::from_secs(7);
        assert_eq!(
            post_outcome(&ApiError::RateLimited { method, retry_after: pause }),
            PostOutcome::NotPosted(pause)
        );
        for unknown in [
            ApiError::Unreachable { method, why: "no answer in time".into() },
            ApiError::Garbled { method, why: "it is not UTF-8" },
        ] {
            assert!(matches!(post_outcome(&unknown), PostOutcome::Unknown(_)), "{unknown}");
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
