//! Converts JSON values to DynamoDB's attribute values and back, without loss.
//!
//! A value that DynamoDB would not return exactly is stored as its JSON text, in a map with the single
//! reserved key [`JSON`]: a float that DynamoDB would normalise, a value nested deeper than it allows, a map
//! with names that it rejects, and a map that could be mistaken for one of ours.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Map, Number, Value};

use super::text::{self, JSON};

/// The key of a map with the location of an attribute in the bucket: see [`super::bulk`]. No other value is
/// stored as a map with this key.
pub(super) const S3: &str = "#s3";

/// Maximum depth of nested lists and maps; deeper values are stored as text. DynamoDB allows 32 levels, the
/// scalar included.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html#limits-nested-attributes>
const LEVELS: usize = 30;

/// The longest attribute name of DynamoDB, which also applies to the entries of a map.
const NAME_BYTES: usize = 65_535;

/// A stored value that this program did not write, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("holds {0}, which Annalist never writes: correct or remove it")]
pub(super) struct Foreign(pub(super) &'static str);

/// Converts a value to its stored form.
pub(super) fn to_stored(value: &Value) -> AttributeValue {
    at_level(value, 1)
}

fn at_level(value: &Value, level: usize) -> AttributeValue {
    match value {
        Value::Null => AttributeValue::Null(true),
        Value::Bool(yes) => AttributeValue::Bool(*yes),
        Value::Number(number) => plain(number).map_or_else(|| as_text(value), AttributeValue::N),
        Value::String(text) => AttributeValue::S(text.clone()),
        Value::Array(values) if level <= LEVELS => {
            AttributeValue::L(values.iter().map(|value| at_level(value, level + 1)).collect())
        }
        Value::Object(map) if level <= LEVELS && map.keys().all(|name| may_be_a_name(name)) => {
            let entries = map.iter().map(|(name, value)| (name.clone(), at_level(value, level + 1)));
            AttributeValue::M(entries.collect())
        }
        Value::Array(_) | Value::Object(_) => as_text(value),
    }
}

fn may_be_a_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES && name != JSON && name != S3
}

fn as_text(value: &Value) -> AttributeValue {
    AttributeValue::M([(JSON.to_owned(), AttributeValue::S(text::write(value)))].into())
}

/// A number as DynamoDB's digits; `None` if they do not round-trip. DynamoDB keeps 38 digits, and drops the
/// `.0` that distinguishes a float from an integer and the sign of zero.
fn plain(number: &Number) -> Option<String> {
    match number.as_f64() {
        Some(float) if number.is_f64() => {
            // A fraction has at most 17 significant digits, and few zeros before them.
            (float.fract() != 0.0 && float.abs() >= 1e-20).then(|| float.to_string())
        }
        Some(_) | None => Some(number.to_string()),
    }
}

