//! The archive port: one table of items, written register by register.
//!
//! Shapes and kinds of items are in [`key`]; what a write may do is in [`update`]; [`ArchiveExt`] is how one writes. What is
//! erased, and stays so whatever comes, is in [`erasure`].

pub mod erasure;
pub mod item;
pub mod key;
mod settled;
pub mod update;

use async_trait::async_trait;

pub use erasure::{ErasureFact, ErasureFacts, ErasureScope};
pub use item::{Attributes, Item};
pub use key::ItemKey;
pub use settled::ArchiveExt;
pub use update::{Guard, Update, WriteOutcome};

/// An item must fit DynamoDB's 400 KB on every backend, but for its bulk, which a backend may keep elsewhere; a single
/// event cannot exceed the queue's 1 MiB, so neither can what is made of it.
pub const MAX_ITEM_BYTES: usize = 4 * 1024 * 1024;

/// What the archive could not do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ArchiveError {
    /// The backend did not answer in time or failed. Nothing is known about the write; doing it again is safe.
    #[error("the archive is unavailable: {0}")]
    Unavailable(String),
    /// The item would exceed [`MAX_ITEM_BYTES`]. Trying again cannot help.
    #[error("the item would have {bytes} bytes, more than {MAX_ITEM_BYTES}")]
    TooLarge {
        /// What the item would have taken.
        bytes: usize,
    },
}

/// Which items a [`Archive::query`] visits, in the order of `timestamp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partition {
    /// All items of one `itemId`.
    Item(String),
    /// All items of one `parent`: the sparse index over threads. A reader checks that the channel is the one it asked
    /// for, since a parent names only a workspace and a timestamp.
    Parent(String),
}

/// One page of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Which items.
    pub partition: Partition,
    /// Only items after this one, in the direction of the query.
    pub after: Option<ItemKey>,
    /// Only items whose `timestamp` is less than this, in either direction: a backend reads nothing beyond it.
    pub until: Option<String>,
    /// Newest first instead of oldest first.
    pub descending: bool,
    /// At most this many; a backend may return fewer and a `next`.
    pub limit: usize,
}

impl Query {
    /// The first page, oldest first, of all items of one `itemId`.
    pub fn partition(item_id: impl Into<String>) -> Self {
        Self::of(Partition::Item(item_id.into()))
    }

    /// The first page, oldest first, of all items of one `parent`.
    pub fn parent(parent: impl Into<String>) -> Self {
        Self::of(Partition::Parent(parent.into()))
    }

    fn of(partition: Partition) -> Self {
        Self { partition, after: None, until: None, descending: false, limit: 1000 }
    }

    /// The same query with no bound that another one implies, for backends; `None` if no item can be between its bounds.
    pub fn narrowed(&self) -> Option<Self> {
        let (Some(after), Some(until)) = (&self.after, &self.until) else { return Some(self.clone()) };
        match (self.descending, after.timestamp < *until) {
            (false, true) => Some(self.clone()),
            (false, false) => None,
            (true, true) => Some(Self { until: None, ..self.clone() }),
            (true, false) => Some(Self { after: None, ..self.clone() }),
        }
    }
}

/// What a query found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// Items in the order asked for.
    pub items: Vec<Item>,
    /// Where the next page starts, if there is one.
    pub next: Option<ItemKey>,
}

/// A table of items. Every method may be repeated without harm.
#[async_trait]
pub trait Archive: Send + Sync + 'static {
    /// Applies updates, each atomically and durably on its own: see [`Update::apply`] for the rule every backend follows.
    /// One result per update, in their order; updates of one item apply in their order. A rejected update leaves its
    /// set-if-absent attributes out, so only backends are called like this: everyone else writes by [`ArchiveExt`].
    ///
    /// Nothing of an update is written that an [`ErasureFact`] of this archive covers, whatever its guard says: it is rejected
    /// with an erased item, and so is the item from then on. Only one that the fact covers as it is stored stays, for those who
    /// wrote the fact and then erase all that it covers: it says what else is to be erased. A backend says how late it may learn
    /// of a fact.
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>>;

    /// The item as of every write that was answered before this call.
    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError>;

    /// Many items, as [`Archive::get`] would answer each, in the order of the keys.
    async fn get_all(&self, keys: &[&ItemKey]) -> Result<Vec<Option<Item>>, ArchiveError> {
        let mut items = Vec::with_capacity(keys.len());
        for key in keys {
            items.push(self.get(key).await?);
        }
        Ok(items)
    }

    /// One page of items. `Partition::Parent` may lag behind writes on some backends.
    async fn query(&self, query: &Query) -> Result<Page, ArchiveError>;

    /// Removes an item if it is still exactly `expected`; says whether it did. An item that is gone already is not
    /// an error and answers `false`.
    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError>;

    /// Replaces an item by its keys and `erased` in one step, even if it is missing: from then on every update is refused.
    /// Says whether it was not erased before. What a backend keeps of the item elsewhere, and older versions of that, is gone
    /// when this returns; it can be called again for what a write left that was under way.
    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError>;

    /// Whether a write could be accepted now.
    async fn ready(&self) -> Result<(), ArchiveError>;
}

/// Every item of a query, page by page. For readers that show everything.
pub async fn query_all(archive: &dyn Archive, mut query: Query) -> Result<Vec<Item>, ArchiveError> {
    let mut items = Vec::new();
    loop {
        let page = archive.query(&query).await?;
        items.extend(page.items);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(items),
        }
    }
}
