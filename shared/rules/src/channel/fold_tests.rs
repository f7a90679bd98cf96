use serde_json::json;

use super::super::ChannelEvent;
use super::*;
use crate::fixture::{channel, team, with_event};

fn event(event: &Value) -> ChannelEvent {
    with_event(event, ChannelEvent::read).unwrap().unwrap()
}

/// Stores events and folds them, as a worker does.
#[derive(Default)]
struct FoldedRows(BTreeMap<ItemKey, Attributes>);

impl FoldedRows {
    fn from_events(events: &[Value]) -> Self {
        let mut rows = Self::default();
        for value in events {
            event(value).inserts().iter().for_each(|insert| rows.write(insert));
        }
        rows.refold();
        rows
    }

    /// Returns the number of snapshots that were written.
    fn refold(&mut self) -> usize {
        let folded = fold(&team(), &self.timelines());
        let snapshots: Vec<Update> = folded.into_values().flat_map(|folded| folded.snapshots).collect();
        snapshots.iter().for_each(|snapshot| self.write(snapshot));
        snapshots.len()
    }

    fn write(&mut self, update: &Update) {
        if let Some(attributes) = update.apply(self.0.get(&update.key)) {
            self.0.insert(update.key.clone(), attributes);
        }
    }

    fn items(&self, id: &str) -> Vec<Item> {
        let partition = key::channels(&team(), &channel(id));
        let rows = self.0.iter().filter(|(key, _)| key.item_id == partition);
        rows.map(|(key, attributes)| Item { key: key.clone(), attributes: attributes.clone() }).collect()
    }

    fn timelines(&self) -> Timelines {
        ["C1", "C2", "C3"].iter().map(|id| (channel(id), Timeline::read(None, &self.items(id)))).collect()
    }

    fn newest(&self, channel: &str) -> Attributes {
        self.items(channel).pop().unwrap().attributes
    }
}

fn created(name: &str, ts: &str) -> Value {
    json!({ "type": "channel_created", "channel": { "id": "C1", "name": name, "created": 1 }, "event_ts": ts })
}

fn renamed(name: &str, ts: &str) -> Value {
    json!({ "type": "channel_rename", "channel": { "id": "C1", "name": name }, "event_ts": ts })
}

fn simple(kind: &str, ts: &str) -> Value {
    json!({ "type": kind, "channel": "C1", "event_ts": ts })
}

fn message(subtype: &str, field: &str, text: &str, ts: &str) -> Value {
    json!({ "type": "message", "subtype": subtype, "channel": "C1", "ts": ts, "event_ts": ts, field: text })
}

#[test]
fn the_newest_row_of_a_channel_has_its_state_and_no_attribute_for_false() {
    let life = [
        created("general", "1.000000"),
        message("channel_topic", "topic", "all things", "2.000000"),
        message("channel_purpose", "purpose", "talk", "3.000000"),
        simple("channel_archive", "4.000000"),
        renamed("everyone", "5.000000"),
        simple("channel_unarchive", "6.000000"),
        renamed("everyone", "7.000000"),
        message("channel_topic", "topic", "", "8.000000"),
    ];
    let rows = FoldedRows::from_events(&life);
    let newest = rows.newest("C1");
    assert_eq!(newest["name"], "everyone");
    assert_eq!(newest["names_history"], json!(["everyone", "general"]));
    assert_eq!(newest["visibility"], "public");
    assert_eq!(newest["purpose"], "talk");
    for absent in ["archived", "deleted", "topic", "ext_shared", "prev_channel_id"] {
        assert!(!newest.contains_key(absent), "{absent}");
    }
    let archived = &rows.items("C1")[3];
    assert!(archived.has_flag("archived") && archived.text("name") == Some("general"));
    // The same events in any order give the same rows.
    let backwards: Vec<Value> = life.iter().rev().cloned().collect();
    assert_eq!(FoldedRows::from_events(&backwards).0, rows.0);
}

