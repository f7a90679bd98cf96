use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::Change;
use crate::fixture::with_event;

/// A version of one message: its text, its edit, the clock at which Slack sent it (`0` for a copy).
#[derive(Clone, Copy)]
struct VersionText {
    text: &'static str,
    edited: Option<&'static str>,
    clock: &'static str,
    preview: bool,
}

fn posted(text: &'static str, clock: &'static str) -> VersionText {
    VersionText { text, edited: None, clock, preview: false }
}

fn edit(text: &'static str, edited: &'static str, clock: &'static str) -> VersionText {
    VersionText { edited: Some(edited), ..posted(text, clock) }
}

const TS: &str = "1700000100.400000";

fn content(version: &VersionText) -> Content {
    let VersionText { text, edited, clock, preview } = version;
    let mut message = json!({ "ts": TS, "user": "U1", "text": text });
    if let Some(edited) = edited {
        message["edited"] = json!({ "ts": edited });
    }
    if *preview {
        message["attachments"] = json!([{ "id": 1 }]);
    }
    let event = if *clock == "0" {
        json!({ "type": "message", "subtype": "message_replied", "channel": "C1", "message": message })
    } else {
        json!({ "type": "message", "subtype": "message_changed", "channel": "C1", "event_ts": clock, "message": message })
    };
    match with_event(event, |event| event.changes()).unwrap().remove(0) {
        Change::Content(content) => *content,
        Change::Register(update) => panic!("{update:?}"),
    }
}

/// The rows after these versions were written as planned, by their keys.
fn rows(order: &[VersionText]) -> BTreeMap<ItemKey, Attributes> {
    let mut rows: BTreeMap<ItemKey, Attributes> = BTreeMap::new();
    for version in order {
        let content = content(version);
        let stored = rows.get(content.key()).cloned();
        let stored = stored.map(|attributes| Item { key: content.key().clone(), attributes });
        let plan = plan(&content, stored.as_ref());
        for update in plan.keep.iter().chain(&plan.row) {
            let stored = rows.get(&update.key);
            let marks =
                Update { set_if_absent: update.set_if_absent.clone(), ..Update::new(update.key.clone()) };
            let written = update.apply(stored).or_else(|| marks.apply(stored)).unwrap();
            rows.insert(update.key.clone(), written);
        }
    }
    rows
}

/// The earlier texts that readers see, with their clocks, then the current text.
fn visible_versions(rows: &BTreeMap<ItemKey, Attributes>) -> (Vec<(String, String)>, String) {
    let item = |(key, attributes): (&ItemKey, &Attributes)| Item {
        key: key.clone(),
        attributes: attributes.clone(),
    };
    let (revisions, messages): (Vec<Item>, Vec<Item>) =
        rows.iter().map(item).partition(|item| item.key.item_id.starts_with("revision#"));
    let text = |item: &Item| item.text("text").unwrap().to_owned();
    let Versions { replaced, .. } = versions(&revisions, messages.first());
    let replaced = replaced.iter().map(|replaced| (text(replaced.row), replaced.clock.to_string()));
    (replaced.collect(), text(&messages[0]))
}

/// Asserts that every order of these versions, each repeated once, leaves the same rows. Returns what readers
/// see.
fn in_every_order(versions: &[VersionText]) -> (Vec<(String, String)>, String) {
    let expected = rows(versions);
    let mut order: Vec<usize> = (0..versions.len()).collect();
    // Heap's algorithm.
    let mut counters = vec![0; versions.len()];
    let mut index = 0;
    while index < versions.len() {
        if counters[index] < index {
            order.swap(if index % 2 == 0 { 0 } else { counters[index] }, index);
            counters[index] += 1;
            index = 0;
            let sent: Vec<VersionText> = order.iter().chain(&order).map(|number| versions[*number]).collect();
            assert_eq!(rows(&sent), expected, "{order:?}");
        } else {
            counters[index] = 0;
            index += 1;
        }
    }
    visible_versions(&expected)
}

fn expect(versions: &[VersionText], replaced: &[(&str, &str)], now: &str) {
    let (found, text) = in_every_order(versions);
    let found: Vec<(&str, &str)> =
        found.iter().map(|(text, clock)| (text.as_str(), clock.as_str())).collect();
    assert_eq!((found.as_slice(), text.as_str()), (replaced, now));
}

#[test]
fn changes_without_an_edit_are_ordered_by_their_clocks() {
    expect(
        &[
            posted("10%", "1700000100.400000"),
            posted("50%", "1700000101.000000"),
            posted("done", "1700000102.000000"),
            posted("50%", "0"),
        ],
        &[("10%", "1700000100.400000"), ("50%", "1700000101.000000")],
        "done",
    );
}

