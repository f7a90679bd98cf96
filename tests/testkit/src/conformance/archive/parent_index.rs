//! The sparse index over threads.

use ports::archive::{ItemKey, Query, Update};
use serde_json::json;

use super::case::{ArchiveCase, attributes};

const PARENT: &str = "thread#T1#1.000000";

fn message(timestamp: &str) -> ItemKey {
    ItemKey::new("message#T1#C1", timestamp)
}

pub(super) async fn only_items_with_the_parent_are_found(case: ArchiveCase) {
    for timestamp in ["3", "1", "2"] {
        case.put(message(timestamp), json!({"parent": PARENT})).await;
    }
    case.put(message("4"), json!({"text": "no parent"})).await;
    case.put(message("5"), json!({"parent": "thread#T1#5.000000"})).await;
    case.put(message("6"), json!({"thread_ts": PARENT})).await;
    case.expect_children(Query::parent(PARENT), &["1", "2", "3"].map(message)).await;
}

pub(super) async fn an_item_that_gains_a_parent_is_found(case: ArchiveCase) {
    case.put(message("1"), json!({"text": "root"})).await;
    case.expect_children(Query::parent(PARENT), &[]).await;
    let gains = Update { set_if_absent: attributes(json!({"parent": PARENT})), ..Update::new(message("1")) };
    case.apply(gains).await;
    case.expect_children(Query::parent(PARENT), &[message("1")]).await;
}

pub(super) async fn an_item_that_loses_its_parent_is_not_found(case: ArchiveCase) {
    for timestamp in ["1", "2", "3"] {
        case.put(message(timestamp), json!({"parent": PARENT})).await;
    }
    case.apply(Update { remove: vec!["parent"], ..Update::new(message("1")) }).await;
    case.put(message("2"), json!({"parent": "thread#T1#2.000000"})).await;
    let deleted = case.get(&message("3")).await.unwrap();
    assert!(case.fixture.archive.delete_unchanged(&deleted).await.unwrap());
    case.expect_children(Query::parent(PARENT), &[]).await;
    case.expect_children(Query::parent("thread#T1#2.000000"), &[message("2")]).await;
}

pub(super) async fn items_with_one_timestamp_are_each_found_once(case: ArchiveCase) {
    // Two channels may have messages with the same timestamp, and a parent does not contain its channel.
    let keys = ["C1", "C2", "C3"].map(|channel| ItemKey::new(format!("message#T1#{channel}"), "1"));
    for key in &keys {
        case.put(key.clone(), json!({"parent": PARENT})).await;
    }
    for limit in 1..5 {
        case.expect_children(Query { limit, ..Query::parent(PARENT) }, &keys).await;
    }
}

pub(super) async fn a_parent_is_paged_in_both_directions(case: ArchiveCase) {
    let mut keys = ["1", "10", "2", "3", "4"].map(message);
    for key in &keys {
        case.put(key.clone(), json!({"parent": PARENT})).await;
    }
    for descending in [false, true] {
        for limit in 1..7 {
            case.expect_children(Query { limit, descending, ..Query::parent(PARENT) }, &keys).await;
        }
        keys.reverse();
    }
    let after = Query { after: Some(message("2")), ..Query::parent(PARENT) };
    case.expect_children(after, &["3", "4"].map(message)).await;
}

pub(super) async fn a_parent_ends_before_its_bound_in_both_directions(case: ArchiveCase) {
    let keys = ["1", "10", "2", "3", "4"].map(message);
    for key in &keys {
        case.put(key.clone(), json!({"parent": PARENT})).await;
    }
    let until = Some("3".to_owned());
    for limit in 1..5 {
        let bounded = Query { until: until.clone(), limit, ..Query::parent(PARENT) };
        case.expect_children(bounded.clone(), &["1", "10", "2"].map(message)).await;
        let newest_first = Query { descending: true, ..bounded.clone() };
        case.expect_children(newest_first.clone(), &["2", "10", "1"].map(message)).await;
        let after = Some(message("10"));
        case.expect_children(Query { after, ..bounded.clone() }, &[message("2")]).await;
        let after = Some(message("4"));
        case.expect_children(Query { after: after.clone(), ..bounded }, &[]).await;
        case.expect_children(Query { after, ..newest_first }, &["2", "10", "1"].map(message)).await;
    }
}

pub(super) async fn a_parent_is_not_its_prefix(case: ArchiveCase) {
    case.put(message("1"), json!({"parent": format!("{PARENT}0")})).await;
    case.put(message("2"), json!({"parent": PARENT[..PARENT.len() - 1]})).await;
    case.put(message("3"), json!({"parent": "%"})).await;
    case.expect_children(Query::parent(PARENT), &[]).await;
    // A parent is not the partition of that name either.
    case.put(ItemKey::new(PARENT, "4"), json!({})).await;
    case.expect_children(Query::parent(PARENT), &[]).await;
    case.expect_children(Query::parent("%"), &[message("3")]).await;
}
