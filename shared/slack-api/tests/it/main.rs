//! Tests of the client with a fake Slack.
#![expect(clippy::unwrap_used, reason = "test code: an unwrap is an assertion")]

mod web_api;
