//! Counts each channel's days: once when they are over, and again when something of them changes later.
//!
//! ```text
//! changes of messages ─▶ follow: this day is to be counted ─▶ job ─▶ count: the day's rows ─▶ roll-up, first posts
//! ```
//!
//! * [`follow`]: which days are to be counted, from what was written to messages and from the calendar. No writer of messages
//!   knows of it, and none can forget it.
//! * [`count`]: one day, from its rows. Nothing is ever added to what was counted before.
//! * [`reports`]: what is stored of reports.
//! * [`worker`]: the jobs and the look.

mod count;
mod follow;
mod reports;
mod worker;

pub(crate) use follow::ask_for;
pub(crate) use reports::remove as remove_reports;
pub use reports::store as store_report;
pub use worker::Statistician;
