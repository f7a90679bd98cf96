//! An item as the table has it.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;

use super::bulk::Reference;
use super::name::{self, PARTITION, SORT, STAMP};
use super::value::{self, Foreign};
use ports::archive::{ArchiveError, Attributes, Item, ItemKey};

/// Attributes as DynamoDB hands them out.
pub(super) type StoredRow = HashMap<String, AttributeValue>;

/// An item whose bulk may be elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredItem {
    pub(super) key: ItemKey,
    /// The attributes that are here.
    pub(super) inline: Attributes,
    /// The attributes that are in the bucket, by their names.
    pub(super) bulk: BTreeMap<String, Reference>,
    /// What the last write left: see [`super::stamp`]. None where something else than Annalist wrote.
    pub(super) stamp: Option<String>,
}

impl StoredItem {
    /// Reads a row.
    ///
    /// # Errors
    /// If it holds something we never write.
    pub(super) fn read(row: &StoredRow) -> Result<Self, ArchiveError> {
        let (Some(AttributeValue::S(item_id)), Some(AttributeValue::S(timestamp))) =
            (row.get(PARTITION), row.get(SORT))
        else {
            return Err(ArchiveError::Unavailable("DynamoDB answered an item without its keys".into()));
        };
        let mut stored = Self::nothing(&ItemKey::new(item_id, timestamp));
        stored.stamp = stamp_of(row).map(str::to_owned);
        for (in_table, held) in row {
            let Some(name) = name::from_stored(in_table) else { continue };
            let foreign = |error: Foreign| {
                ArchiveError::Unavailable(format!("attribute {name:?} of {item_id} / {timestamp} {error}"))
            };
            match Reference::from_stored(held).map_err(foreign)? {
                Some(reference) => drop(stored.bulk.insert(name.to_owned(), reference)),
                None => {
                    stored.inline.insert(name.to_owned(), value::from_stored(held).map_err(foreign)?);
                }
            }
        }
        Ok(stored)
    }

    /// The item of a key that has none.
    pub(super) fn nothing(key: &ItemKey) -> Self {
        Self { key: key.clone(), inline: Attributes::new(), bulk: BTreeMap::new(), stamp: None }
    }

    /// Whether it is exactly this item. Bulk is compared by the hash in its key, without a look at the bucket.
    pub(super) fn is(&self, item: &Item) -> bool {
        let equal = |(name, value)| match self.bulk.get(name) {
            Some(reference) => Reference::of(&self.key, value).0 == *reference,
            None => self.inline.get(name) == Some(value),
        };
        self.key == item.key
            && self.inline.len() + self.bulk.len() == item.attributes.len()
            && item.attributes.iter().all(equal)
    }

    /// What its bulk takes.
    pub(super) fn bulk_bytes(&self) -> usize {
        self.bulk.values().map(|reference| reference.bytes).sum()
    }
}

/// The stamp of a row.
pub(super) fn stamp_of(row: &StoredRow) -> Option<&str> {
    match row.get(STAMP) {
        Some(AttributeValue::N(stamp)) => Some(stamp),
        Some(_) | None => None,
    }
}

/// The primary key of an item.
pub(super) fn primary_key(key: &ItemKey) -> StoredRow {
    [(PARTITION, &key.item_id), (SORT, &key.timestamp)]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), AttributeValue::S(value.clone())))
        .collect()
}

/// Whether DynamoDB could have an item of this key. What it cannot have is not asked for: that would be an error.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html#limits-partition-sort-keys>
pub(super) fn can_exist(key: &ItemKey) -> bool {
    is_partition(&key.item_id) && (1..=1024).contains(&key.timestamp.len())
}

/// Whether a table or index could have a partition of this name.
pub(super) fn is_partition(value: &str) -> bool {
    (1..=2048).contains(&value.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_is_read_with_its_bulk_left_where_it_is() {
        let key = ItemKey::new("i", "t");
        let text = json!("long");
        let (reference, _) = Reference::of(&key, &text);
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
        assert!(stored.is(&item(same.clone())));
        for (name, value) in [("text", json!("lonG")), ("timestamp", json!(1)), ("more", json!(null))] {
            let mut other = same.clone();
            other.insert(name.into(), value);
            assert!(!stored.is(&item(other)), "{name}");
        }
        same.remove("text");
        assert!(!stored.is(&item(same)));
    }

    #[test]
    fn what_another_program_wrote_is_named() {
        let mut row = primary_key(&ItemKey::new("message#T#C", "1.0"));
        row.insert("colours".into(), AttributeValue::Ss(vec!["red".into()]));
        let said = StoredItem::read(&row).unwrap_err().to_string();
        assert!(said.contains("\"colours\" of message#T#C / 1.0 holds a set or bytes"), "{said}");
    }
}
