//! An item as it is stored in the table.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;

use super::name::{self, PACKED, PARTITION, SORT, STAMP};
use super::reference::Reference;
use super::value::{self, Foreign};
use ports::archive::{ArchiveError, Attributes, Item, ItemKey};

/// Attributes as DynamoDB returns them.
pub(super) type StoredRow = HashMap<String, AttributeValue>;

/// An item whose bulk is not loaded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredItem {
    pub(super) key: ItemKey,
    /// The attributes that are in the table.
    pub(super) inline: Attributes,
    /// The attributes that are in the bucket, by name.
    pub(super) bulk: BTreeMap<String, Reference>,
    /// The object with attributes of which the table has no newer value.
    pub(super) packed: Option<Reference>,
    /// The stamp of the last write: see [`super::stamp`]. `None` if Annalist did not write the row.
    pub(super) stamp: Option<String>,
}

impl StoredItem {
    /// Reads a row.
    ///
    /// # Errors
    /// If the row contains a value that we never write.
    pub(super) fn read(row: &StoredRow) -> Result<Self, ArchiveError> {
        let (Some(AttributeValue::S(item_id)), Some(AttributeValue::S(timestamp))) =
            (row.get(PARTITION), row.get(SORT))
        else {
            return Err(ArchiveError::Unavailable("DynamoDB returned an item without its keys".into()));
        };
        let mut stored = Self::empty(&ItemKey::new(item_id, timestamp));
        stored.stamp = stamp_of(row).map(str::to_owned);
        let broken = |error: Foreign| ArchiveError::Unavailable(format!("{item_id} / {timestamp} {error}"));
        stored.packed = row.get(PACKED).map(Reference::from_stored).transpose().map_err(broken)?.flatten();
        for (stored_name, stored_value) in row {
            let Some(name) = name::from_stored(stored_name) else { continue };
            let foreign = |error: Foreign| {
                ArchiveError::Unavailable(format!("attribute {name:?} of {item_id} / {timestamp} {error}"))
            };
            match Reference::from_stored(stored_value).map_err(foreign)? {
                Some(reference) => drop(stored.bulk.insert(name.to_owned(), reference)),
                None => {
                    stored.inline.insert(name.to_owned(), value::from_stored(stored_value).map_err(foreign)?);
                }
            }
        }
        Ok(stored)
    }

    /// An empty item, for a key that does not exist.
    pub(super) fn empty(key: &ItemKey) -> Self {
        Self { key: key.clone(), inline: Attributes::new(), bulk: BTreeMap::new(), packed: None, stamp: None }
    }

    /// Whether this is exactly `item`, if nothing of it is packed. Bulk is compared by the hash in its key, without reading the bucket.
    pub(super) fn equals(&self, item: &Item) -> bool {
        let equal = |(name, value)| match self.bulk.get(name) {
            Some(reference) => Reference::for_value(&self.key, value).0 == *reference,
            None => self.inline.get(name) == Some(value),
        };
        self.key == item.key
            && self.inline.len() + self.bulk.len() == item.attributes.len()
            && item.attributes.iter().all(equal)
    }

    /// The size of its bulk as JSON.
    pub(super) fn bulk_bytes(&self) -> usize {
        self.bulk.values().chain(&self.packed).map(|reference| reference.bytes).sum()
    }
}

pub(super) fn stamp_of(row: &StoredRow) -> Option<&str> {
    match row.get(STAMP) {
        Some(AttributeValue::N(stamp)) => Some(stamp),
        Some(_) | None => None,
    }
}

pub(super) fn primary_key(key: &ItemKey) -> StoredRow {
    [(PARTITION, &key.item_id), (SORT, &key.timestamp)]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), AttributeValue::S(value.clone())))
        .collect()
}

/// Whether DynamoDB allows an item with this key. Requesting any other key would be an error.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html#limits-partition-sort-keys>
pub(super) fn can_exist(key: &ItemKey) -> bool {
    is_partition(&key.item_id) && (1..=1024).contains(&key.timestamp.len())
}

/// Whether a table or index allows a partition of this name.
pub(super) fn is_partition(value: &str) -> bool {
    (1..=2048).contains(&value.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_is_read_without_loading_its_bulk() {
        let key = ItemKey::new("i", "t");
        let text = json!("long");
        let (reference, _) = Reference::for_value(&key, &text);
        let mut row = primary_key(&key);
        row.insert(STAMP.into(), AttributeValue::N("7".into()));
        row.insert("#timestamp".into(), AttributeValue::S("named like a key".into()));
        row.insert("text".into(), reference.to_stored());
        let stored = StoredItem::read(&row).unwrap();
        assert_eq!(stored.stamp.as_deref(), Some("7"));
        assert_eq!(
            stored.inline,
            Attributes::from_iter([("timestamp".to_owned(), json!("named like a key"))])
        );
        assert_eq!((stored.bulk_bytes(), &stored.bulk["text"]), (6, &reference));

        let item = |attributes| Item { key: key.clone(), attributes };
        let mut same = stored.inline.clone();
        same.insert("text".into(), text);
        assert!(stored.equals(&item(same.clone())));
        for (name, value) in [("text", json!("lonG")), ("timestamp", json!(1)), ("more", json!(null))] {
            let mut other = same.clone();
            other.insert(name.into(), value);
            assert!(!stored.equals(&item(other)), "{name}");
        }
        same.remove("text");
        assert!(!stored.equals(&item(same)));
    }

    #[test]
    fn an_attribute_that_another_program_wrote_is_named_in_the_error() {
        let mut row = primary_key(&ItemKey::new("message#T#C", "1.0"));
        row.insert("colours".into(), AttributeValue::Ss(vec!["red".into()]));
        let message = StoredItem::read(&row).unwrap_err().to_string();
        assert!(message.contains("\"colours\" of message#T#C / 1.0 holds a set or bytes"), "{message}");
    }
}
