//! What is posted: an answer of anybody's, made harmless and cut into messages that Slack shows whole.
//!
//! * [`neutral`] turns Markdown into Slack's mrkdwn in which nothing but text and links to the web is left.
//! * [`parts`] cuts it into messages, code blocks closed and opened again.

mod neutral;
mod parts;

pub use neutral::neutral;
pub use parts::{MAX_PART_CHARS, MAX_PARTS, parts};