/// Converts a stored value back to JSON.
///
/// # Errors
/// If [`to_stored`] never produces such a value.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the SDK's enum grows; what we never write is one thing to us"
)]
pub(super) fn from_stored(stored: &AttributeValue) -> Result<Value, Foreign> {
    match stored {
        AttributeValue::Null(_) => Ok(Value::Null),
        AttributeValue::Bool(yes) => Ok(Value::Bool(*yes)),
        AttributeValue::N(digits) => {
            text::parse_number(digits).map(Value::Number).ok_or(Foreign("a number out of range"))
        }
        AttributeValue::S(text) => Ok(Value::String(text.clone())),
        AttributeValue::L(values) => values.iter().map(from_stored).collect(),
        AttributeValue::M(map) => match map.get(JSON) {
            Some(AttributeValue::S(text)) => text::read(text).map_err(|_| Foreign("text that is no JSON")),
            Some(_) => Err(Foreign("a map with a reserved name")),
            None => {
                let entries = map.iter().map(|(name, value)| Ok((name.clone(), from_stored(value)?)));
                entries.collect::<Result<Map<_, _>, _>>().map(Value::Object)
            }
        },
        _ => Err(Foreign("a set or bytes")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Any JSON value; values that are hard to store are more likely than by chance.
    pub(in crate::archive) fn any_json() -> impl Strategy<Value = Value> {
        let float = prop_oneof![
            any::<f64>(),
            (-1e6..1e6_f64),
            prop_oneof![Just(1.0), Just(-0.0), Just(1e300), Just(5e-324), Just(1.5), Just(1e-19), Just(1e22)],
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            float.prop_map(|float| Number::from_f64(float).map_or(Value::Null, Value::Number)),
            ".{0,8}".prop_map(Value::from),
        ];
        let name = || {
            prop_oneof![
                4 => ".{0,6}",
                1 => prop_oneof![Just(""), Just(JSON), Just("#s3"), Just("#bytes"), Just("#w")]
                    .prop_map(str::to_owned),
            ]
        };
        leaf.prop_recursive(6, 48, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(name(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// A value nested `levels` deep, in alternating lists and maps.
    fn nested(levels: usize, bottom: Value) -> Value {
        (0..levels).fold(
            bottom,
            |inner, level| {
                if level % 2 == 0 { json!([inner]) } else { json!({ "down": inner }) }
            },
        )
    }

    /// The depth as DynamoDB counts it: a scalar is a level too.
    fn levels(stored: &AttributeValue) -> usize {
        let list = stored.as_l().ok().and_then(|values| values.iter().map(levels).max());
        let map = stored.as_m().ok().and_then(|map| map.values().map(levels).max());
        1 + list.or(map).unwrap_or(0)
    }

    /// Exact comparison: distinguishes `1` from `1.0` and the signs of zero.
    fn assert_round_trip(value: &Value) {
        let stored = to_stored(value);
        assert!(levels(&stored) <= 32);
        let back = from_stored(&stored).unwrap();
        assert_eq!(&back, value, "{stored:?}");
        assert_eq!(back.to_string(), value.to_string(), "{stored:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn any_value_survives_a_round_trip(value in any_json(), levels in 0usize..260) {
            assert_round_trip(&value);
            assert_round_trip(&nested(levels, value.clone()));
            let text = text::write(&value);
            prop_assert_eq!(text::read(&text).unwrap().to_string(), value.to_string());
        }
    }

    #[test]
    fn values_that_dynamodb_can_represent_are_stored_natively() {
        assert_eq!(
            to_stored(&json!(18_446_744_073_709_551_615_u64)),
            AttributeValue::N("18446744073709551615".into())
        );
        assert_eq!(to_stored(&json!(-1.5)), AttributeValue::N("-1.5".into()));
        assert_eq!(
            to_stored(&json!({ "a": ["", null] })),
            AttributeValue::M(
                [(
                    "a".to_owned(),
                    AttributeValue::L(vec![AttributeValue::S(String::new()), AttributeValue::Null(true)])
                )]
                .into()
            )
        );
    }

    #[test]
    fn values_that_dynamodb_would_change_are_stored_as_text() {
        let text = |value: &Value| -> Option<String> {
            let stored = to_stored(value);
            let map = stored.as_m().ok().filter(|map| map.len() == 1)?;
            map.get(JSON)?.as_s().ok().cloned()
        };
        for value in [
            json!(1.0),
            json!(1e300),
            json!(-0.0),
            json!({ "": 1 }),
            json!({ "#json": "{}" }),
            json!({ "#s3": "k" }),
        ] {
            assert_eq!(text(&value), Some(text::write(&value)), "{value}");
            assert_round_trip(&value);
        }
        assert_round_trip(&json!({ "#json": { "#json": 1.0, "a": [{ "#json": "[1.0]" }, 2.0] } }));
    }

    #[test]
    fn digits_are_read_in_any_notation() {
        for (digits, number) in [("1E+2", json!(100.0)), ("1E-5", json!(0.00001)), ("007", json!(7))] {
            assert_eq!(from_stored(&AttributeValue::N(digits.into())), Ok(number));
        }
    }

    #[test]
    fn a_value_that_annalist_did_not_write_is_reported_as_such() {
        for foreign in [
            AttributeValue::Ss(vec!["a".into()]),
            AttributeValue::N("NaN".into()),
            AttributeValue::M([(JSON.to_owned(), AttributeValue::S("{".into()))].into()),
            AttributeValue::M([(JSON.to_owned(), AttributeValue::Bool(true))].into()),
        ] {
            let message = from_stored(&foreign).unwrap_err().to_string();
            assert!(message.ends_with("correct or remove it"), "{message}");
        }
    }
}
