//! Reads one item, many items, or a page of items. Never scans.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::{sleep, timeout};

use super::name::{PARENT, PARTITION, SORT};
use super::stored::{StoredItem, StoredRow, can_exist, is_partition, primary_key};
use super::table::{ArchiveTable, text};
use crate::policy::ROWS;
use ports::archive::{ArchiveError, ItemKey, Partition, Query};
use ports::queue::topology::ARCHIVE_TABLE;

/// Maximum number of keys of BatchGetItem.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html>
const BATCH: usize = 100;
/// Maximum number of concurrent batches: each response may have 16 MB.
const BATCHES_AT_ONCE: usize = 4;
/// The longest pause before unprocessed keys are requested again.
const LONGEST_PAUSE: Duration = Duration::from_millis(800);
/// Maximum bulk per page: DynamoDB ends a page at 1 MB of table data, but references are small, and a
/// thousand items of 4 MiB would not fit into memory.
const PAGE_BULK_BYTES: usize = 16 * 1024 * 1024;

/// A page whose bulk is not loaded.
pub(super) struct StoredPage {
    pub(super) items: Vec<StoredItem>,
    pub(super) next: Option<ItemKey>,
}

impl ArchiveTable {
    /// Reads one item, strongly consistent.
    pub(super) async fn read(&self, key: &ItemKey) -> Result<Option<StoredItem>, ArchiveError> {
        if !can_exist(key) {
            return Ok(None);
        }
        let get = self.client.get_item().table_name(&self.name).set_key(Some(primary_key(key)));
        let answer = get.consistent_read(true).send().await.map_err(|error| self.unavailable(&error))?;
        answer.item.as_ref().map(StoredItem::read).transpose()
    }

    /// Reads many items, strongly consistent. Returns those that exist, by key.
    pub(super) async fn read_all(
        &self,
        keys: impl IntoIterator<Item = &ItemKey>,
    ) -> Result<HashMap<ItemKey, StoredItem>, ArchiveError> {
        // DynamoDB rejects a batch with a duplicate key.
        let distinct: HashSet<&ItemKey> = keys.into_iter().filter(|key| can_exist(key)).collect();
        let keys: Vec<StoredRow> = distinct.into_iter().map(primary_key).collect();
        let batches: Vec<Vec<StoredRow>> = keys.chunks(BATCH).map(<[StoredRow]>::to_vec).collect();
        let found: Vec<Vec<StoredItem>> = stream::iter(batches)
            .map(|batch| self.read_batch(batch))
            .buffer_unordered(BATCHES_AT_ONCE)
            .try_collect()
            .await?;
        Ok(found.into_iter().flatten().map(|stored| (stored.key.clone(), stored)).collect())
    }

    async fn read_batch(&self, keys: Vec<StoredRow>) -> Result<Vec<StoredItem>, ArchiveError> {
        // The SDK retries failed requests, but not the unprocessed keys of a successful one.
        timeout(ROWS.operation, self.read_until_processed(keys)).await.unwrap_or_else(|_| {
            Err(ArchiveError::Unavailable(format!(
                "DynamoDB kept leaving keys unprocessed (table {}): its read capacity is too small for this load",
                self.name
            )))
        })
    }

