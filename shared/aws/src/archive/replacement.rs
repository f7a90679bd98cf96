//! An update that is too large for one UpdateItem: it is applied to the item that was read, and the whole
//! item is put back on condition that it has not changed since.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;

use super::name::{EXPIRES, PARENT, STAMP, to_stored};
use super::reference::Reference;
use super::size::{item_json_bytes, json_bytes, stored_bytes};
use super::stored::{StoredItem, StoredRow, primary_key};
use super::value;
use ports::archive::item::ERASED;
use ports::archive::{ArchiveError, Attributes, ItemKey, MAX_ITEM_BYTES, Update};

/// Maximum size of a row that we write. DynamoDB allows 400 KB, names included; the rest is room for later
/// updates. <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html#limits-items>
pub(super) const INLINE_BYTES: usize = 350 * 1024;

/// Minimum size of an attribute that is moved to the bucket: a smaller one is not worth a separate request.
/// Registers are smaller, so their versions stay in the table, where conditions can check them.
const BULK_BYTES: usize = 4096;

/// An item with an update applied.
#[derive(Debug)]
pub(super) struct Replacement<'a> {
    key: &'a ItemKey,
    inline: Attributes,
    bulk: BTreeMap<String, Reference>,
    /// The register this update writes.
    register: Option<&'a str>,
}

impl<'a> Replacement<'a> {
    /// Applies `update` to `stored`; `None` if the guard fails.
    pub(super) fn for_update(update: &'a Update, stored: &StoredItem) -> Option<Self> {
        // For the update's rule, an attribute in the bucket is present, but its value does not matter. The
        // exception would be a register, and registers stay in the table.
        let mut present = stored.inline.clone();
        present.extend(stored.bulk.keys().map(|name| (name.clone(), Value::Null)));
        let mut inline = update.apply(Some(&present))?;
        let register = update.guard.written_register().map(|(register, _)| register);
        let rewritten = |name: &str| {
            update.set.contains_key(name) || update.remove.contains(&name) || register == Some(name)
        };
        let kept = stored.bulk.iter().filter(|(name, _)| !rewritten(name));
        let bulk: BTreeMap<_, _> = kept.map(|(name, reference)| (name.clone(), reference.clone())).collect();
        inline.retain(|name, _| !bulk.contains_key(name));
        Some(Self { key: &update.key, inline, bulk, register })
    }

    /// The size of the whole item as JSON.
    fn json_bytes(&self) -> usize {
        let inline = self.inline.iter().map(|(name, value)| (name.as_str(), json_bytes(value)));
        let bulk = self.bulk.iter().map(|(name, reference)| (name.as_str(), reference.bytes));
        item_json_bytes(self.key, inline.chain(bulk))
    }

    /// The row to put, and the objects that must be written before it.
    pub(super) fn into_row(
        mut self,
        stamp: &str,
        expires: Option<AttributeValue>,
    ) -> Result<Put, ArchiveError> {
        let json_bytes = self.json_bytes();
        if json_bytes > MAX_ITEM_BYTES {
            return Err(ArchiveError::TooLarge { bytes: json_bytes });
        }
        let mut row = primary_key(self.key);
        row.insert(STAMP.into(), AttributeValue::N(stamp.to_owned()));
        row.extend(expires.map(|expires| (EXPIRES.to_owned(), expires)));
        let references = self.bulk.iter().map(|(name, reference)| (name, reference.to_stored()));
        let inline = self.inline.iter().map(|(name, value)| (name, value::to_stored(value)));
        for (name, stored) in references.chain(inline) {
            row.insert(to_stored(name).into_owned(), stored);
        }
        let mut bytes = row_bytes(&row);
        let mut objects = HashMap::new();
        for (_, name) in self.movable(&row) {
            if bytes <= INLINE_BYTES {
                break;
            }
            let Some(moved) = self.inline.remove(&name) else { continue };
            let (reference, text) = Reference::for_value(self.key, &moved);
            let stored = reference.to_stored();
            bytes += stored_bytes(&stored);
            objects.insert(reference.object, text);
            bytes -= row.insert(to_stored(&name).into_owned(), stored).as_ref().map_or(0, stored_bytes);
        }
        Ok(Put { row, objects: objects.into_iter().collect(), json_bytes })
    }

    /// The attributes that may be moved to the bucket, the largest first.
    fn movable(&self, row: &StoredRow) -> Vec<(usize, String)> {
        let stays = |name: &str| name == PARENT || name == ERASED || self.register == Some(name);
        let size = |name: &str| row.get(&*to_stored(name)).map_or(0, stored_bytes);
        let names = self.inline.keys().filter(|name| !stays(name));
        let mut sizes: Vec<(usize, String)> =
            names.map(|name| (size(name), name.clone())).filter(|(bytes, _)| *bytes > BULK_BYTES).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes
    }
}

