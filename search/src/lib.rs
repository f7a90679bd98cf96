//! The search index: a file beside the archive in which messages are found by their words.
//!
//! * [`index`]: the file. It holds words and facets, no text: delete it, and it is made again. [`put`] takes a message in.
//! * [`follower`] feeds it with what changed in the archive.
//! * [`counts`]: how many messages and replies there are, which no row of the archive says.
//! * [`expression`] says a query in the index's own terms, [`selection`] finds what may fit it; [`hits`] answers it.
//!
//! Whatever the index finds is read from the archive before it is shown, so that an index which is behind may miss a message,
//! and never shows one that is not so.

pub mod counts;
mod expression;
pub mod follower;
pub mod hits;
pub mod index;
mod names;
mod put;
mod schema;
mod selection;
