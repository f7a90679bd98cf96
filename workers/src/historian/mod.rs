//! historian: Slack's history into the archive, by the rules that events follow.
//!
//! * [`calls`] calls Slack: pages as large as it gives them, as often as it permits.
//! * [`span`] reads a span of a channel, newest first; [`page`] stores a page; [`threads`] says which threads are complete.
//! * [`reconcile`] compares what is read with the archive before it is stored.
//! * [`wanted`] says what is to be read, given what is held; [`run`] whether the last backfill ended.
//! * [`worker`] is the worker: spans as jobs, and the look for gaps that are to be filled.
//! * [`trouble`] says what an error means for the rest.
//!
//! History needs no existence check: it is Slack's own answer. It is read only of channels that are kept, it asks nothing, and
//! what is missing in it removes nothing.

pub mod calls;
pub mod page;
mod reconcile;
pub mod run;
pub mod span;
mod threads;
pub mod trouble;
pub mod wanted;
mod worker;

pub use calls::{HistoryCalls, PausePolicy, RESTRICTED_ADVICE};
pub use page::{ChannelReader, ReadCounts, ReadSnapshot, ThreadChoice};
pub use reconcile::{Comparison, FoundDifferences};
pub use span::{PageBudget, PlannedSpan, SpanEnd};
pub use trouble::{Consequence, HistoryError};
pub use worker::Historian;