/// The row for PutItem, and the objects that must be written before it.
#[derive(Debug)]
pub(super) struct Put {
    pub(super) row: StoredRow,
    /// Keys and contents of the objects in the bucket.
    pub(super) objects: Vec<(String, String)>,
    /// The size of the whole item as JSON.
    pub(super) json_bytes: usize,
}

fn row_bytes(row: &StoredRow) -> usize {
    row.iter().map(|(name, value)| name.len() + stored_bytes(value)).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use ports::archive::Guard;

    fn key() -> ItemKey {
        ItemKey::new("i", "t")
    }

    fn attributes(json: Value) -> Attributes {
        serde_json::from_value(json).unwrap()
    }

    fn put(update: &Update, stored: &StoredItem) -> Put {
        Replacement::for_update(update, stored).unwrap().into_row("2", None).unwrap()
    }

    #[test]
    fn the_largest_attributes_are_moved_until_the_rest_fits() {
        let text = |kilobytes: usize| "x".repeat(kilobytes * 1024);
        let guard = Guard::Greater { register: "v".into(), version: text(9) };
        let set = attributes(
            json!({ "a": text(200), "b": text(300), "c": text(100), "parent": text(1), "d": "d" }),
        );
        let update = Update { guard, set, ..Update::new(key()) };
        let put = put(&update, &StoredItem::empty(&key()));
        let stored = StoredItem::read(&put.row).unwrap();
        assert_eq!(stored.bulk.keys().collect::<Vec<_>>(), ["b"]);
        assert_eq!(put.objects, vec![(stored.bulk["b"].object.clone(), json!(text(300)).to_string())]);
        assert!(row_bytes(&put.row) <= INLINE_BYTES);
        let whole = update.apply(None).unwrap();
        assert_eq!(put.json_bytes, 2 + Value::Object(whole).to_string().len());
    }

    #[test]
    fn stored_attributes_are_moved_too_and_moved_ones_stay_in_the_bucket() {
        let text = |kilobytes: usize| json!("x".repeat(kilobytes * 1024));
        let mut stored = StoredItem::empty(&key());
        stored.inline.insert("old".into(), text(200));
        stored.bulk.insert("moved".into(), Reference::for_value(&key(), &text(500)).0);
        let update = Update { set: attributes(json!({ "new": text(180) })), ..Update::new(key()) };
        let after = StoredItem::read(&put(&update, &stored).row).unwrap();
        assert_eq!(after.bulk.keys().collect::<Vec<_>>(), ["moved", "old"]);
        assert_eq!(after.inline.keys().collect::<Vec<_>>(), ["new"]);
    }

    #[test]
    fn the_size_limit_counts_inline_and_bulk_attributes() {
        let half = json!("x".repeat(MAX_ITEM_BYTES / 2));
        let mut stored = StoredItem::empty(&key());
        stored.bulk.insert("a".into(), Reference::for_value(&key(), &half).0);
        let update = Update { set: attributes(json!({ "b": half })), ..Update::new(key()) };
        let refused = Replacement::for_update(&update, &stored).unwrap().into_row("2", None);
        assert!(matches!(refused, Err(ArchiveError::TooLarge { bytes }) if bytes > MAX_ITEM_BYTES));
        // If one replaces the other, they are not stored together.
        let update = Update { remove: vec!["a"], ..update };
        assert!(Replacement::for_update(&update, &stored).unwrap().into_row("2", None).is_ok());
    }

    proptest! {
        /// Whichever part of the item is in the bucket, the outcome is that of the rule.
        #[test]
        fn bulk_changes_no_outcome(
            moved in proptest::collection::vec(any::<bool>(), 4),
            stored in proptest::collection::vec(any::<Option<bool>>(), 4),
            set in proptest::collection::vec(any::<Option<u8>>(), 4),
            absent in proptest::collection::vec(any::<Option<u8>>(), 4),
            remove in proptest::sample::subsequence(vec!["a", "b", "c", "d"], 0..4),
        ) {
            let names = ["a", "b", "c", "d"];
            let pick = |values: &[Option<u8>]| -> Attributes {
                let named = names.iter().zip(values);
                named.filter_map(|(name, value)| Some(((*name).to_owned(), json!(((*value)?))))).collect()
            };
            let before: Attributes = names.iter().zip(&stored)
                .filter_map(|(name, value)| Some(((*name).to_owned(), json!((*value)?)))).collect();
            let mut split = StoredItem::empty(&key());
            for ((name, value), moved) in before.iter().zip(&moved) {
                if *moved {
                    split.bulk.insert(name.clone(), Reference::for_value(&key(), value).0);
                } else {
                    split.inline.insert(name.clone(), value.clone());
                }
            }
            let update = Update { set: pick(&set), set_if_absent: pick(&absent), remove, ..Update::new(key()) };
            let expected = update.apply(Some(&before)).unwrap();
            let after = StoredItem::read(&put(&update, &split).row).unwrap();
            let expected = ports::archive::Item { key: key(), attributes: expected };
            prop_assert!(after.equals(&expected), "{after:?}\n{expected:?}");
        }
    }
}
