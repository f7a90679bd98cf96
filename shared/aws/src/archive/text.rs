//! JSON text that can be read back without loss.
//!
//! serde_json parses floats fast but may miss the last bit, and it reads at most 128 levels. So inside a
//! text, every float and every value that is nested too deeply is a map with the single key [`JSON`] and a
//! text of its own; the standard library parses floats exactly. The outermost list or map of a text is always
//! a plain one.

use serde_json::{Map, Number, Value};

/// The single key of a map that contains a value as JSON text.
pub(super) const JSON: &str = "#json";

/// Maximum depth of nested lists and maps within one text.
const LEVELS: usize = 100;

/// Writes a value as text.
pub(super) fn write(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => inside(value, 1).to_string(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// Reads a value from text.
///
/// # Errors
/// If [`write`] did not write the text.
pub(super) fn read(text: &str) -> serde_json::Result<Value> {
    if let Some(number) = parse_number(text) {
        return Ok(Value::Number(number));
    }
    let map = |value: Value| unmarked(value);
    match serde_json::from_str(text)? {
        Value::Array(values) => values.into_iter().map(map).collect(),
        Value::Object(entries) => entries_of(entries),
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => Ok(scalar),
    }
}

/// Parses digits as a number: an integer if they are one, otherwise the nearest float.
pub(super) fn parse_number(digits: &str) -> Option<Number> {
    if !digits.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return None;
    }
    let negative = || digits.parse::<i64>().map(Number::from);
    let integer = digits.parse::<u64>().map(Number::from).or_else(|_| negative());
    integer.ok().or_else(|| digits.parse().ok().and_then(Number::from_f64))
}

/// A list or map, with everything below it in the form that it has within a text.
fn inside(value: &Value, level: usize) -> Value {
    match value {
        Value::Array(values) => values.iter().map(|value| marked(value, level + 1)).collect(),
        Value::Object(map) => {
            map.iter().map(|(name, value)| (name.clone(), marked(value, level + 1))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn marked(value: &Value, level: usize) -> Value {
    let own_text = match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(_) => level > LEVELS,
        Value::Object(map) => level > LEVELS || map.contains_key(JSON),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    };
    if own_text {
        Value::Object([(JSON.to_owned(), Value::String(write(value)))].into_iter().collect())
    } else {
        inside(value, level)
    }
}

fn unmarked(value: Value) -> serde_json::Result<Value> {
    match value {
        Value::Array(values) => values.into_iter().map(unmarked).collect(),
        Value::Object(entries) => match entries.get(JSON) {
            Some(Value::String(text)) => read(text),
            Some(_) | None => entries_of(entries),
        },
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => Ok(scalar),
    }
}

fn entries_of(entries: Map<String, Value>) -> serde_json::Result<Value> {
    entries.into_iter().map(|(name, value)| Ok((name, unmarked(value)?))).collect()
}
