//! Writes changes of messages to the archive, from every source: events, history, exports.
//!
//! * [`versions`]: writes one version of a message as the row's content or as a revision, unless it is
//!   already stored.
//! * [`changes`]: writes the changes of many events, without a read if they are probably new.
//! * [`history`]: stores messages of history, with a read first, because most of them are already stored.
//! * [`registers`]: writes updates of other rows, with a read first.
//! * [`preview`]: an archive that returns the results of writes without writing.

pub(crate) mod changes;
pub mod history;
mod preview;
mod registers;
mod versions;

pub use history::{StoredAs, store_history};
pub use preview::PreviewArchive;
pub(crate) use registers::write_changed;
