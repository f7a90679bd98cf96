//! Slack's data formats: ids, the request signature, the envelope and the events, parsed leniently.

pub mod catalogue;
pub mod credentials;
pub mod envelope;
pub mod event;
pub mod hex;
pub mod ids;
pub mod signature;
pub mod verification;

/// The path of event requests: the one in the documentation of Slack's Bolt, so that an existing request URL
/// keeps working.
pub const EVENTS_PATH: &str = "/slack/events";
