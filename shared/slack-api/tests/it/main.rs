//! Tests of the client with a fake Slack.
#![expect(clippy::unwrap_used, reason = "test code: an unwrap is an assertion")]

#[cfg(feature = "socket")]
mod socket;
mod web_api;
