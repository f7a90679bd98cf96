//! Prepares answers for posting: untrusted text is made harmless and split into messages that Slack does not
//! truncate.
//!
//! * [`to_safe_mrkdwn`] converts Markdown to Slack's mrkdwn with only text and links to the web.
//! * [`parts`] splits it into messages; a code block is closed and opened again at each split.

mod parts;
mod safe_mrkdwn;

pub use parts::{MAX_PART_CHARS, MAX_PARTS, parts};
pub use safe_mrkdwn::to_safe_mrkdwn;
