//! Slack's data formats: ids, the request signature, the envelope and the events, parsed leniently.

pub mod catalogue;
pub mod credentials;
pub mod envelope;
pub mod event;
pub mod hex;
pub mod ids;
pub mod signature;
pub mod signing_table;
pub mod verification;

/// The path of event requests: the one in the documentation of Slack's Bolt, so that an existing request URL
/// keeps working.
pub const EVENTS_PATH: &str = "/slack/events";

/// The app that the path of an event request names, as in `/slack/events/A0123ABCD`; `None` for the path without an app.
pub fn app_of_path(path: &str) -> Option<&str> {
    path.strip_prefix(EVENTS_PATH)?.strip_prefix('/')
}
