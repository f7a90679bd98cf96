//! How the template is printed: as people read it, and short enough for a command line. What fits on a line is on one.

use serde_json::Value;

const LINE_BYTES: usize = 160;
const INDENT: &str = " ";

/// The text, with a line break at its end.
pub(super) fn print(value: &Value) -> String {
    let mut text = String::new();
    add(&mut text, value, 0, 0);
    text.push('\n');
    text
}

/// Adds a value at this depth; `taken` bytes of its line are used already.
fn add(text: &mut String, value: &Value, depth: usize, taken: usize) {
    let short = value.to_string();
    if taken + short.len() <= LINE_BYTES {
        text.push_str(&short);
        return;
    }
    match value {
        Value::Object(map) => {
            let lines = map.iter().map(|(key, value)| (format!("{}: ", Value::from(key.as_str())), value));
            add_lines(text, ['{', '}'], lines, depth);
        }
        Value::Array(values) => {
            add_lines(text, ['[', ']'], values.iter().map(|value| (String::new(), value)), depth);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => text.push_str(&short),
    }
}

fn add_lines<'a>(
    text: &mut String,
    [open, close]: [char; 2],
    lines: impl Iterator<Item = (String, &'a Value)>,
    depth: usize,
) {
    let start = |text: &mut String, depth: usize| {
        text.push('\n');
        text.push_str(&INDENT.repeat(depth));
    };
    text.push(open);
    for (place, (key, value)) in lines.enumerate() {
        if place > 0 {
            text.push(',');
        }
        start(text, depth + 1);
        text.push_str(&key);
        add(text, value, depth + 1, INDENT.len() * (depth + 1) + key.len());
    }
    start(text, depth);
    text.push(close);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_on_a_line_is_on_one_and_nothing_is_changed() {
        let long = "x".repeat(LINE_BYTES);
        let value = json!({ "a": [1, 2, { "b": null }], "c": [long, { "d\"": "e" }] });
        let text = print(&value);
        let expected = format!(
            "{{\n \"a\": [1,2,{{\"b\":null}}],\n \"c\": [\n  \"{long}\",\n  {{\"d\\\"\":\"e\"}}\n ]\n}}\n"
        );
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(print(&json!([])), "[]\n");
    }
}
