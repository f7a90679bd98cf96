//! The attributes that a write stores.

use ports::archive::{Guard, ItemKey, Update};
use serde_json::{Value, json};

use super::case::{ArchiveCase, attributes, greater, key, update};

pub(super) async fn an_archive_is_ready(case: ArchiveCase) {
    case.fixture.archive.ready().await.unwrap();
}

pub(super) async fn an_unwritten_item_does_not_exist(case: ArchiveCase) {
    assert_eq!(case.get(&key()).await, None);
}

pub(super) async fn a_write_is_seen_by_the_next_get(case: ArchiveCase) {
    for round in 0..20 {
        case.put(key(), json!({"round": round})).await;
        case.expect(&key(), json!({"round": round})).await;
    }
}

pub(super) async fn a_register_replaces_and_removes_its_attributes(case: ArchiveCase) {
    case.apply(update(key(), greater("1"), json!({"text": "old", "files": [1], "user": "U1"}))).await;
    let newer = update(key(), greater("2"), json!({"text": "new", "user": "U1"}));
    case.apply(Update { remove: vec!["files", "never_there"], ..newer }).await;
    case.expect(&key(), json!({"text": "new", "user": "U1", "version": "2"})).await;
}

pub(super) async fn an_attribute_set_if_absent_is_set_once(case: ArchiveCase) {
    let with = |parent: &str| Update {
        set_if_absent: attributes(json!({"parent": parent, "team_id": "T1"})),
        ..Update::new(key())
    };
    case.put(key(), json!({"team_id": "T0"})).await;
    case.apply(with("first")).await;
    case.apply(with("second")).await;
    case.expect(&key(), json!({"team_id": "T0", "parent": "first"})).await;
}

pub(super) async fn attributes_set_if_absent_need_a_winning_register(case: ArchiveCase) {
    case.apply(update(key(), greater("2"), json!({}))).await;
    let set_if_absent = attributes(json!({"parent": "p"}));
    let loses =
        Update { set_if_absent: set_if_absent.clone(), ..update(key(), greater("1"), json!({"text": "t"})) };
    case.refuse(loses).await;
    case.expect(&key(), json!({"version": "2"})).await;
    let wins = Update { set_if_absent, ..update(key(), greater("3"), json!({"text": "t"})) };
    case.apply(wins).await;
    case.expect(&key(), json!({"version": "3", "text": "t", "parent": "p"})).await;
}

pub(super) async fn registers_of_one_item_do_not_touch_each_other(case: ArchiveCase) {
    let deleted = Guard::Greater { register: "deleted_version".into(), version: "9".into() };
    case.apply(update(key(), deleted, json!({"deleted": true}))).await;
    case.apply(update(key(), greater("1"), json!({"text": "t"}))).await;
    case.expect(&key(), json!({"deleted": true, "deleted_version": "9", "text": "t", "version": "1"})).await;
}

pub(super) async fn every_kind_of_json_value_is_returned(case: ArchiveCase) {
    let values = json!({
        "text": "",
        "yes": true,
        "no": false,
        "nothing": null,
        "zero": 0,
        "negative": -1,
        "micros": 1_700_000_000_000_100_i64,
        "list": [],
        "lists": [[1, "two", null], {"three": [true]}],
        "map": {},
        "maps": {"a": {"b": {"c": "d"}}, "B": [0]},
    });
    case.put(key(), values.clone()).await;
    case.expect(&key(), values).await;
}

pub(super) async fn items_are_distinguished_by_both_keys(case: ArchiveCase) {
    let keys = [("a", "b"), ("a", "B"), ("A", "b"), ("ab", "b"), ("a", "bb"), ("a#b", "b"), ("a", "b ")];
    for (item_id, timestamp) in keys {
        case.put(ItemKey::new(item_id, timestamp), json!({"is": format!("{item_id}/{timestamp}")})).await;
    }
    for (item_id, timestamp) in keys {
        let item = case.get(&ItemKey::new(item_id, timestamp)).await.unwrap();
        assert_eq!(item.attributes.get("is"), Some(&Value::String(format!("{item_id}/{timestamp}"))));
    }
}
