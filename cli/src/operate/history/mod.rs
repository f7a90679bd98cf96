//! What the commands that read Slack's history share.
//!
//! * [`channels`] says which channels are read.
//! * [`reading`] watches the reading of each: its progress, its end, and what that means for the rest.

pub(super) mod channels;
pub(super) mod reading;

/// A day in microseconds, as timestamps count.
pub(super) const DAY_MICROS: i64 = 86_400 * 1_000_000;
