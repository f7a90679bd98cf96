//! The search index: a file next to the archive that finds messages by their words.
//!
//! * [`index`]: the file. It contains words and facets, but no text. If it is deleted, it is built again.
//!   [`write`] adds, changes and removes messages.
//! * [`follower`] feeds the changes of the archive to the index.
//! * [`background`] does that as long as a process runs; [`check`] compares the index with the archive.
//! * [`canvases`] adds the texts of canvases to the messages that share them.
//! * [`counts`]: the numbers of messages and replies, which no row of the archive contains.
//! * [`expression`] translates a query for the index, [`selection`] finds the candidates, [`hits`] answers
//!   the query.
//!
//! Every candidate is read from the archive before it is shown. An index that is behind may therefore miss a
//! message, but never shows outdated content.

pub mod background;
mod canvases;
pub mod check;
pub mod counts;
mod entries;
mod error;
mod expression;
pub mod follower;
pub mod hits;
pub mod index;
mod names;
mod recent_names;
mod schema;
mod selection;
mod write;