#[test]
fn an_event_that_comes_late_changes_every_later_snapshot() {
    let mut rows =
        FoldedRows::from_events(&[created("a", "1.000000"), simple("channel_archive", "9.000000")]);
    event(&renamed("b", "5.000000")).inserts().iter().for_each(|insert| rows.write(insert));
    assert_eq!(fold(&team(), &rows.timelines())[&channel("C1")].index_name.as_deref(), Some("b"));
    assert_eq!(rows.refold(), 2);
    assert_eq!(rows.newest("C1")["names_history"], json!(["b", "a"]));
    assert_eq!(rows.refold(), 0);
}

#[test]
fn events_of_one_clock_fold_into_one_row_in_the_order_of_their_names() {
    let rows = FoldedRows::from_events(&[
        simple("channel_unarchive", "5.000000"),
        simple("channel_archive", "5.000000"),
    ]);
    assert_eq!(rows.items("C1").len(), 1);
    assert!(!rows.newest("C1").contains_key("archived"));
    assert!(rows.newest("C1")["raw_event"].as_str().unwrap().contains("channel_unarchive"));
}

#[test]
fn a_new_id_inherits_the_name_and_the_history_even_from_late_events() {
    let change = json!({ "type": "channel_id_changed", "old_channel_id": "C1", "new_channel_id": "C2", "event_ts": "5.000000" });
    let again = json!({ "type": "channel_id_changed", "old_channel_id": "C2", "new_channel_id": "C3", "event_ts": "7.000000" });
    let rename =
        json!({ "type": "channel_rename", "channel": { "id": "C2", "name": "c" }, "event_ts": "6.000000" });
    let life = [created("a", "1.000000"), renamed("b", "3.000000"), change, rename, again];
    let rows = FoldedRows::from_events(&life);
    assert_eq!(rows.newest("C1")["next_channel_id"], "C2");
    let second = rows.newest("C2");
    assert_eq!((&second["prev_channel_id"], &second["next_channel_id"]), (&json!("C1"), &json!("C3")));
    let third = rows.newest("C3");
    assert_eq!(third["prev_channel_id"], "C2");
    assert_eq!(third["names_history"], json!(["c", "b", "a"]));
    assert_eq!(third["visibility"], "public");
    // Later events of the old id do not change the new one.
    let later = [life.as_slice(), &[simple("channel_archive", "9.000000")]].concat();
    assert!(!FoldedRows::from_events(&later).newest("C3").contains_key("archived"));
}

#[test]
fn folding_ids_that_point_at_each_other_ends() {
    let change = |old: &str, new: &str, ts: &str| json!({ "type": "channel_id_changed", "old_channel_id": old, "new_channel_id": new, "event_ts": ts });
    let mut events = vec![created("a", "1.000000"), change("C1", "C1", "2.000000")];
    for n in 0..40 {
        let ts = format!("{}.000000", 100 + n);
        let (old, new) = if n % 2 == 0 { ("C1", "C2") } else { ("C2", "C1") };
        events.push(change(old, new, &ts));
        events.push(change(new, old, &ts));
    }
    let rows = FoldedRows::from_events(&events);
    assert_eq!(rows.newest("C1")["name"], "a");
}

#[test]
fn a_name_that_returns_is_a_new_name_and_the_history_is_bounded() {
    let mut events = vec![created("n0", "1.000000")];
    events.extend((1..30).map(|n| renamed(&format!("n{}", n % 25), &format!("{}.000000", 10 + n))));
    let newest = FoldedRows::from_events(&events).newest("C1");
    let history = newest["names_history"].as_array().unwrap();
    assert_eq!((history.len(), &history[0], &history[5]), (MAX_NAMES, &json!("n4"), &json!("n24")));
}

