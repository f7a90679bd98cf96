//! A row as a line: a JSON array of its columns.

use rusqlite::types::Value as SqlValue;
use serde_json::Value;

/// A row with bytes in it is an object with this attribute: the bytes in hex.
pub(super) const BYTES: &str = "bytes";

/// The columns of a line; `None` if it is not one.
pub(super) fn values_of(line: &str) -> Option<Vec<SqlValue>> {
    let values: Vec<Value> = serde_json::from_str(line).ok()?;
    values.into_iter().map(value_of).collect()
}

fn value_of(value: Value) -> Option<SqlValue> {
    Some(match value {
        Value::Null => SqlValue::Null,
        Value::String(text) => SqlValue::Text(text),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => SqlValue::Integer(integer),
            None => SqlValue::Real(number.as_f64()?),
        },
        Value::Object(object) => SqlValue::Blob(from_hex(object.get(BYTES)?.as_str()?)?),
        Value::Bool(_) | Value::Array(_) => return None,
    })
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes();
    let is_hex = digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit);
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if is_hex { digits.chunks(2).map(pair).collect() } else { None }
}
