//! Text from people and attackers is always treated as data.

use ports::archive::{ArchiveError, Guard, ItemKey, MAX_ITEM_BYTES, Query, Update};
use serde_json::{Value, json};

use super::case::{ArchiveCase, apply_once, greater, key, unchanged, update};

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

pub(super) async fn any_text_may_be_a_name_or_a_value(case: ArchiveCase) {
    let all: serde_json::Map<String, Value> =
        HOSTILE.iter().map(|text| ((*text).to_owned(), Value::String((*text).to_owned()))).collect();
    case.put(key(), Value::Object(all.clone())).await;
    case.expect(&key(), Value::Object(all)).await;
    for (number, text) in HOSTILE.iter().enumerate() {
        // As a register and its version.
        let key = ItemKey::new("registers", number.to_string());
        let guard = |version: &str| Guard::Greater { register: (*text).into(), version: version.into() };
        let greater = format!("{text}~");
        case.apply(update(key.clone(), guard(text), json!({"text": text}))).await;
        case.refuse(update(key.clone(), guard(text), json!({"text": "again"}))).await;
        case.apply(update(key.clone(), guard(&greater), json!({"text": text}))).await;
        case.expect(&key, json!({"text": text, *text: greater})).await;
    }
}

pub(super) async fn any_text_may_be_a_key(case: ArchiveCase) {
    for text in HOSTILE {
        let key = ItemKey::new(text, text);
        case.put(key.clone(), json!({"parent": text})).await;
        case.expect(&key, json!({"parent": text})).await;
        assert_eq!(case.query(Query::partition(text)).await.len(), 1, "{text:?}");
        case.expect_children(Query::parent(text), &[key]).await;
    }
}

pub(super) async fn a_long_text_is_returned_whole(case: ArchiveCase) {
    let long = "é\"\\\n".repeat(100_000);
    case.apply(update(key(), greater("1"), json!({"text": long, "raw_event": long}))).await;
    let item = case.get(&key()).await.unwrap();
    assert!(item.text("text") == Some(&long) && item.text("raw_event") == Some(&long), "the text changed");
    case.apply(update(key(), unchanged(Some("1"), "2"), json!({"text": "short"}))).await;
    let item = case.get(&key()).await.unwrap();
    assert!(item.text("text") == Some("short") && item.text("raw_event") == Some(&long), "the text changed");
}

async fn expect_too_large(case: &ArchiveCase, update: Update) {
    let refused = apply_once(&*case.fixture.archive, &update).await;
    assert!(
        matches!(refused, Err(ArchiveError::TooLarge { bytes }) if bytes > MAX_ITEM_BYTES),
        "{refused:?}"
    );
}

pub(super) async fn an_item_too_large_is_refused_and_nothing_changes(case: ArchiveCase) {
    let too_long = "x".repeat(MAX_ITEM_BYTES);
    expect_too_large(&case, update(key(), greater("1"), json!({"text": too_long}))).await;
    assert_eq!(case.get(&key()).await, None);

    // Two halves that are too large together.
    let half = "x".repeat(MAX_ITEM_BYTES / 2);
    case.apply(update(key(), greater("1"), json!({"text": half}))).await;
    expect_too_large(&case, update(key(), greater("2"), json!({"raw_event": half}))).await;
    let item = case.get(&key()).await.unwrap();
    assert!(item.text("version") == Some("1") && item.text("raw_event").is_none(), "half of it was written");
    case.apply(update(key(), greater("3"), json!({"text": "short", "raw_event": half}))).await;
}

/// A message may have 20,000 reactions, each with a register of its own.
pub(super) async fn an_item_may_have_many_registers(case: ArchiveCase) {
    let name = |number: usize| format!("reaction#thumbsup#U{number:08}");
    let many: serde_json::Map<String, Value> =
        (0..20_000).map(|number| (name(number), "1700000000.000100/added".into())).collect();
    let mut first = update(key(), greater("1"), json!({"text": "t", "parent": "p"}));
    first.set_if_absent = many.into_iter().collect();
    case.apply(first).await;
    let reaction = |number: usize, version: &str| {
        let guard = Guard::Greater { register: name(number), version: version.into() };
        Update { guard, ..Update::new(key()) }
    };
    let refused = case.refuse(reaction(7, "1600000000.000100/removed")).await;
    assert_eq!(refused.attributes.len(), 20_003);
    case.apply(reaction(7, "1800000000.000100/removed")).await;
    case.refuse(reaction(7, "1700000000.000200/added")).await;
    case.apply(reaction(20_000, "1700000000.000100/added")).await;
    case.apply(update(key(), greater("2"), json!({"text": "edited"}))).await;
    let item = case.get(&key()).await.unwrap();
    assert_eq!((item.attributes.len(), item.text("text")), (20_004, Some("edited")));
    assert_eq!(item.text(&name(7)), Some("1800000000.000100/removed"));
    assert_eq!(item.text(&name(20_000)), Some("1700000000.000100/added"));
    assert_eq!(case.query(Query::partition(key().item_id)).await, [item]);
    case.expect_children(Query::parent("p"), &[key()]).await;
    assert!(case.fixture.archive.erase(&key()).await.unwrap());
    case.expect(&key(), json!({"erased": true})).await;
}

pub(super) async fn deep_nesting_is_returned(case: ArchiveCase) {
    // Less than DynamoDB's limit of 32 levels.
    let mut nested = json!("bottom");
    for level in 0..28 {
        nested = if level % 2 == 0 { json!([nested]) } else { json!({"down": nested}) };
    }
    case.put(key(), json!({"blocks": nested})).await;
    case.expect(&key(), json!({"blocks": nested})).await;
}
