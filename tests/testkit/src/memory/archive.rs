//! The archive port on one map, with a log of changed messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use ports::archive::rows;
use ports::archive::{
    Archive, ArchiveError, Attributes, ErasureFacts, Item, ItemKey, MAX_ITEM_BYTES, Page, Partition, Query,
    Update, WriteAdmission, WriteOutcome,
};
use ports::changes::{ChangeBatch, ChangeCursor, Changes, is_followed};
use serde_json::Value;

/// An archive that lives as long as the process.
#[derive(Debug, Default)]
pub struct MemoryArchive {
    contents: Mutex<Contents>,
    rows_read: AtomicUsize,
}

#[derive(Debug, Default)]
struct Contents {
    items: BTreeMap<ItemKey, Attributes>,
    /// Written messages, in order.
    changed: Vec<ItemKey>,
}

impl Contents {
    fn partition(&self, partition: &Partition) -> Vec<(&ItemKey, &Attributes)> {
        match partition {
            Partition::Item(item_id) => self
                .items
                .range(ItemKey::new(item_id.as_str(), "")..)
                .take_while(|(key, _)| key.item_id == *item_id)
                .collect(),
            Partition::Parent(parent) => self
                .items
                .iter()
                .filter(|(_, attributes)| attributes.get("parent").and_then(Value::as_str) == Some(parent))
                .collect(),
        }
    }

    fn put(&mut self, key: &ItemKey, attributes: Attributes) {
        if is_followed(key) {
            self.changed.push(key.clone());
        }
        self.items.insert(key.clone(), attributes);
    }

    /// The index in the log at which a follower with this cursor continues; `None` if the cursor is of
    /// another archive.
    fn log_index(&self, cursor: Option<&ChangeCursor>) -> Option<usize> {
        let Some(cursor) = cursor else { return Some(0) };
        let index = cursor.as_str().strip_prefix("memory/")?.parse().ok()?;
        (index <= self.changed.len()).then_some(index)
    }

    /// All stored erasure facts.
    fn erasures(&self) -> ErasureFacts {
        let rows = self.items.range(ItemKey::new(rows::ERASURE.prefix(), "")..);
        let rows = rows.take_while(|(key, _)| key.item_id.starts_with(rows::ERASURE.prefix()));
        ErasureFacts::from_rows(&rows.map(item_of).collect::<Vec<_>>())
    }

    fn put_mark(&mut self, mark: Item) -> bool {
        let was_erased = self.item(&mark.key).is_some_and(|item| item.is_erased());
        self.put(&mark.key, mark.attributes);
        !was_erased
    }

    fn item(&self, key: &ItemKey) -> Option<Item> {
        self.items.get_key_value(key).map(item_of)
    }
}

impl MemoryArchive {
    /// An empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// All items, ordered by key, so that two runs can be compared.
    pub fn items(&self) -> Vec<Item> {
        self.lock().items.iter().map(item_of).collect()
    }

    /// The items whose partition begins with this, ordered by key.
    pub fn items_with(&self, prefix: &str) -> Vec<Item> {
        let contents = self.lock();
        let items = contents.items.range(ItemKey::new(prefix, "")..);
        items.take_while(|(key, _)| key.item_id.starts_with(prefix)).map(item_of).collect()
    }

    /// The current state of an item.
    pub fn item(&self, key: &ItemKey) -> Option<Item> {
        self.lock().item(key)
    }

