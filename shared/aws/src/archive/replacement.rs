//! An update that is too large for one UpdateItem: it is applied to the item that was read, and the whole
//! item is put back on condition that it has not changed since.
//!
//! A message may have many thousand reactions, each a register of some bytes. If the row of an item is too large
//! although its large attributes are in the bucket, all of its small ones are packed into one object. Attributes
//! that are written later are in the row, and newer than packed ones of the same names, until the row is too large
//! again. No condition sees a packed register: so every write of such an item reads it and replaces it.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;

use super::name::{EXPIRES, PACKED, PARENT, STAMP, to_stored};
use super::reference::Reference;
use super::size::{item_json_bytes, json_bytes, stored_bytes};
use super::stored::{StoredItem, StoredRow, primary_key};
use super::value;
use ports::archive::item::ERASED;
use ports::archive::{ArchiveError, Attributes, ItemKey, MAX_ITEM_BYTES, Update};

/// Maximum size of a row that we write. DynamoDB allows 400 KB, names included; the rest is room for later
/// updates. <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html#limits-items>
pub(super) const INLINE_BYTES: usize = 350 * 1024;

/// Maximum size of the row of an item with packed attributes: each write of such an item replaces the row, so that
/// it costs a write unit per KB, and packing it again costs an object of all its small attributes.
const PACKED_ROW_BYTES: usize = 64 * 1024;

/// Size above which an attribute is always in the bucket: there it costs less than in the row, which every later
/// write of the item would pay for again.
pub(super) const BULK_BYTES: usize = 16 * 1024;

/// Minimum size of an attribute that is moved to the bucket by itself if the row is too large: a smaller one is
/// not worth a separate request.
const MOVED_BYTES: usize = 4096;

/// An item with an update applied.
#[derive(Debug)]
pub(super) struct Replacement<'a> {
    key: &'a ItemKey,
    /// All attributes that have no object of their own.
    inline: Attributes,
    bulk: BTreeMap<String, Reference>,
    /// The register this update writes.
    register: Option<&'a str>,
    /// The stored object of packed attributes, and its contents.
    packed: Option<(Reference, Attributes)>,
}

impl<'a> Replacement<'a> {
    /// Applies `update` to `stored`, with its packed attributes; `None` if the guard fails.
    pub(super) fn for_update(update: &'a Update, stored: &StoredItem, packed: Attributes) -> Option<Self> {
        // For the update's rule, an attribute with an object of its own is present, but its value does not matter.
        // The exception would be a register, and registers have none.
        let mut present = packed.clone();
        present.extend(stored.inline.clone());
        present.extend(stored.bulk.keys().map(|name| (name.clone(), Value::Null)));
        let mut inline = update.apply(Some(&present))?;
        let register = update.guard.written_register().map(|(register, _)| register);
        let rewritten = |name: &str| {
            update.set.contains_key(name) || update.remove.contains(&name) || register == Some(name)
        };
        let kept = stored.bulk.iter().filter(|(name, _)| !rewritten(name));
        let bulk: BTreeMap<_, _> = kept.map(|(name, reference)| (name.clone(), reference.clone())).collect();
        inline.retain(|name, _| !bulk.contains_key(name));
        // What is no longer an attribute cannot stay packed.
        let packed = stored.packed.clone().map(|reference| (reference, packed));
        let packed = packed.filter(|(_, packed)| packed.keys().all(|name| inline.contains_key(name)));
        Some(Self { key: &update.key, inline, bulk, register, packed })
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
        for (name, reference) in &self.bulk {
            row.insert(to_stored(name).into_owned(), reference.to_stored());
        }
        let (reference, packed) = self.packed.take().unzip();
        let packed = packed.unwrap_or_default();
        for (name, value) in self.inline.iter().filter(|(name, value)| packed.get(*name) != Some(*value)) {
            row.insert(to_stored(name).into_owned(), value::to_stored(value));
        }
        let max_bytes = if reference.is_some() { PACKED_ROW_BYTES } else { INLINE_BYTES };
        row.extend(reference.map(|reference| (PACKED.to_owned(), reference.to_stored())));
        let mut bytes = row_bytes(&row);
        let mut objects = HashMap::new();
        for (size, name) in self.movable(&row) {
            if bytes <= max_bytes && size <= BULK_BYTES {
                break;
            }
            let Some(moved) = self.inline.remove(&name) else { continue };
            let (reference, text) = Reference::for_value(self.key, &moved);
            let stored = reference.to_stored();
            bytes += stored_bytes(&stored);
            objects.insert(reference.object, text);
            bytes -= row.insert(to_stored(&name).into_owned(), stored).as_ref().map_or(0, stored_bytes);
        }
        if bytes > max_bytes {
            let (object, text) = self.pack(&mut row);
            objects.insert(object, text);
        }
        Ok(Put { row, objects: objects.into_iter().collect(), json_bytes })
    }

