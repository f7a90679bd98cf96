//! Sizes of attributes and items.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;

use ports::archive::ItemKey;

/// The size of an attribute's value in DynamoDB, or slightly more.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the SDK's enum grows; what we never write is one thing to us"
)]
pub(super) fn stored_bytes(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        // Two digits per byte, one more byte, and one more for a sign; at most 21.
        AttributeValue::N(digits) => (digits.len() / 2 + 3).min(21),
        AttributeValue::L(values) => 3 + values.iter().map(|value| 1 + stored_bytes(value)).sum::<usize>(),
        AttributeValue::M(map) => {
            3 + map.iter().map(|(name, value)| 1 + name.len() + stored_bytes(value)).sum::<usize>()
        }
        // Booleans and nulls. We store nothing else.
        _ => 1,
    }
}

/// The size of a value as JSON text, as [`ports::archive::MAX_ITEM_BYTES`] counts it.
pub(super) fn json_bytes(value: &Value) -> usize {
    let mut byte_counter = ByteCounter(0);
    // The names are strings, so values always serialise, and counting does not fail.
    drop(serde_json::to_writer(&mut byte_counter, value));
    byte_counter.0
}

/// The size of an item as JSON, from the names of its attributes and the sizes of their values.
pub(super) fn item_json_bytes<'a>(
    key: &ItemKey,
    attributes: impl Iterator<Item = (&'a str, usize)>,
) -> usize {
    // A colon and a comma each; with the two braces, that is one comma too many.
    let attributes: usize =
        attributes.map(|(name, bytes)| json_bytes(&Value::from(name)) + 1 + bytes + 1).sum();
    key.item_id.len() + key.timestamp.len() + (attributes + 1).max(2)
}

struct ByteCounter(usize);

impl std::io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_items_size_is_that_of_its_json_and_its_keys() {
        let key = ItemKey::new("item", "1");
        for item in [json!({}), json!({ "a": 1 }), json!({ "a\"": "ü\n", "b": [1.5, null], "c": {} })] {
            let attributes = item.as_object().unwrap();
            let bytes = attributes.iter().map(|(name, value)| (name.as_str(), json_bytes(value)));
            assert_eq!(item_json_bytes(&key, bytes), 5 + item.to_string().len());
        }
    }
}
