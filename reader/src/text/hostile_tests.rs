//! Tests of the reading of messages that no client of Slack sends.

use serde_json::json;
use testkit::long_texts::assert_linear;

use super::kinds::{BLOCK_KINDS, ELEMENT_KINDS};
use super::reading_tests::{blocks_of, plain, read_message, section};
use super::*;

#[test]
fn hostile_blocks_are_bounded_and_hide_no_text() {
    let fields = [
        "text",
        "title",
        "elements",
        "rows",
        "tasks",
        "chart",
        "call",
        "file",
        "child_blocks",
        "fields",
        "accessory",
        "element",
        "options",
        "user_id",
        "url",
        "timestamp",
        "name",
        "style",
        "label",
        "level",
        "details",
        "sources",
        "caption",
    ];
    let kinds =
        BLOCK_KINDS.iter().map(|row| row.kind).chain(ELEMENT_KINDS.iter().map(|row| row.kind)).chain(["new"]);
    for kind in kinds {
        for value in [
            json!(null),
            json!([]),
            json!({}),
            json!(7),
            json!("x"),
            json!([null, 7, "x", [], {}, { "type": kind }]),
        ] {
            let mut block = json!({ "type": kind });
            for field in fields {
                block[field] = value.clone();
            }
            let message = json!({ "text": "hello", "blocks": [block, section(json!([block])), null, 7],
                "attachments": [block, null, { "fields": value, "blocks": [block] }], "files": [block, value] });
            let lines = plain(&message);
            assert!(!lines.is_empty() && lines.len() < 300, "{message}");
        }
    }
    let mut deep = section(json!([{ "type": "text", "text": "deep" }]));
    for _ in 0..1_000 {
        deep = json!({ "type": "container", "child_blocks": [deep] });
    }
    let zone = TimeZone::UTC;
    let parts = MessageParts::new(&zone, &[], &[]);
    let mut lines = LineBuffer::new(&parts);
    blocks::one(&deep, &mut lines);
    assert_eq!(lines.into_lines().len(), 1, "the kind of the deepest block");
    assert_eq!(plain(&json!({ "text": "hello", "blocks": [deep] })), ["hello"]);
    let block = json!({ "type": "section", "text": { "type": "mrkdwn", "text": "line" } });
    let many = blocks_of(Value::Array(vec![block; 10_000]));
    assert_eq!((many.len(), many.last().unwrap().as_str()), (2_001, "[and more: --json shows everything]"));
    let long = plain(&json!({ "text": "a\n".repeat(100_000) }));
    assert_eq!(long.len(), 40_001);
}

#[test]
fn the_time_grows_with_the_length_of_a_text_alone() {
    assert_linear("the reading of a message", 8_192, |text| {
        let message = json!({ "text": text, "blocks": [{ "type": "markdown", "text": text }] });
        assert!(!plain(&json!({ "text": text })).is_empty());
        assert!(!markdown::lines(&read_message(&message).lines).is_empty());
    });
}
