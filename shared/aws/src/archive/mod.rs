//! The archive port on DynamoDB.
//!
//! An item is a row of the archive's table under the same keys and names, so that people can look at it there. A write
//! is one conditional UpdateItem ([`expression`]) and no read; a refused one shows the row that refused it.
//!
//! * [`value`], [`text`], [`name`]: JSON and its names as DynamoDB has them, so that everything comes back exactly.
//! * [`stamp`]: what tells one write from every other. [`stored`]: a row with its stamp and references.
//! * [`bulk`]: what is too large for a row is in the bucket. [`replacement`]: how it gets there. [`size`]: what is too
//!   large.
//! * [`read`], [`write`]: the requests, to [`table`]. [`bound`]: what is erased is not written.
//!
//! What the table cannot have and the port would allow: keys that are empty or longer than DynamoDB's 2048 and 1024
//! bytes, and a `parent` that is no text of 1 to 2048 bytes. Nothing in Annalist writes such.

mod bound;
mod bulk;
mod delete;
mod erase;
mod expression;
mod name;
mod read;
mod replacement;
mod size;
mod stamp;
mod stored;
mod table;
mod text;
mod value;
mod write;

use std::collections::HashMap;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};

use crate::Aws;
pub(super) use bound::BoundArchive;
pub use bound::ERASURE_REFRESH;
use bulk::Bulk;
use ports::archive::{Archive, ArchiveError, Item, ItemKey, Page, Query, Update, WriteOutcome};
use stamp::Stamps;
use table::ArchiveTable;

/// The archive port on DynamoDB.
pub(super) struct DynamoArchive {
    table: ArchiveTable,
    bulk: Bulk,
    stamps: Stamps,
}

/// Maximum number of concurrent writes. One takes some 5 to 10 ms, so these are more than the 4,000 writes a
/// second that a new table takes; more at once would only wait, on connections of their own.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html>
const WRITES_AT_ONCE: usize = 64;

impl DynamoArchive {
    /// Nothing is asked of DynamoDB yet.
    pub(super) fn new(aws: &Aws) -> Self {
        Self { table: ArchiveTable::new(aws), bulk: Bulk::new(aws), stamps: Stamps::default() }
    }

    /// Writes some of the updates one after the other.
    async fn write_in_turn(&self, updates: &[&Update], indexes: Vec<usize>) -> Vec<(usize, WriteResult)> {
        let mut written = Vec::with_capacity(indexes.len());
        for index in indexes {
            written.push((index, self.write_one(updates[index]).await));
        }
        written
    }
}

type WriteResult = Result<WriteOutcome, ArchiveError>;

#[async_trait]
impl Archive for DynamoArchive {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<WriteResult> {
        // What is of one item goes in its order.
        let mut turns: Vec<Vec<usize>> = Vec::new();
        let mut turn_of: HashMap<&ItemKey, usize> = HashMap::new();
        for (index, update) in updates.iter().enumerate() {
            let turn = *turn_of.entry(&update.key).or_insert_with(|| {
                turns.push(Vec::new());
                turns.len() - 1
            });
            turns[turn].push(index);
        }
        let written = stream::iter(turns)
            .map(|indexes| self.write_in_turn(updates, indexes))
            .buffer_unordered(WRITES_AT_ONCE);
        let mut written: Vec<(usize, WriteResult)> = written.flat_map(stream::iter).collect().await;
        written.sort_unstable_by_key(|(index, _)| *index);
        written.into_iter().map(|(_, outcome)| outcome).collect()
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        match self.table.read(key).await? {
            Some(stored) => Ok(Some(self.bulk.whole(stored).await?)),
            None => Ok(None),
        }
    }

    async fn get_all(&self, keys: &[&ItemKey]) -> Result<Vec<Option<Item>>, ArchiveError> {
        let stored = self.table.read_all(keys.iter().copied()).await?;
        let items = self.bulk.whole_all(stored.into_values().collect()).await?;
        let items: HashMap<ItemKey, Item> = items.into_iter().map(|item| (item.key.clone(), item)).collect();
        Ok(keys.iter().map(|key| items.get(*key).cloned()).collect())
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        let page = self.table.page(query).await?;
        Ok(Page { items: self.bulk.whole_all(page.items).await?, next: page.next })
    }

    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError> {
        self.delete(expected).await
    }

    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.erase_item(key).await
    }

    /// Reads an item that is never written: DynamoDB answers only if the table exists and the credentials may use
    /// it, for the price of the smallest read. DescribeTable would need a permission more, and is limited to a few
    /// requests a second for the whole account.
    async fn ready(&self) -> Result<(), ArchiveError> {
        self.table.read(&ItemKey::new("meta#ready", "-")).await.map(drop)
    }
}
