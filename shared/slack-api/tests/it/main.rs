//! The client beside a fake Slack.
#![expect(clippy::unwrap_used, reason = "all of it is test code: what it unwraps is what it claims")]

mod web_api;
