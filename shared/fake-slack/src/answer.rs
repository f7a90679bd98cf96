//! The response to a call.

use std::time::Duration;

use serde_json::{Value, json};

/// A response of the fake Slack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers. Names are lower case.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Delay before the caller receives the response.
    pub delay: Duration,
}

impl SlackAnswer {
    /// Creates a response without a body.
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), delay: Duration::ZERO }
    }

    /// Creates the response to an accepted or refused call: status 200 with a JSON body.
    pub fn json(body: &Value) -> Self {
        let answer = Self::new(200).with_header("content-type", "application/json; charset=utf-8");
        answer.with_body(body.to_string())
    }

    /// Creates a 429 response. <https://docs.slack.dev/apis/web-api/rate-limits>
    pub fn rate_limited(retry_after_s: i64) -> Self {
        let answer = Self { status: 429, ..refusal("ratelimited") };
        answer.with_header("retry-after", &retry_after_s.to_string())
    }

    /// Sets a header. `name` must be lower case.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the delay.
    #[must_use]
    pub fn with_delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON; null if it is not JSON.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Creates the response of a refusal, in Slack's format.
pub fn refusal(error: &str) -> SlackAnswer {
    SlackAnswer::json(&refused(error))
}

/// Returns the body of a refusal.
pub(crate) fn refused(error: &str) -> Value {
    json!({ "ok": false, "error": error })
}