#[test]
fn sharing_is_recorded_by_team_and_ends_with_the_last() {
    let shared = |kind: &str, field: &str, team: &str, more: bool, ts: &str| json!({ "type": kind, "channel": "C1", field: team, "is_ext_shared": more, "event_ts": ts });
    let mut events = vec![
        shared("channel_shared", "connected_team_id", "T8", true, "1.000000"),
        shared("channel_shared", "connected_team_id", "T9", true, "2.000000"),
        shared("channel_unshared", "previously_connected_team_id", "T8", true, "3.000000"),
    ];
    let newest = FoldedRows::from_events(&events).newest("C1");
    assert_eq!((&newest["shared_with"], &newest["ext_shared"]), (&json!(["T9"]), &json!(true)));
    events.push(shared("channel_unshared", "previously_connected_team_id", "T9", false, "4.000000"));
    let newest = FoldedRows::from_events(&events).newest("C1");
    assert!(!newest.contains_key("shared_with") && !newest.contains_key("ext_shared"));
}

#[test]
fn a_listing_sets_all_fields_at_its_clock_and_odd_fields_change_nothing() {
    let listed = |object: Value, ts: &str| {
        let raw = serde_json::value::to_raw_value(&object).unwrap();
        ChannelEvent::listed(&team(), &raw, &slack::ids::Ts::parse(ts).unwrap())
    };
    let mut rows = FoldedRows::from_events(&[created("old", "1.000000"), renamed("newer", "9.000000")]);
    let whole = json!({ "id": "C1", "name": "missed", "is_archived": true, "is_private": false, "is_ext_shared": false,
        "topic": { "value": "t" }, "purpose": { "value": "" }, "previous_names": 7 });
    let listing = listed(whole, "5.000000").unwrap();
    let before = FoldedRows::from_events(&[created("old", "1.000000")]);
    assert!(is_channel_changed(before.items("C1").last(), &listing));
    listing.inserts().iter().for_each(|insert| rows.write(insert));
    rows.refold();
    // The rename that is newer than the listing still wins.
    assert_eq!(rows.newest("C1")["names_history"], json!(["newer", "missed", "old"]));
    assert!(!is_channel_changed(rows.items("C1").get(1), &listing));

    let odd =
        json!({ "id": "C1", "name": "newer", "is_archived": "yes", "topic": 3, "purpose": { "value": [] } });
    assert!(!is_channel_changed(rows.items("C1").last(), &listed(odd, "6.000000").unwrap()));
    for malformed in [
        json!({ "id": "C1" }),
        json!({ "name": "x" }),
        json!({ "id": "c1", "name": "x" }),
        json!({ "id": "C1", "name": "" }),
        json!({ "id": "C1", "name": "x".repeat(10_000) }),
        json!(["C1", "x"]),
    ] {
        assert!(listed(malformed.clone(), "1.000000").is_err(), "{malformed}");
    }
}

#[test]
fn a_listing_names_the_canvas_of_a_channel_and_a_later_one_without_it_removes_nothing() {
    let listed = |properties: Value, ts: &str| {
        let object = json!({ "id": "C1", "name": "a", "created": 1_600_000_000, "properties": properties });
        let raw = serde_json::value::to_raw_value(&object).unwrap();
        ChannelEvent::listed(&team(), &raw, &slack::ids::Ts::parse(ts).unwrap()).unwrap()
    };
    let tab = |file: &str| json!({ "id": "Ct1", "type": "canvas", "label": "", "data": { "file_id": file } });
    let whole = json!({ "canvas": { "file_id": "F2", "is_empty": false }, "tabs": [tab("F3"), { "type": "files" }, tab("F2")],
        "tabz": [tab("../F"), 7, null, tab("F4")] });
    let listing = listed(whole, "5.000000");
    let mut rows = FoldedRows::from_events(&[created("a", "1.000000")]);
    assert!(is_channel_changed(rows.items("C1").last(), &listing));
    for event in [&listing, &listed(json!({ "canvas": null, "tabs": {} }), "6.000000")] {
        event.inserts().iter().for_each(|insert| rows.write(insert));
    }
    rows.refold();
    assert_eq!(rows.newest("C1")["canvas"], "F2");
    assert!(!is_channel_changed(rows.items("C1").last(), &listed(Value::Null, "7.000000")));
    let jobs = listing.canvas_jobs();
    let files: Vec<&str> = jobs.iter().map(|(key, _)| key.timestamp.as_str()).collect();
    assert_eq!(files, ["F2", "F3", "F4"]);
    assert!(jobs.iter().all(|(_, job)| job.share.ts.as_str() == "1600000000.000000"));
    for odd in
        [json!([]), json!("canvas"), json!({ "canvas": [1] }), json!({ "tabs": vec![tab("F9"); 10_000] })]
    {
        assert!(listed(odd.clone(), "8.000000").canvas_jobs().len() <= 1, "{odd}");
    }
}

