//! Keeps an archive as its owner wants it.
//!
//! * [`retention`]: removes what has expired by the rules of a workspace.
//! * [`night`]: does so every night.

mod night;
mod retention;

pub use night::{Nights, night_before};
pub use retention::{ExpiredChannel, RetentionPlan, read_rules};
