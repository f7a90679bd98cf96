//! The settled writes that all callers except backends make.

use ports::archive::{ArchiveExt, ItemKey, Update, WriteOutcome};
use serde_json::json;

use super::case::{ArchiveCase, attributes, greater, key, unchanged, update};

pub(super) async fn a_write_that_loses_still_sets_absent_attributes(case: ArchiveCase) {
    case.apply(update(key(), greater("2"), json!({"text": "new", "user": "U1"}))).await;
    let stored = case.get(&key()).await.unwrap();
    let loses = Update {
        set_if_absent: attributes(json!({"parent": "p", "user": "U2", "version": "9"})),
        ..update(key(), greater("1"), json!({"text": "old"}))
    };
    let archive = &case.fixture.archive;
    assert_eq!(archive.write(&loses).await.unwrap(), WriteOutcome::Rejected(stored));
    case.expect(&key(), json!({"text": "new", "user": "U1", "version": "2", "parent": "p"})).await;
}

pub(super) async fn each_of_many_writes_is_settled(case: ArchiveCase) {
    let keys = ["1", "2", "3", "4"].map(|timestamp| ItemKey::new(key().item_id, timestamp));
    case.apply(update(keys[0].clone(), greater("2"), json!({}))).await;
    case.apply(update(keys[2].clone(), greater("2"), json!({"parent": "first"}))).await;
    case.put(keys[3].clone(), json!({"erased": true})).await;
    let updates = keys.clone().map(|key| Update {
        set_if_absent: attributes(json!({"parent": "p", "team_id": "T1"})),
        ..update(key, greater("1"), json!({"text": "t"}))
    });
    let outcomes = case.fixture.archive.write_all(&updates.iter().collect::<Vec<_>>()).await;
    let applied: Vec<bool> =
        outcomes.into_iter().map(|outcome| outcome.unwrap() == WriteOutcome::Applied).collect();
    assert_eq!(applied, [false, true, false, false]);
    case.expect(&keys[0], json!({"version": "2", "parent": "p", "team_id": "T1"})).await;
    case.expect(&keys[1], json!({"version": "1", "text": "t", "parent": "p", "team_id": "T1"})).await;
    case.expect(&keys[2], json!({"version": "2", "parent": "first", "team_id": "T1"})).await;
    case.expect(&keys[3], json!({"erased": true})).await;
}

pub(super) async fn a_write_that_loses_makes_no_item(case: ArchiveCase) {
    let loses = Update {
        set_if_absent: attributes(json!({"parent": "p"})),
        ..update(key(), unchanged(Some("1"), "2"), json!({}))
    };
    assert!(matches!(case.fixture.archive.write(&loses).await.unwrap(), WriteOutcome::Rejected(_)));
    assert_eq!(case.get(&key()).await, None);
}