    /// Moves the attributes that are left, which are many and small, into one object; returns its key and content.
    fn pack(&self, row: &mut StoredRow) -> (String, String) {
        let inline = self.inline.iter().filter(|(name, _)| *name != PARENT && *name != ERASED);
        let packed: serde_json::Map<String, Value> =
            inline.map(|(name, value)| (name.clone(), value.clone())).collect();
        packed.keys().for_each(|name| drop(row.remove(&*to_stored(name))));
        let (reference, text) = Reference::for_value(self.key, &Value::Object(packed));
        row.insert(PACKED.to_owned(), reference.to_stored());
        (reference.object, text)
    }

    /// The attributes that may be moved to the bucket by themselves, the largest first.
    fn movable(&self, row: &StoredRow) -> Vec<(usize, String)> {
        let stays = |name: &str| name == PARENT || name == ERASED || self.register == Some(name);
        let size = |name: &str| row.get(&*to_stored(name)).map_or(0, stored_bytes);
        let names = self.inline.keys().filter(|name| !stays(name));
        let mut sizes: Vec<(usize, String)> =
            names.map(|name| (size(name), name.clone())).filter(|(bytes, _)| *bytes > MOVED_BYTES).collect();
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
        Replacement::for_update(update, stored, Attributes::new()).unwrap().into_row("2", None).unwrap()
    }

    #[test]
    fn large_attributes_are_moved_and_smaller_ones_until_the_rest_fits() {
        let text = |kilobytes: usize| "x".repeat(kilobytes * 1024);
        let guard = Guard::Greater { register: "v".into(), version: text(20) };
        let set = attributes(json!({ "a": text(17), "b": text(300), "c": text(15), "parent": text(1) }));
        let update = Update { guard, set, ..Update::new(key()) };
        let of_few = put(&update, &StoredItem::empty(&key()));
        let stored = StoredItem::read(&of_few.row).unwrap();
        assert_eq!(stored.bulk.keys().collect::<Vec<_>>(), ["a", "b"]);
        let object = |name: &str, value: Value| (stored.bulk[name].object.clone(), value.to_string());
        let mut objects = of_few.objects;
        objects.sort();
        let mut expected = vec![object("a", json!(text(17))), object("b", json!(text(300)))];
        expected.sort();
        assert_eq!(objects, expected);
        let whole = update.apply(None).unwrap();
        assert_eq!(of_few.json_bytes, 2 + Value::Object(whole).to_string().len());

        let many: Attributes = (10..50).map(|number| (format!("n{number}"), json!(text(10)))).collect();
        let of_many = put(&Update { set: many, ..Update::new(key()) }, &StoredItem::empty(&key()));
        let stored = StoredItem::read(&of_many.row).unwrap();
        assert!(row_bytes(&of_many.row) <= INLINE_BYTES);
        assert!((5..10).contains(&stored.bulk.len()), "{} were moved", stored.bulk.len());
    }

