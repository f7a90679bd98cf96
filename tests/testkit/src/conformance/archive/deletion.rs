//! An item is deleted only if it is unchanged since it was read.

use ports::archive::{Item, Query};
use serde_json::json;

use super::case::{ArchiveCase, attributes, greater, key, update};

pub(super) async fn an_unchanged_item_is_deleted(case: ArchiveCase) {
    case.put(key(), json!({"text": "t", "list": [1, {"a": null}], "version": "1"})).await;
    let read = case.get(&key()).await.unwrap();
    assert!(case.fixture.archive.delete_unchanged(&read).await.unwrap());
    assert_eq!(case.get(&key()).await, None);
    assert_eq!(case.query(Query::partition(key().item_id)).await, []);
    // A second deletion is not an error.
    assert!(!case.fixture.archive.delete_unchanged(&read).await.unwrap());
}

pub(super) async fn a_changed_item_is_kept(case: ArchiveCase) {
    case.put(key(), json!({"text": "t", "attempts": 1})).await;
    for differs in [
        json!({}),
        json!({"text": "t"}),
        json!({"text": "T", "attempts": 1}),
        json!({"text": "t", "attempts": 2}),
        json!({"text": "t", "attempts": "1"}),
        json!({"text": "t", "attempts": 1, "more": null}),
    ] {
        let read = Item { key: key(), attributes: attributes(differs) };
        assert!(!case.fixture.archive.delete_unchanged(&read).await.unwrap(), "{read:?}");
    }
    case.expect(&key(), json!({"text": "t", "attempts": 1})).await;
}

pub(super) async fn an_absent_item_is_not_deleted(case: ArchiveCase) {
    case.put(key(), json!({"text": "t"})).await;
    let mut neighbour = case.get(&key()).await.unwrap();
    neighbour.key.timestamp.push('0');
    assert!(!case.fixture.archive.delete_unchanged(&neighbour).await.unwrap());
    case.expect(&key(), json!({"text": "t"})).await;
}

pub(super) async fn a_deleted_item_can_be_written_anew(case: ArchiveCase) {
    case.apply(update(key(), greater("9"), json!({"text": "old", "user": "U1"}))).await;
    let read = case.get(&key()).await.unwrap();
    assert!(case.fixture.archive.delete_unchanged(&read).await.unwrap());
    case.apply(update(key(), greater("1"), json!({"text": "new"}))).await;
    case.expect(&key(), json!({"text": "new", "version": "1"})).await;
}
