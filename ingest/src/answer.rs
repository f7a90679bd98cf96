//! The outcomes of a request and their responses, in one table.

use axum::body::Body;
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use slack::signature::{REFUSED_LINE, Refused};

/// The header that asks Slack not to deliver this event again.
/// <https://docs.slack.dev/apis/events-api/#errors>
const NO_RETRY: HeaderName = HeaderName::from_static("x-slack-no-retry");

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventOutcome {
    /// On the queue.
    Stored,
    /// On the queue; Slack dropped the events of a minute.
    RateLimited,
    /// A direct message: never stored.
    DirectMessage,
    /// The challenge was echoed.
    Challenge,
    /// Slack checked the certificate.
    SslCheck,
    /// Not signed by Slack.
    Refused,
    /// Signed, but not an event.
    Malformed,
    /// The body is larger than a job can be.
    TooLarge,
    /// The body took too long to arrive.
    BodyTimeout,
    /// The body ended before it was complete.
    BodyBroken,
    QueueFailed,
    /// The queue took too long.
    QueueSlow,
    /// Too many events are already in progress.
    Shed,
}

/// Whether a retry by Slack can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlackRetry {
    Helps,
    CannotHelp,
}

impl EventOutcome {
    pub(crate) const ALL: [Self; 13] = [
        Self::Stored,
        Self::RateLimited,
        Self::DirectMessage,
        Self::Challenge,
        Self::SslCheck,
        Self::Refused,
        Self::Malformed,
        Self::TooLarge,
        Self::BodyTimeout,
        Self::BodyBroken,
        Self::QueueFailed,
        Self::QueueSlow,
        Self::Shed,
    ];

    /// The status, whether a retry helps, and one line for a person who sends a request manually. A refused
    /// request may be from Slack: a retry helps once this machine's clock or secret is correct. The header
    /// has no effect on an attacker.
    fn row(self) -> (StatusCode, SlackRetry, &'static str) {
        match self {
            Self::Stored | Self::RateLimited | Self::DirectMessage | Self::Challenge | Self::SslCheck => {
                (StatusCode::OK, SlackRetry::Helps, "")
            }
            Self::Refused => {
                (StatusCode::UNAUTHORIZED, SlackRetry::Helps, "the request is not signed by Slack\n")
            }
            Self::Malformed => {
                (StatusCode::BAD_REQUEST, SlackRetry::CannotHelp, "the body is not an event envelope\n")
            }
            Self::TooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, SlackRetry::CannotHelp, "the body is too large\n")
            }
            Self::BodyTimeout => {
                (StatusCode::REQUEST_TIMEOUT, SlackRetry::Helps, "the body took too long to arrive\n")
            }
            Self::BodyBroken => (StatusCode::BAD_REQUEST, SlackRetry::Helps, "the body is incomplete\n"),
            Self::QueueFailed | Self::QueueSlow => {
                (StatusCode::SERVICE_UNAVAILABLE, SlackRetry::Helps, "the event could not be kept\n")
            }
            Self::Shed => (StatusCode::SERVICE_UNAVAILABLE, SlackRetry::Helps, "too many events at once\n"),
        }
    }

    /// Whether Slack need not deliver the event of a socket again: it is stored, or a retry cannot help.
    pub(crate) fn is_final(self) -> bool {
        let (status, retry, _) = self.row();
        status.is_success() || retry == SlackRetry::CannotHelp
    }

    /// A label for metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::RateLimited => "rate_limited",
            Self::DirectMessage => "direct_message",
            Self::Challenge => "challenge",
            Self::SslCheck => "ssl_check",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::BodyTimeout => "body_timeout",
            Self::BodyBroken => "body_broken",
            Self::QueueFailed => "queue_failed",
            Self::QueueSlow => "queue_slow",
            Self::Shed => "shed",
        }
    }
}

/// An outcome, with an optional body that replaces the outcome's line.
#[derive(Debug)]
pub(crate) struct EventResponse {
    pub(crate) outcome: EventOutcome,
    text: Option<String>,
}

impl EventResponse {
    /// Echoes a challenge.
    pub(crate) fn challenge(challenge: String) -> Self {
        Self { outcome: EventOutcome::Challenge, text: Some(challenge) }
    }

    /// States why a request is refused.
    pub(crate) fn refused(why: Refused) -> Self {
        Self { outcome: EventOutcome::Refused, text: Some(format!("{REFUSED_LINE}{why}\n")) }
    }

    /// The HTTP response.
    pub(crate) fn into_response(self) -> Response {
        let (status, retry, line) = self.outcome.row();
        let body = match self.text {
            Some(text) => Body::from(text),
            None if line.is_empty() => return Response::new(Body::empty()),
            None => Body::from(line),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if retry == SlackRetry::CannotHelp {
            headers.insert(NO_RETRY, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<EventOutcome> for EventResponse {
    fn from(outcome: EventOutcome) -> Self {
        Self { outcome, text: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_own_counter() {
        for (index, outcome) in EventOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, index, "{outcome:?}");
        }
    }

    #[test]
    fn only_successes_have_an_empty_line() {
        for outcome in EventOutcome::ALL {
            let (status, _, line) = outcome.row();
            assert_eq!(status.is_success(), line.is_empty(), "{outcome:?}");
        }
    }

    #[test]
    fn slack_is_never_asked_to_give_up_after_our_own_failure() {
        for outcome in EventOutcome::ALL {
            let (status, retry, _) = outcome.row();
            let may_be_ours = status.is_server_error() || status == StatusCode::UNAUTHORIZED;
            assert!(!may_be_ours || retry == SlackRetry::Helps, "{outcome:?}");
        }
    }
}
