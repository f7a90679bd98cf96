//! Prints the template readably and compactly: a value that fits on a line is on one line.

use serde_json::Value;

const LINE_BYTES: usize = 160;
const INDENT: &str = " ";

/// Prints a value, with a line break at the end.
pub(super) fn print(value: &Value) -> String {
    let mut text = String::new();
    add(&mut text, value, 0, 0);
    text.push('\n');
    text
}

/// Adds a value at this depth; `used` bytes of its line are used already.
fn add(text: &mut String, value: &Value, depth: usize, used: usize) {
    let short = value.to_string();
    if used + short.len() <= LINE_BYTES {
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
    for (index, (key, value)) in lines.enumerate() {
        if index > 0 {
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
    fn a_value_that_fits_is_on_one_line_and_the_content_is_unchanged() {
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
