//! An erased item keeps no content, and no update restores it.

use std::sync::Arc;

use futures_util::future::join_all;
use ports::archive::{ItemKey, Query};
use serde_json::json;

use super::case::{ArchiveCase, greater, key, timestamps, update};

async fn erase(case: &ArchiveCase, key: &ItemKey) -> bool {
    case.fixture.archive.erase(key).await.unwrap()
}

pub(super) async fn an_erased_item_keeps_no_other_attribute(case: ArchiveCase) {
    case.put(
        key(),
        json!({"text": "secret", "reaction#+1#U1": "5/added", "file#F1": "9/stored/x", "list": [1]}),
    )
    .await;
    assert!(erase(&case, &key()).await);
    case.expect(&key(), json!({"erased": true})).await;
    for version in ["1", "9"] {
        case.refuse(update(key(), greater(version), json!({"text": "again"}))).await;
    }
    case.expect(&key(), json!({"erased": true})).await;
}

pub(super) async fn an_absent_item_can_be_erased_in_advance(case: ArchiveCase) {
    assert!(erase(&case, &key()).await);
    case.expect(&key(), json!({"erased": true})).await;
    case.refuse(update(key(), greater("1"), json!({"text": "late"}))).await;
    case.expect(&key(), json!({"erased": true})).await;
}

pub(super) async fn an_erased_item_is_not_found_by_its_parent(case: ArchiveCase) {
    let parent = "thread#T1#1700000000.000100";
    let reply = ItemKey::new("message#T1#C1", "1700000000.000200");
    for key in [key(), reply.clone()] {
        case.put(key, json!({"parent": parent, "text": "t"})).await;
    }
    case.expect_children(Query::parent(parent), &[key(), reply.clone()]).await;
    assert!(erase(&case, &reply).await);
    case.expect_children(Query::parent(parent), &[key()]).await;
}

pub(super) async fn an_erased_item_stays_in_its_partition(case: ArchiveCase) {
    for number in 1..=3 {
        case.put(ItemKey::new("message#T1#C1", format!("{number}.000000")), json!({"text": "t"})).await;
    }
    assert!(erase(&case, &ItemKey::new("message#T1#C1", "2.000000")).await);
    let found = case.query(Query::partition("message#T1#C1")).await;
    assert_eq!(timestamps(&found), ["1.000000", "2.000000", "3.000000"]);
    assert_eq!(found.iter().map(ports::archive::Item::is_erased).collect::<Vec<_>>(), [false, true, false]);
}

pub(super) async fn a_large_item_is_erased(case: ArchiveCase) {
    let large = "x".repeat(600_000);
    case.put(key(), json!({"raw_event": large, "text": "t"})).await;
    assert!(erase(&case, &key()).await);
    case.expect(&key(), json!({"erased": true})).await;
}

pub(super) async fn erasing_again_changes_nothing(case: ArchiveCase) {
    case.put(key(), json!({"text": "t"})).await;
    assert!(erase(&case, &key()).await);
    for _ in 0..2 {
        assert!(!erase(&case, &key()).await);
        case.expect(&key(), json!({"erased": true})).await;
    }
}

pub(super) async fn an_erased_item_with_other_attributes_is_cleared(case: ArchiveCase) {
    case.put(key(), json!({"erased": true, "text": "left", "parent": "thread#T1#1.000000"})).await;
    assert!(!erase(&case, &key()).await, "it was erased already");
    case.expect(&key(), json!({"erased": true})).await;
    case.expect_children(Query::parent("thread#T1#1.000000"), &[]).await;
}

pub(super) async fn one_of_many_erasures_is_the_first(case: ArchiveCase) {
    case.put(key(), json!({"text": "t"})).await;
    let erasures = (0..8).map(|_| {
        let archive = Arc::clone(&case.fixture.archive);
        tokio::spawn(async move { archive.erase(&key()).await.unwrap() })
    });
    let first = join_all(erasures).await.into_iter().filter(|erased| *erased.as_ref().unwrap()).count();
    assert_eq!(first, 1);
    case.expect(&key(), json!({"erased": true})).await;
}
