//! The keys of rows. The constructors follow from the table of kinds, [`super::rows`]. Each kind is read with a
//! query of one partition, never with a scan.

use slack::ids::{TeamId, Ts};

pub use super::rows::*;

/// The primary key of an item: `itemId` and `timestamp`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemKey {
    /// The partition.
    pub item_id: String,
    /// The position within the partition; compared as text.
    pub timestamp: String,
}

impl ItemKey {
    /// A key of the given parts.
    pub fn new(item_id: impl Into<String>, timestamp: impl Into<String>) -> Self {
        Self { item_id: item_id.into(), timestamp: timestamp.into() }
    }
}

/// The value of `parent` on every message of a thread, including its root.
pub fn thread_parent(team: &TeamId, thread_ts: &Ts) -> String {
    format!("thread#{team}#{thread_ts}")
}
