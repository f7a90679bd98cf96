//! The archive port: one table of items, written register by register.
//!
//! [`rows`] lists the kinds of items, [`update`] defines writes, [`ArchiveExt`] is the interface for writers,
//! and [`erasure`] keeps erased content erased.

pub mod erasure;
pub mod item;
pub mod key;
pub mod rows;
mod settled;
pub mod update;

use async_trait::async_trait;

pub use erasure::{ErasureFact, ErasureFacts, ErasureScope, FactCover, WriteAdmission};
pub use item::{Attributes, Item, text_attributes};
pub use key::ItemKey;
pub use settled::ArchiveExt;
pub use update::{Guard, Update, WriteOutcome};

/// An item must fit DynamoDB's 400 KB on every backend, except for its large content, which a backend may
/// store elsewhere. A single event cannot exceed the queue's 1 MiB, and neither can its rows.
pub const MAX_ITEM_BYTES: usize = 4 * 1024 * 1024;

/// A failed archive operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ArchiveError {
    /// The backend did not answer in time or failed. The outcome of the write is unknown; retrying it is
    /// safe.
    #[error("the archive is unavailable: {0}")]
    Unavailable(String),
    /// The item would exceed [`MAX_ITEM_BYTES`]. Retrying cannot help.
    #[error("the item would have {bytes} bytes, more than {MAX_ITEM_BYTES}")]
    TooLarge {
        /// The size that the item would have had.
        bytes: usize,
    },
}

/// Which items a [`Archive::query`] visits, in the order of `timestamp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partition {
    /// All items of one `itemId`.
    Item(String),
    /// All items of one `parent`: the sparse index over threads. A reader must check the channel, since a
    /// parent contains only a workspace and a timestamp.
    Parent(String),
}

/// One page of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The items to visit.
    pub partition: Partition,
    /// Only items after this one, in query order.
    pub after: Option<ItemKey>,
    /// Only items whose `timestamp` is less than this, in either direction. A backend reads nothing beyond
    /// it.
    pub until: Option<String>,
    /// Newest first instead of oldest first.
    pub descending: bool,
    /// The maximum number of items; a backend may return fewer, with a `next`.
    pub limit: usize,
}

impl Query {
    /// The first page, oldest first, of all items of one `itemId`.
    pub fn partition(item_id: impl Into<String>) -> Self {
        Self::first_page(Partition::Item(item_id.into()))
    }

    /// The first page, oldest first, of all items of one `parent`.
    pub fn parent(parent: impl Into<String>) -> Self {
        Self::first_page(Partition::Parent(parent.into()))
    }

    fn first_page(partition: Partition) -> Self {
        Self { partition, after: None, until: None, descending: false, limit: 1000 }
    }

    /// The same query without redundant bounds, for backends; `None` if no item can be between its bounds.
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

/// A page of results of a query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// Items in query order.
    pub items: Vec<Item>,
    /// Where the next page starts, if there is one.
    pub next: Option<ItemKey>,
}

/// A table of items. Every method can be retried safely.
#[async_trait]
pub trait Archive: Send + Sync + 'static {
    /// Applies updates, each atomically and durably on its own: see [`Update::apply`] for the rule every
    /// backend follows. Returns one result per update, in order; updates of one item apply in order. A
    /// rejected update does not write its set-if-absent attributes, so only [`ArchiveExt`] and backends call
    /// this method: all other code writes through [`ArchiveExt`].
    ///
    /// An update that a fact of this archive covers writes nothing, regardless of its guard: it is rejected with
    /// an erased item, which is stored unless [`ErasureFacts::admit`] says otherwise. Each backend documents how
    /// late it may learn of a fact.
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>>;

    /// Returns the item, including every write that was acknowledged before this call.
    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError>;

    /// Returns many items, each as [`Archive::get`] would, in the order of the keys.
    async fn get_all(&self, keys: &[&ItemKey]) -> Result<Vec<Option<Item>>, ArchiveError> {
        let mut items = Vec::with_capacity(keys.len());
        for key in keys {
            items.push(self.get(key).await?);
        }
        Ok(items)
    }

    /// Returns one page of items. `Partition::Parent` may lag behind writes on some backends.
    async fn query(&self, query: &Query) -> Result<Page, ArchiveError>;

    /// Removes an item if it is still exactly `expected`, and returns whether it did. If the item is already
    /// gone, the result is `false`, not an error.
    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError>;

    /// Replaces an item with its keys and `erased` in one step, even if it is missing: from then on it
    /// rejects every update. Returns whether it was not erased before. Content that the backend stores
    /// elsewhere for the item, with all its versions, is deleted when this returns; call it again to delete
    /// the leftovers of a concurrent write.
    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError>;

    /// As [`Archive::erase`], for an item that has expired by the facts that are stored now: the erased item says
    /// so. Returns whether it had content. Any other item stays as it is, so that a hold that was set a moment
    /// before keeps it.
    async fn expire(&self, key: &ItemKey) -> Result<bool, ArchiveError>;

    /// Checks whether the archive can accept a write now.
    async fn ready(&self) -> Result<(), ArchiveError>;
}

/// Reads the last item of one `itemId`.
pub async fn newest(archive: &dyn Archive, item_id: impl Into<String>) -> Result<Option<Item>, ArchiveError> {
    let query = Query { limit: 1, descending: true, ..Query::partition(item_id) };
    Ok(archive.query(&query).await?.items.pop())
}

/// Reads all items of a query, page by page.
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
