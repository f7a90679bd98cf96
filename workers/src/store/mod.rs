//! Writes changes of messages to the archive, for every source of them: events, history, exports.
//!
//! * [`versions`]: one version of a message becomes the row's content, or a revision, or it was there already.
//! * [`changes`]: the changes of many events, written unread if they most likely are news.
//! * [`history`]: messages of history, read first, because most of them are there already.
//! * [`preview`]: an archive that says what a write would do.

pub(crate) mod changes;
pub mod history;
mod preview;
mod versions;

pub use history::{StoredAs, store_history};
pub use preview::PreviewArchive;
