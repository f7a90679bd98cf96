//! historian: reads Slack's history into the archive, by the same rules as events.
//!
//! * [`calls`] calls Slack: with pages as large as it allows, at the rate it permits.
//! * [`span`] reads a span of a channel, newest first; [`page`] stores a page; [`threads`] determines which
//!   threads are complete.
//! * [`reconcile`] compares messages with the archive before they are stored.
//! * [`plan`] selects the spans to read, given the stored ones; [`run`] records whether the last backfill
//!   ended.
//! * [`worker`] is the worker: it sends a turn for each workspace that is due; [`fill`] is a turn: gaps first, then
//!   everything that Slack still shows.
//! * [`error`] determines the consequence of an error.
//!
//! History needs no existence check: it is Slack's own answer. It is read only for archived channels, it
//! sends no questions, and messages missing from it remove nothing.

pub mod calls;
pub mod error;
mod fill;
mod looks;
mod mode;
pub mod page;
pub mod plan;
mod reconcile;
pub mod run;
pub mod span;
mod threads;
mod worker;

pub use calls::{HistoryCalls, PausePolicy, RESTRICTED_ADVICE};
pub use error::{Consequence, HistoryError};
pub use mode::BackfillMode;
pub use page::{ChannelReader, ReadCounts, ReadSnapshot, ThreadChoice};
pub use reconcile::{Comparison, FoundDifferences};
pub use span::{PageBudget, PlannedSpan, SpanEnd};
pub use worker::Historian;
