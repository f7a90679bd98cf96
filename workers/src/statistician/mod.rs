//! Counts each channel's days: once when they are over, and again when their messages change later.
//!
//! ```text
//! changes of messages ─▶ follow: a day must be counted ─▶ job ─▶ count: the day's rows ─▶ roll-up, first posts
//! ```
//!
//! * [`follow`]: finds the days to count, from the changes of messages and from the calendar. Writers of
//!   messages do not know about it, so none can forget it.
//! * [`count`]: counts one day, from its rows. It never adds to an earlier count.
//! * [`reports`]: the stored reports.
//! * [`worker`]: the jobs and the poll.

mod count;
mod follow;
mod reports;
mod worker;

pub(crate) use follow::request_counts;
pub(crate) use reports::remove as remove_reports;
pub use reports::store as store_report;
pub use worker::Statistician;
