//! What Slack sends: ids, the request signature, the envelope and the events, read tolerantly.

pub mod catalogue;
pub mod credentials;
pub mod envelope;
pub mod event;
pub mod hex;
pub mod ids;
pub mod signature;
pub mod verification;

/// Where events are delivered: Slack's path in Bolt's documentation, so that an existing request URL keeps working.
pub const EVENTS_PATH: &str = "/slack/events";