    /// The number of rows that were read since the last call, in any way.
    pub fn take_rows_read(&self) -> usize {
        self.rows_read.swap(0, Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        // Every change is one insert or remove, so a panic elsewhere leaves a whole map.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, update: &Update) -> Result<WriteOutcome, ArchiveError> {
        let mut contents = self.lock();
        let stored = contents.item(&update.key);
        if let WriteAdmission::Refuse { mark, is_stored } = contents.erasures().admit(update, stored.as_ref())
        {
            if is_stored {
                contents.put_mark(mark.clone());
            }
            return Ok(WriteOutcome::Rejected(mark));
        }
        let stored = contents.items.get(&update.key);
        let Some(attributes) = update.apply(stored) else {
            let attributes = stored.cloned().unwrap_or_default();
            return Ok(WriteOutcome::Rejected(Item { key: update.key.clone(), attributes }));
        };
        let bytes = update.key.item_id.len() + update.key.timestamp.len() + json_bytes(&attributes);
        if bytes > MAX_ITEM_BYTES {
            return Err(ArchiveError::TooLarge { bytes });
        }
        contents.put(&update.key, attributes);
        Ok(WriteOutcome::Applied)
    }
}

#[async_trait]
impl Archive for MemoryArchive {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>> {
        updates.iter().map(|update| self.apply(update)).collect()
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        self.rows_read.fetch_add(1, Ordering::SeqCst);
        Ok(self.item(key))
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        let contents = self.lock();
        let mut found = contents.partition(&query.partition);
        found.sort_by(|a, b| sort_key(a.0).cmp(&sort_key(b.0)));
        if query.descending {
            found.reverse();
        }
        if let Some(until) = &query.until {
            found.retain(|(key, _)| key.timestamp < *until);
        }
        if let Some(after) = &query.after {
            found.retain(|(key, _)| match query.descending {
                false => sort_key(key) > sort_key(after),
                true => sort_key(key) < sort_key(after),
            });
        }
        let limit = query.limit.max(1);
        let more = found.len() > limit;
        found.truncate(limit);
        self.rows_read.fetch_add(found.len(), Ordering::SeqCst);
        let next = if more { found.last().map(|(key, _)| (*key).clone()) } else { None };
        Ok(Page { items: found.into_iter().map(item_of).collect(), next })
    }

    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError> {
        let items = &mut self.lock().items;
        let unchanged = items.get(&expected.key) == Some(&expected.attributes);
        if unchanged {
            items.remove(&expected.key);
        }
        Ok(unchanged)
    }

    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        Ok(self.lock().put_mark(Item::erased(key.clone())))
    }

    async fn expire(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        let mut contents = self.lock();
        let expires = contents.item(key).is_some_and(|item| contents.erasures().expires(&item));
        Ok(expires && contents.put_mark(Item::expired(key.clone())))
    }

    async fn ready(&self) -> Result<(), ArchiveError> {
        Ok(())
    }
}

#[async_trait]
impl Changes for MemoryArchive {
    async fn since(&self, cursor: Option<&ChangeCursor>, limit: usize) -> Result<ChangeBatch, ArchiveError> {
        let contents = self.lock();
        let Some(from) = contents.log_index(cursor) else { return Ok(ChangeBatch::Rebuild) };
        let to = contents.changed.len().min(from + limit.max(1));
        let keys: BTreeSet<&ItemKey> = contents.changed[from..to].iter().collect();
        let items = keys.into_iter().filter_map(|key| contents.item(key)).collect();
        Ok(ChangeBatch::Items { items, next: ChangeCursor::new(format!("memory/{to}")) })
    }

    async fn backlog_estimate(&self, cursor: Option<&ChangeCursor>) -> Result<Option<u64>, ArchiveError> {
        let contents = self.lock();
        let from = contents.log_index(cursor).unwrap_or(0);
        let keys: BTreeSet<&ItemKey> = contents.changed[from..].iter().collect();
        Ok(Some(keys.len() as u64))
    }
}

/// A row of the map as an item.
fn item_of((key, attributes): (&ItemKey, &Attributes)) -> Item {
    Item { key: key.clone(), attributes: attributes.clone() }
}

/// The sort key of a query.
fn sort_key(key: &ItemKey) -> (&str, &str) {
    (&key.timestamp, &key.item_id)
}

fn json_bytes(attributes: &Attributes) -> usize {
    // A map with text keys always serialises.
    serde_json::to_string(attributes).map_or(0, |json| json.len())
}
