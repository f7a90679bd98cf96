//! Shared parts of the commands that read Slack's history.
//!
//! * [`channels`] selects the channels.
//! * [`reading`] watches the reading of each channel: its progress, its end, and the consequence for the
//!   remaining channels.

pub(super) mod channels;
pub(super) mod reading;

/// A day in microseconds, the unit of timestamps.
pub(super) const DAY_MICROS: i64 = 86_400 * 1_000_000;