    async fn read_until_processed(&self, mut keys: Vec<StoredRow>) -> Result<Vec<StoredItem>, ArchiveError> {
        let mut found = Vec::with_capacity(keys.len());
        let mut pause = ROWS.first_backoff;
        loop {
            let request = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
            let request = request.map_err(|error| ArchiveError::Unavailable(error.to_string()))?;
            let get = self.client.batch_get_item().request_items(&self.name, request);
            let answer = get.send().await.map_err(|error| self.unavailable(&error))?;
            let rows = answer.responses.unwrap_or_default().into_values().flatten();
            for row in rows {
                found.push(StoredItem::read(&row)?);
            }
            let unprocessed = answer.unprocessed_keys.unwrap_or_default().into_values();
            keys = unprocessed.flat_map(|batch| batch.keys).collect();
            if keys.is_empty() {
                return Ok(found);
            }
            sleep(pause.mul_f64(0.5 + 0.5 * fastrand::f64())).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Reads a page of one partition of the table or the index.
    pub(super) async fn page(&self, query: &Query) -> Result<StoredPage, ArchiveError> {
        let empty = StoredPage { items: Vec::new(), next: None };
        // DynamoDB rejects a start key outside the key condition.
        let Some(query) = query.narrowed() else { return Ok(empty) };
        let (name, value, index) = match &query.partition {
            Partition::Item(item_id) => (PARTITION, item_id, None),
            Partition::Parent(parent) => (PARENT, parent, ARCHIVE_TABLE.index.map(|index| index.name)),
        };
        // Every sort key is greater than the empty text.
        let after = query.after.as_ref().filter(|after| !after.timestamp.is_empty());
        let is_empty_range = query.until.as_ref().is_some_and(String::is_empty);
        if !is_partition(value)
            || is_empty_range
            || (query.descending && query.after.is_some() && after.is_none())
        {
            return Ok(empty);
        }
        let mut request = self
            .client
            .query()
            .table_name(&self.name)
            .set_index_name(index.map(str::to_owned))
            .key_condition_expression("#0=:0")
            .expression_attribute_names("#0", name)
            .expression_attribute_values(":0", text(value))
            .scan_index_forward(!query.descending)
            .limit(i32::try_from(query.limit.max(1)).unwrap_or(i32::MAX))
            .set_exclusive_start_key(after.map(|after| start_key(&query.partition, after)));
        if let Some(until) = &query.until {
            request = request
                .key_condition_expression("#0=:0 AND #1<:1")
                .expression_attribute_names("#1", SORT)
                .expression_attribute_values(":1", text(until));
        }
        // An index is only eventually consistent.
        if index.is_none() {
            request = request.consistent_read(true);
        }
        let answer = request.send().await.map_err(|error| self.unavailable(&error))?;
        let next = answer.last_evaluated_key.as_ref().map(key_of).transpose()?;
        let rows = answer.items.unwrap_or_default();
        let items = match &query.partition {
            Partition::Item(_) => rows.iter().map(StoredItem::read).collect::<Result<_, _>>()?,
            Partition::Parent(parent) => self.items_with_parent(parent, &rows).await?,
        };
        Ok(limit_bulk(StoredPage { items, next }))
    }

    /// Reads the items of index rows, without those that were deleted or moved to another parent meanwhile.
    async fn items_with_parent(
        &self,
        parent: &str,
        rows: &[StoredRow],
    ) -> Result<Vec<StoredItem>, ArchiveError> {
        let keys: Vec<ItemKey> = rows.iter().map(key_of).collect::<Result<_, _>>()?;
        let mut found = self.read_all(&keys).await?;
        let items = keys.iter().filter_map(|key| found.remove(key));
        Ok(items
            .filter(|stored| stored.inline.get(PARENT).and_then(serde_json::Value::as_str) == Some(parent))
            .collect())
    }
}

/// The start key of a query. The item need not exist.
fn start_key(partition: &Partition, after: &ItemKey) -> StoredRow {
    match partition {
        Partition::Item(item_id) => primary_key(&ItemKey::new(item_id, &after.timestamp)),
        Partition::Parent(parent) => {
            let mut key = primary_key(after);
            key.insert(PARENT.into(), text(parent));
            key
        }
    }
}

fn key_of(row: &StoredRow) -> Result<ItemKey, ArchiveError> {
    match (row.get(PARTITION), row.get(SORT)) {
        (Some(AttributeValue::S(item_id)), Some(AttributeValue::S(timestamp))) => {
            Ok(ItemKey::new(item_id, timestamp))
        }
        _ => Err(ArchiveError::Unavailable("DynamoDB returned an item without its keys".into())),
    }
}

/// Shortens a page to [`PAGE_BULK_BYTES`], but to at least one item, so that every page makes progress.
fn limit_bulk(mut page: StoredPage) -> StoredPage {
    let mut bulk_bytes = 0;
    let fits = page.items.iter().take_while(|stored| {
        let first = bulk_bytes == 0;
        bulk_bytes += stored.bulk_bytes();
        first || bulk_bytes <= PAGE_BULK_BYTES
    });
    let fits = fits.count();
    if fits < page.items.len() {
        page.items.truncate(fits);
        page.next = page.items.last().map(|stored| stored.key.clone());
    }
    page
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::reference::Reference;
    use super::*;

    fn page(bulk_bytes: &[usize]) -> StoredPage {
        let items = bulk_bytes.iter().enumerate().map(|(number, bytes)| {
            let mut stored = StoredItem::empty(&ItemKey::new("i", number.to_string()));
            let (reference, _) = Reference::for_value(&stored.key, &json!(number));
            if *bytes > 0 {
                stored.bulk.insert("text".into(), Reference { bytes: *bytes, ..reference });
            }
            stored
        });
        StoredPage { items: items.collect(), next: Some(ItemKey::new("i", "next")) }
    }

    #[test]
    fn a_page_ends_before_its_bulk_exceeds_the_limit() {
        let (half, full) = (PAGE_BULK_BYTES / 2, PAGE_BULK_BYTES);
        for (bulk, items, next) in [
            (vec![], 0, "next"),
            (vec![0, 0, 0], 3, "next"),
            (vec![half, half], 2, "next"),
            (vec![half, 0, half, 0, 1, 0], 4, "3"),
            (vec![full * 2, 0], 1, "0"),
            (vec![0, full * 2, 0], 2, "1"),
        ] {
            let shortened = limit_bulk(page(&bulk));
            let ends = (shortened.items.len(), shortened.next.unwrap().timestamp);
            assert_eq!(ends, (items, next.to_owned()), "{bulk:?}");
        }
    }
}