#[test]
fn a_text_that_returns_is_a_version_each_time() {
    let turns = [
        posted("a", "1700000101.000000"),
        posted("b", "1700000102.000000"),
        posted("a", "1700000103.000000"),
        posted("c", "1700000104.000000"),
    ];
    expect(
        &turns,
        &[("a", "1700000101.000000"), ("b", "1700000102.000000"), ("a", "1700000103.000000")],
        "c",
    );
    expect(&turns[..3], &[("a", "1700000101.000000"), ("b", "1700000102.000000")], "a");
    expect(
        &[posted("a", "0"), posted("b", "1700000102.000000"), posted("a", "1700000103.000000")],
        &[("b", "1700000102.000000")],
        "a",
    );
}

#[test]
fn edits_within_one_second_and_in_the_second_of_the_post_are_all_kept() {
    expect(
        &[
            posted("v0", "1700000100.400000"),
            edit("v1", "1700000100.000000", "1700000100.700000"),
            edit("v2", "1700000100.000000", "1700000100.900000"),
            edit("v3", "1700000105.000000", "1700000105.000100"),
            edit("v4", "1700000105.000000", "1700000105.000900"),
        ],
        &[
            ("v0", "1700000100.400000"),
            ("v1", "1700000100.700000"),
            ("v2", "1700000100.900000"),
            ("v3", "1700000105.000100"),
        ],
        "v4",
    );
    expect(
        &[posted("v0", "0"), edit("v1", "1700000100.000000", "0"), posted("v0", "1700000100.400000")],
        &[("v0", "1700000100.400000")],
        "v1",
    );
}

#[test]
fn unfurls_and_copies_are_not_versions() {
    let unfurled = VersionText { preview: true, ..posted("link", "1700000101.000000") };
    expect(&[posted("link", "1700000100.400000"), unfurled, posted("link", "0")], &[], "link");
    let copied = rows(&[posted("text", "1700000100.400000"), posted("text", "0")]);
    assert_eq!(copied.len(), 1, "history repeats every message");
    expect(
        &[
            posted("link", "1700000100.400000"),
            unfurled,
            edit("edited", "1700000102.000000", "1700000102.000100"),
            posted("link", "0"),
        ],
        &[("link", "1700000100.400000")],
        "edited",
    );
}

#[test]
fn differing_copies_without_their_originals_are_kept() {
    let (replaced, now) = in_every_order(&[
        posted("a", "0"),
        posted("b", "0"),
        posted("b", "1700000105.000000"),
        posted("c", "0"),
    ]);
    let texts: std::collections::BTreeSet<&str> = replaced.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!((texts.into_iter().collect::<Vec<_>>(), now.as_str()), (vec!["a", "c"], "b"));
}

#[test]
fn blocks_and_files_make_versions_as_texts_do() {
    let signature_of = |message: Value| {
        let attributes: Attributes = [
            ("raw_event".to_owned(), message.to_string().into()),
            ("files".to_owned(), message["files"].clone()),
        ]
        .into_iter()
        .collect();
        signature(&attributes)
    };
    let plain = signature_of(
        json!({ "text": "x", "blocks": [{ "type": "a", "block_id": "1" }], "files": [{ "id": "F1", "name": "a" }] }),
    );
    for same in [
        json!({ "text": "x", "blocks": [{ "block_id": "2", "type": "a" }], "files": [{ "name": "a", "id": "F1", "thumb": 1 }] }),
        json!({ "attachments": [1], "text": "x", "blocks": [{ "type": "a" }], "files": [{ "id": "F1", "name": "a" }], "reply_count": 2 }),
    ] {
        assert_eq!(signature_of(same.clone()), plain, "{same}");
    }
    for other in [
        json!({ "text": "x", "blocks": [{ "type": "b" }], "files": [{ "id": "F1", "name": "a" }] }),
        json!({ "text": "x", "blocks": [], "files": [{ "id": "F1", "name": "a" }] }),
        json!({ "text": "x", "blocks": [{ "type": "a" }], "files": [{ "id": "F1", "mode": "tombstone" }] }),
        json!({ "text": "x", "blocks": [{ "type": "a" }], "files": [{ "id": "F2", "name": "a" }] }),
        json!({ "text": "y", "blocks": [{ "type": "a" }], "files": [{ "id": "F1", "name": "a" }] }),
    ] {
        assert_ne!(signature_of(other.clone()), plain, "{other}");
    }
}

#[test]
fn rows_of_the_older_shape_are_read() {
    let version = |clock: &str| format!("001700000100.400000/{clock}/ab");
    let old = Item {
        key: ItemKey::new("revision#T1#C1#1700000100.400000", "1700000100.400000"),
        attributes: [
            ("text".to_owned(), json!("before")),
            ("raw_event".to_owned(), json!(r#"{"text":"before"}"#)),
            (CONTENT_VERSION.to_owned(), version("001700000100.400000").into()),
        ]
        .into_iter()
        .collect(),
    };
    let rows = [old];
    let Versions { replaced, .. } = versions(&rows, None);
    assert_eq!((replaced.len(), replaced[0].clock.as_str()), (1, "1700000100.400000"));
}
