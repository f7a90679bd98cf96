//! What comes back for a call.

use std::time::Duration;

use serde_json::{Value, json};

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers; their names are lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// How long the caller waits for it.
    pub delay: Duration,
}

impl SlackAnswer {
    /// An answer without a body.
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), delay: Duration::ZERO }
    }

    /// The answer to a call that was accepted or refused.
    pub fn json(body: &Value) -> Self {
        let answer = Self::new(200).with_header("content-type", "application/json; charset=utf-8");
        answer.with_body(body.to_string())
    }

    /// A call too many. <https://docs.slack.dev/apis/web-api/rate-limits>
    pub fn rate_limited(retry_after_s: i64) -> Self {
        let body = json!({ "ok": false, "error": "ratelimited" });
        let answer = Self { status: 429, ..Self::json(&body) };
        answer.with_header("retry-after", &retry_after_s.to_string())
    }

    /// With a header; `name` is lower case.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    /// With a body of any kind.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// An answer that takes its time.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// What it says; null if it is not JSON.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A refusal as Slack words it.
pub fn refusal(error: &str) -> SlackAnswer {
    SlackAnswer::json(&refused(error))
}

/// The body of a refusal.
pub(crate) fn refused(error: &str) -> Value {
    json!({ "ok": false, "error": error })
}
