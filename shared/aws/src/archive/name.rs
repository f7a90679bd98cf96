//! Attribute names in the table.
//!
//! An attribute of an item may have any name; in the table, the keys and our own stamp are attributes too. So
//! a name that could be mistaken for one of those, or that DynamoDB rejects, has the prefix `#` in the table.

use std::borrow::Cow;

use ports::queue::topology::ARCHIVE_TABLE;

/// The attribute with the stamp, which every write changes: see [`super::stamp`].
pub(super) const STAMP: &str = "#w";
pub(super) const PARTITION: &str = ARCHIVE_TABLE.partition_key;
/// The attribute with the second from which DynamoDB may delete the row: see [`ports::archive::rows::expires_after`].
pub(super) const EXPIRES: &str = "#expires";
/// The attribute with the reference to an object that has many small attributes: see [`super::replacement`].
pub(super) const PACKED: &str = "#packed";
/// The sort key.
pub(super) const SORT: &str = "timestamp";
/// The partition key of the index.
pub(super) const PARENT: &str = "parent";

/// Converts an attribute's name to its name in the table.
pub(super) fn to_stored(name: &str) -> Cow<'_, str> {
    if name.is_empty() || name.starts_with('#') || name == PARTITION || name == SORT {
        Cow::Owned(format!("#{name}"))
    } else {
        Cow::Borrowed(name)
    }
}

/// Converts a name in the table back; `None` for the attributes that only the table has.
pub(super) fn from_stored(stored: &str) -> Option<&str> {
    if [PARTITION, SORT, STAMP, EXPIRES, PACKED].contains(&stored) {
        return None;
    }
    Some(stored.strip_prefix('#').unwrap_or(stored))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topology_names_the_same_keys() {
        assert_eq!((ARCHIVE_TABLE.sort_key, ARCHIVE_TABLE.ttl), (Some(SORT), Some(EXPIRES)));
        let index = ARCHIVE_TABLE.index.unwrap();
        assert_eq!((index.partition_key, index.sort_key), (PARENT, SORT));
    }

    #[test]
    fn every_name_survives_a_round_trip_and_is_not_mistaken_for_ours() {
        for name in [
            "text",
            "",
            "#",
            "#w",
            "##w",
            "expires",
            "#expires",
            "#packed",
            "itemId",
            "#itemId",
            "timestamp",
            "w",
            "raw#a#b",
            PARENT,
        ] {
            let stored = to_stored(name);
            assert!(![PARTITION, SORT, STAMP, EXPIRES, PACKED, ""].contains(&&*stored), "{name:?}");
            assert_eq!(from_stored(&stored), Some(name));
        }
        for ours in [PARTITION, SORT, STAMP, EXPIRES, PACKED] {
            assert_eq!(from_stored(ours), None);
        }
    }
}