    #[test]
    fn stored_attributes_are_moved_too_and_moved_ones_stay_in_the_bucket() {
        let text = |kilobytes: usize| json!("x".repeat(kilobytes * 1024));
        let mut stored = StoredItem::empty(&key());
        stored.inline.insert("old".into(), text(200));
        stored.bulk.insert("moved".into(), Reference::for_value(&key(), &text(500)).0);
        let update = Update { set: attributes(json!({ "new": text(10) })), ..Update::new(key()) };
        let after = StoredItem::read(&put(&update, &stored).row).unwrap();
        assert_eq!(after.bulk.keys().collect::<Vec<_>>(), ["moved", "old"]);
        assert_eq!(after.inline.keys().collect::<Vec<_>>(), ["new"]);
    }

    #[test]
    fn many_small_attributes_are_packed_and_later_ones_are_newer() {
        let reactions = |from: usize, to: usize, version: &str| -> Attributes {
            (from..to).map(|n| (format!("reaction#thumbsup#U{n:08}"), json!(version))).collect()
        };
        let (mut stored, mut packed) = (StoredItem::empty(&key()), Attributes::new());
        let mut model = Attributes::new();
        let mut objects = 0;
        for from in (0..20_000).step_by(100) {
            // The first of each hundred is written again.
            let mut set = reactions(from, from + 100, "1700000000.000100/added");
            set.extend(reactions(from / 2, from / 2 + 1, "1700000001.000100/removed"));
            let update = Update { set, ..Update::new(key()) };
            model = update.apply(Some(&model)).unwrap();
            let replacement = Replacement::for_update(&update, &stored, packed.clone()).unwrap();
            let put = replacement.into_row("2", None).unwrap();
            assert!(row_bytes(&put.row) <= INLINE_BYTES, "{from}");
            stored = StoredItem::read(&put.row).unwrap();
            for (object, text) in put.objects {
                objects += 1;
                assert_eq!(stored.packed.as_ref().unwrap().object, object);
                let Value::Object(read) = super::super::text::read(&text).unwrap() else { panic!("{text}") };
                packed = read.into_iter().collect();
            }
        }
        assert!((2..=30).contains(&objects), "{objects} objects");
        let mut whole = packed.clone();
        whole.extend(stored.inline.clone());
        assert_eq!(whole, model);
        // A packed register guards like any other.
        let name = packed.keys().find(|name| !stored.inline.contains_key(*name)).unwrap();
        let later = |version: &str| {
            let guard = Guard::Greater { register: name.clone(), version: version.into() };
            Update { guard, ..Update::new(key()) }
        };
        let applied = |update: &Update| Replacement::for_update(update, &stored, packed.clone()).is_some();
        assert!(!applied(&later("1600000000.000000/added")) && applied(&later("1800000000.000000/added")));
    }

    #[test]
    fn a_packed_attribute_that_is_removed_is_gone() {
        let value = json!("x".repeat(100));
        let many: Attributes = (0..5_000).map(|n| (format!("n{n}"), value.clone())).collect();
        let packed: Attributes = many.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut stored = StoredItem::empty(&key());
        stored.packed = Some(Reference::for_value(&key(), &json!("object")).0);
        let update = Update { remove: vec!["n7"], ..Update::new(key()) };
        let replacement = Replacement::for_update(&update, &stored, packed).unwrap();
        let put = replacement.into_row("2", None).unwrap();
        let [(_, text)] = &put.objects[..] else { panic!("{} objects", put.objects.len()) };
        assert!(!text.contains("\"n7\"") && text.contains("\"n8\""));
    }

    #[test]
    fn the_size_limit_counts_inline_and_bulk_attributes() {
        let half = json!("x".repeat(MAX_ITEM_BYTES / 2));
        let mut stored = StoredItem::empty(&key());
        stored.bulk.insert("a".into(), Reference::for_value(&key(), &half).0);
        let update = Update { set: attributes(json!({ "b": half })), ..Update::new(key()) };
        let refused =
            Replacement::for_update(&update, &stored, Attributes::new()).unwrap().into_row("2", None);
        assert!(matches!(refused, Err(ArchiveError::TooLarge { bytes }) if bytes > MAX_ITEM_BYTES));
        // If one replaces the other, they are not stored together.
        let update = Update { remove: vec!["a"], ..update };
        assert!(
            Replacement::for_update(&update, &stored, Attributes::new()).unwrap().into_row("2", None).is_ok()
        );
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
