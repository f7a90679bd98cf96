//! Slack's verification token, which every envelope contains: a shared secret that request signatures have
//! replaced. <https://docs.slack.dev/authentication/verifying-requests-from-slack>

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::envelope::string_value;

/// The name of the field.
const TOKEN: &str = "token";

/// The replacement of the token.
const EMPTY_STRING: &str = "\"\"";

/// Replaces the value of the token in an envelope with an empty string, and leaves every other byte
/// unchanged. Only top-level fields are checked. A body that is not a JSON object is returned unchanged.
pub fn without_token(body: &str) -> Cow<'_, str> {
    let mut deserializer = serde_json::Deserializer::from_str(body);
    let Ok(values) = deserializer.deserialize_map(TokenValues) else { return Cow::Borrowed(body) };
    if values.is_empty() {
        return Cow::Borrowed(body);
    }
    let mut kept = String::with_capacity(body.len());
    let mut copied_bytes = 0;
    for value in values {
        // A raw value is a slice of the body, so its address gives its position.
        let start = value.as_ptr().addr() - body.as_ptr().addr();
        kept.push_str(&body[copied_bytes..start]);
        kept.push_str(EMPTY_STRING);
        copied_bytes = start + value.len();
    }
    kept.push_str(&body[copied_bytes..]);
    Cow::Owned(kept)
}

/// Reads the values of all fields with the token's name, in order: of duplicate fields, some parsers use the
/// first and others the last.
struct TokenValues;

impl<'de> Visitor<'de> for TokenValues {
    type Value = Vec<&'de str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        // Raw, because a name with an unpaired surrogate must not prevent the removal of the token.
        while let Some(name) = fields.next_key::<&'de RawValue>()? {
            let value = fields.next_value::<&'de RawValue>()?;
            if string_value(name).as_deref() == Some(TOKEN) {
                values.push(value.get());
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn only_the_value_is_removed_and_every_other_byte_stays() {
        for (body, expected) in [
            (r#"{"token":"x","a":1.0e2}"#, r#"{"token":"","a":1.0e2}"#),
            (" {\"a\" : [1, 2],\n\"token\"\t:  \"x\\\"y\" } ", " {\"a\" : [1, 2],\n\"token\"\t:  \"\" } "),
            (r#"{"tok\u0065n":"x"}"#, r#"{"tok\u0065n":""}"#),
            (r#"{"token":"x","token":"y","é":"z"}"#, r#"{"token":"","token":"","é":"z"}"#),
            (r#"{"token":{"token":"x"}}"#, r#"{"token":""}"#),
            (r#"{"\ud83d":1,"token":"x"}"#, r#"{"\ud83d":1,"token":""}"#),
            (r#"{"token":null}"#, r#"{"token":""}"#),
        ] {
            assert_eq!(without_token(body), expected);
        }
        for body in [
            r#"{"event":{"token":"x"},"tokens":["x"],"Token":"x","a":"token"}"#,
            r#"["token","x"]"#,
            "token=x",
            r#"{"token":"x""#,
            "",
        ] {
            assert_eq!(without_token(body), body);
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        let name = || prop_oneof![Just("token".to_owned()), ".{0,6}"];
        leaf.prop_recursive(3, 24, 6, move |inner| {
            prop_oneof![
                vec(inner.clone(), 0..6).prop_map(Value::from),
                vec((name(), inner), 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_result_is_the_envelope_without_its_token(body in json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) };
            let text = text.unwrap();
            let kept = without_token(&text);
            let mut expected = body.clone();
            if let Some(token) = expected.as_object_mut().and_then(|fields| fields.get_mut("token")) {
                *token = Value::from("");
            } else {
                prop_assert_eq!(&kept, &text);
            }
            prop_assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), expected);
        }
    }
}
