//! Where an attribute is in the bucket, as its item stores it.

use aws_sdk_dynamodb::types::AttributeValue;
use ports::archive::ItemKey;
use serde_json::Value;
use sha2::{Digest, Sha256};
use slack::hex::to_hex;

use super::text;
use super::value::{Foreign, S3};

/// The key of the size in the map that is stored in place of the value.
const BYTES: &str = "#bytes";

/// The location of an attribute in the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// The key in the bucket.
    pub(super) object: String,
    /// The size of the value as JSON.
    pub(super) bytes: usize,
}

impl Reference {
    /// The reference to a value of this item, and the text of its object.
    pub(super) fn for_value(key: &ItemKey, value: &Value) -> (Self, String) {
        let text = text::write(value);
        let object = format!("{}{}", folder(key), to_hex(&Sha256::digest(&text)));
        (Self { object, bytes: super::size::json_bytes(value) }, text)
    }

    pub(super) fn to_stored(&self) -> AttributeValue {
        let object = (S3.to_owned(), AttributeValue::S(self.object.clone()));
        let bytes = (BYTES.to_owned(), AttributeValue::N(self.bytes.to_string()));
        AttributeValue::M([object, bytes].into())
    }

    /// Reads the reference of an attribute; `None` if the attribute is not a reference.
    ///
    /// # Errors
    /// If the reference is broken.
    pub(super) fn from_stored(stored: &AttributeValue) -> Result<Option<Self>, Foreign> {
        let AttributeValue::M(map) = stored else { return Ok(None) };
        let Some(object) = map.get(S3) else { return Ok(None) };
        match (object, map.get(BYTES)) {
            (AttributeValue::S(object), Some(AttributeValue::N(bytes))) => {
                let bytes = bytes.parse().map_err(|_| Foreign("a broken reference"))?;
                Ok(Some(Self { object: object.clone(), bytes }))
            }
            _ => Err(Foreign("a broken reference")),
        }
    }
}

/// The prefix of the keys of an item's objects.
pub(super) fn folder(key: &ItemKey) -> String {
    let mut item = Sha256::new();
    item.update(&key.item_id);
    item.update([0]);
    item.update(&key.timestamp);
    format!("bulk/{}/", to_hex(&item.finalize()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::value;
    use super::*;

    #[test]
    fn a_reference_survives_a_round_trip_and_no_other_value_is_mistaken_for_one() {
        let (reference, text) = Reference::for_value(&ItemKey::new("i", "t"), &json!({ "a": 1.0 }));
        assert_eq!(reference.bytes, r#"{"a":1.0}"#.len());
        assert_eq!(text::read(&text).unwrap(), json!({ "a": 1.0 }));
        let stored = reference.to_stored();
        assert_eq!(Reference::from_stored(&stored), Ok(Some(reference)));
        for value in
            [json!({ "#s3": "bulk/x", "#bytes": 7 }), json!({ "#bytes": 7 }), json!({}), json!("#s3")]
        {
            assert_eq!(Reference::from_stored(&value::to_stored(&value)), Ok(None), "{value}");
        }
        let broken = AttributeValue::M([(S3.to_owned(), AttributeValue::Bool(true))].into());
        assert!(Reference::from_stored(&broken).is_err());
    }

    #[test]
    fn an_object_is_named_after_its_item_and_its_content() {
        let object = |item: &str, timestamp: &str, value: Value| {
            Reference::for_value(&ItemKey::new(item, timestamp), &value).0.object
        };
        let one = object("message#T#C", "1", json!("a"));
        assert_eq!(one.len(), "bulk/".len() + 64 + 1 + 64);
        assert_eq!(one, object("message#T#C", "1", json!("a")));
        let folder = |object: &str| object.rsplit_once('/').unwrap().0.to_owned();
        assert_eq!(folder(&one), folder(&object("message#T#C", "1", json!("b"))));
        assert_ne!(folder(&one), folder(&object("message#T#C1", "", json!("a"))));
    }
}
