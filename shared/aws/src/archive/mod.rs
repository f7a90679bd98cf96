//! The archive port on DynamoDB.
//!
//! An item is a row of the archive's table under the same keys and names, so that people can inspect it
//! there. A write is one conditional UpdateItem ([`expression`]) without a read; a rejected one returns the
//! existing row.
//!
//! * [`value`], [`text`], [`name`]: convert JSON and its names to DynamoDB's form and back, without loss.
//! * [`stamp`]: identifies each write. [`stored`]: a row with its stamp and references.
//! * [`bulk`]: attributes in the bucket that are too large for a row. [`replacement`]: moves them there.
//!   [`size`]: sizes of attributes and items.
//! * [`read`], [`write`], [`delete`], [`erase`]: the requests to the [`table`]. [`bound`]: rejects updates of
//!   erased data.
//!
//! The port allows, but the table does not: keys that are empty or longer than DynamoDB's 2048 and 1024
//! bytes, and a `parent` that is not a text of 1 to 2048 bytes. Annalist never writes these.

mod bound;
mod bulk;
mod delete;
mod erase;
mod expression;
mod name;
mod read;
mod reference;
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

use aws_sdk_dynamodb::types::AttributeValue;

use crate::Aws;
pub(super) use bound::BoundArchive;
pub use bound::ERASURE_REFRESH;
use bulk::Bulk;
use ports::archive::erasure::covered_team;
use ports::archive::{
    Archive, ArchiveError, ErasureFacts, Item, ItemKey, Page, Query, Update, WriteOutcome, rows,
};
use ports::clock::SharedClock;
use stamp::Stamps;
use table::ArchiveTable;

/// The archive port on DynamoDB.
pub(super) struct DynamoArchive {
    table: ArchiveTable,
    bulk: Bulk,
    stamps: Stamps,
    clock: SharedClock,
}

/// Maximum number of concurrent writes. One takes 5 to 10 ms, so this exceeds the 4,000 writes a second that
/// a new table accepts; more would only wait on additional connections.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html>
const WRITES_AT_ONCE: usize = 64;

impl DynamoArchive {
    /// Sends no request to DynamoDB yet.
    pub(super) fn new(aws: &Aws, clock: SharedClock) -> Self {
        Self { table: ArchiveTable::new(aws), bulk: Bulk::new(aws), stamps: Stamps::default(), clock }
    }

    /// The second from which DynamoDB may delete a row that is written now; `None` if it stays.
    fn expires(&self, key: &ItemKey) -> Option<AttributeValue> {
        let after = rows::expires_after(&key.item_id)?;
        Some(AttributeValue::N(self.clock.now().plus(after).seconds().to_string()))
    }

    /// Writes the updates with these indexes one after the other.
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
        // Updates of the same item are written in order.
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
            Some(stored) => Ok(Some(self.bulk.load(stored).await?)),
            None => Ok(None),
        }
    }

    async fn get_all(&self, keys: &[&ItemKey]) -> Result<Vec<Option<Item>>, ArchiveError> {
        let stored = self.table.read_all(keys.iter().copied()).await?;
        let items = self.bulk.load_all(stored.into_values().collect()).await?;
        let items: HashMap<ItemKey, Item> = items.into_iter().map(|item| (item.key.clone(), item)).collect();
        Ok(keys.iter().map(|key| items.get(*key).cloned()).collect())
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        let page = self.table.page(query).await?;
        Ok(Page { items: self.bulk.load_all(page.items).await?, next: page.next })
    }

    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError> {
        self.delete(expected).await
    }

    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.erase_item(key).await
    }

    async fn expire(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        let Some(team) = covered_team(key) else { return Ok(false) };
        self.expire_item(key, &ErasureFacts::load(self, &team).await?).await
    }

    /// Reads an item that is never written, the smallest possible read: it succeeds only if the table exists
    /// and the credentials may use it. DescribeTable would need another permission, and is limited to a few
    /// requests a second for the whole account.
    async fn ready(&self) -> Result<(), ArchiveError> {
        self.table.read(&ItemKey::new("meta#ready", "-")).await.map(drop)
    }
}