#[test]
fn a_channel_name_that_is_missing_too_long_or_not_text_is_malformed() {
    for channel in [
        json!({ "id": "C1" }),
        json!({ "id": "C1", "name": "x".repeat(10_000) }),
        json!({ "id": "C1", "name": 7 }),
    ] {
        let event = json!({ "type": "channel_rename", "channel": channel, "event_ts": "1.000000" });
        assert!(with_event(&event, ChannelEvent::read).is_err(), "{event}");
    }
}

#[test]
fn an_event_is_stored_once_even_if_its_json_is_written_differently() {
    let raws = [
        r#"{"type":"channel_archive","channel":"C1","user":"U1","event_ts":"1.000000"}"#,
        r#"{ "user": "U\u0031", "channel":"C1", "event_ts":"1.000000", "type":"channel_archive" }"#,
    ];
    let inserts = raws.map(|raw| with_event(raw, ChannelEvent::read).unwrap().unwrap().inserts());
    assert_eq!(inserts[0], inserts[1]);
}

#[test]
fn the_newest_row_reveals_every_event_that_came_after_a_fold() {
    let events = [created("old", "5.0"), renamed("new", "6.0")];
    let deleted = |ts: &str| json!({ "type": "channel_deleted", "channel": "C1", "event_ts": ts });
    let mut rows = FoldedRows::from_events(&events);
    let before = fold(&team(), &rows.timelines()).remove(&channel("C1")).unwrap().newest;
    let is_behind = |rows: &FoldedRows| before.is_behind(&rows.items("C1").pop().unwrap());
    assert!(!is_behind(&rows));
    rows.refold();
    assert!(!is_behind(&rows), "nothing came");
    event(&events[1]).inserts().iter().for_each(|insert| rows.write(insert));
    rows.refold();
    assert!(!is_behind(&rows), "a duplicate changes nothing");
    for late_or_new in ["4.0", "5.0", "6.0", "7.0"] {
        let mut rows = FoldedRows::from_events(&events);
        event(&deleted(late_or_new)).inserts().iter().for_each(|insert| rows.write(insert));
        rows.refold();
        assert!(is_behind(&rows), "{late_or_new}");
    }
    let bare = Item {
        key: ItemKey::new("x", rows.items("C1").pop().unwrap().key.timestamp),
        attributes: Attributes::new(),
    };
    assert!(before.is_behind(&bare), "a row without a snapshot is newer");
}

#[test]
fn an_event_with_half_a_character_keeps_its_other_fields() {
    let mut rows = FoldedRows::from_events(&[json!({ "type": "channel_created", "event_ts": "1.000000",
        "channel": { "id": "C1", "name": "before" } })]);
    let event = r#"{"type":"channel_rename","event_ts":"2.000000",
        "channel":{"id":"C1","name":"after","topic":"cut \ud83d"}}"#;
    let renamed = with_event(event, ChannelEvent::read).unwrap().unwrap();
    renamed.inserts().iter().for_each(|insert| rows.write(insert));
    rows.refold();
    let newest = rows.newest("C1");
    assert_eq!((&newest["name"], &newest["names_history"]), (&json!("after"), &json!(["after", "before"])));
}
