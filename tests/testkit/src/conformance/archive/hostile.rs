//! Whatever people and attackers write is only ever data.

use ports::archive::{ArchiveError, Guard, ItemKey, MAX_ITEM_BYTES, Query};
use serde_json::{Value, json};

use super::bench::{Bench, greater, key, unchanged, update};

const HOSTILE: [&str; 13] = [
    "'); DROP TABLE items; --",
    "\"quoted\" and \\ and \\\" and \\u0000",
    "$.text",
    "a.b[0]",
    "#name and :value",
    "%s %n % _ * ?1 $1 {} {0}",
    "line\nbreak\r\n\ttab",
    "nul \0 within",
    "\u{1}\u{1f}\u{7f}",
    "👩‍👩‍👧‍👦 🏳️‍🌈 é e\u{301}",
    "\u{202e}right to left",
    "\u{feff}\u{fffe}\u{ffff}\u{10ffff}",
    " ",
];

pub(super) async fn any_text_may_be_a_name_or_a_value(bench: Bench) {
    let all: serde_json::Map<String, Value> =
        HOSTILE.iter().map(|text| ((*text).to_owned(), Value::String((*text).to_owned()))).collect();
    bench.put(key(), Value::Object(all.clone())).await;
    bench.expect(&key(), Value::Object(all)).await;
    for (number, text) in HOSTILE.iter().enumerate() {
        // As a register and its version.
        let key = ItemKey::new("registers", number.to_string());
        let guard = |version: &str| Guard::Greater { register: (*text).into(), version: version.into() };
        let greater = format!("{text}~");
        bench.apply(update(key.clone(), guard(text), json!({"text": text}))).await;
        bench.refuse(update(key.clone(), guard(text), json!({"text": "again"}))).await;
        bench.apply(update(key.clone(), guard(&greater), json!({"text": text}))).await;
        bench.expect(&key, json!({"text": text, *text: greater})).await;
    }
}

pub(super) async fn any_text_may_be_a_key(bench: Bench) {
    for text in HOSTILE {
        let key = ItemKey::new(text, text);
        bench.put(key.clone(), json!({"parent": text})).await;
        bench.expect(&key, json!({"parent": text})).await;
        assert_eq!(bench.query(Query::partition(text)).await.len(), 1, "{text:?}");
        bench.expect_of_parent(Query::parent(text), &[key]).await;
    }
}

pub(super) async fn long_text_comes_back_whole(bench: Bench) {
    let long = "é\"\\\n".repeat(100_000);
    bench.apply(update(key(), greater("1"), json!({"text": long, "raw_event": long}))).await;
    let item = bench.get(&key()).await.unwrap();
    assert!(item.text("text") == Some(&long) && item.text("raw_event") == Some(&long), "the text changed");
    bench.apply(update(key(), unchanged(Some("1"), "2"), json!({"text": "short"}))).await;
    let item = bench.get(&key()).await.unwrap();
    assert!(item.text("text") == Some("short") && item.text("raw_event") == Some(&long), "the text changed");
}

pub(super) async fn an_item_too_large_is_refused_and_nothing_changes(bench: Bench) {
    let too_long = "x".repeat(MAX_ITEM_BYTES);
    let refused = bench.try_write(update(key(), greater("1"), json!({"text": too_long}))).await;
    assert!(
        matches!(refused, Err(ArchiveError::TooLarge { bytes }) if bytes > MAX_ITEM_BYTES),
        "{refused:?}"
    );
    assert_eq!(bench.get(&key()).await, None);

    // Two halves that are too much together.
    let half = "x".repeat(MAX_ITEM_BYTES / 2);
    bench.apply(update(key(), greater("1"), json!({"text": half}))).await;
    let refused = bench.try_write(update(key(), greater("2"), json!({"raw_event": half}))).await;
    assert!(
        matches!(refused, Err(ArchiveError::TooLarge { bytes }) if bytes > MAX_ITEM_BYTES),
        "{refused:?}"
    );
    let item = bench.get(&key()).await.unwrap();
    assert!(item.text("version") == Some("1") && item.text("raw_event").is_none(), "half of it was written");
    bench.apply(update(key(), greater("3"), json!({"text": "short", "raw_event": half}))).await;
}

pub(super) async fn deep_nesting_comes_back(bench: Bench) {
    // Less deep than DynamoDB's 32 levels.
    let mut nested = json!("bottom");
    for level in 0..28 {
        nested = if level % 2 == 0 { json!([nested]) } else { json!({"down": nested}) };
    }
    bench.put(key(), json!({"blocks": nested})).await;
    bench.expect(&key(), json!({"blocks": nested})).await;
}
