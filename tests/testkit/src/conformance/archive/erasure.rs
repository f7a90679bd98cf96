//! Of an erased item nothing is left, and nothing comes back.

use std::sync::Arc;

use futures_util::future::join_all;
use ports::archive::{ItemKey, Query};
use serde_json::json;

use super::bench::{Bench, greater, key, timestamps, update};

async fn erase(bench: &Bench, key: &ItemKey) -> bool {
    bench.fixture.archive.erase(key).await.unwrap()
}

pub(super) async fn nothing_is_left_of_an_erased_item(bench: Bench) {
    bench
        .put(
            key(),
            json!({"text": "secret", "reaction#+1#U1": "5/added", "file#F1": "9/stored/x", "list": [1]}),
        )
        .await;
    assert!(erase(&bench, &key()).await);
    bench.expect(&key(), json!({"erased": true})).await;
    for version in ["1", "9"] {
        bench.refuse(update(key(), greater(version), json!({"text": "again"}))).await;
    }
    bench.expect(&key(), json!({"erased": true})).await;
}

pub(super) async fn an_absent_item_is_erased_before_it_comes(bench: Bench) {
    assert!(erase(&bench, &key()).await);
    bench.expect(&key(), json!({"erased": true})).await;
    bench.refuse(update(key(), greater("1"), json!({"text": "late"}))).await;
    bench.expect(&key(), json!({"erased": true})).await;
}

pub(super) async fn an_erased_item_is_not_found_by_its_parent(bench: Bench) {
    let parent = "thread#T1#1700000000.000100";
    let reply = ItemKey::new("message#T1#C1", "1700000000.000200");
    for key in [key(), reply.clone()] {
        bench.put(key, json!({"parent": parent, "text": "t"})).await;
    }
    bench.expect_of_parent(Query::parent(parent), &[key(), reply.clone()]).await;
    assert!(erase(&bench, &reply).await);
    bench.expect_of_parent(Query::parent(parent), &[key()]).await;
}

pub(super) async fn an_erased_item_stays_in_its_place(bench: Bench) {
    for number in 1..=3 {
        bench.put(ItemKey::new("message#T1#C1", format!("{number}.000000")), json!({"text": "t"})).await;
    }
    assert!(erase(&bench, &ItemKey::new("message#T1#C1", "2.000000")).await);
    let found = bench.query(Query::partition("message#T1#C1")).await;
    assert_eq!(timestamps(&found), ["1.000000", "2.000000", "3.000000"]);
    assert_eq!(found.iter().map(ports::archive::Item::is_erased).collect::<Vec<_>>(), [false, true, false]);
}

pub(super) async fn a_large_item_is_erased(bench: Bench) {
    let large = "x".repeat(600_000);
    bench.put(key(), json!({"raw_event": large, "text": "t"})).await;
    assert!(erase(&bench, &key()).await);
    bench.expect(&key(), json!({"erased": true})).await;
}

pub(super) async fn erasing_again_changes_nothing(bench: Bench) {
    bench.put(key(), json!({"text": "t"})).await;
    assert!(erase(&bench, &key()).await);
    for _ in 0..2 {
        assert!(!erase(&bench, &key()).await);
        bench.expect(&key(), json!({"erased": true})).await;
    }
}

pub(super) async fn an_item_that_says_more_than_erased_is_erased(bench: Bench) {
    bench.put(key(), json!({"erased": true, "text": "left", "parent": "thread#T1#1.000000"})).await;
    assert!(!erase(&bench, &key()).await, "it was erased");
    bench.expect(&key(), json!({"erased": true})).await;
    bench.expect_of_parent(Query::parent("thread#T1#1.000000"), &[]).await;
}

pub(super) async fn one_of_many_erasures_is_the_first(bench: Bench) {
    bench.put(key(), json!({"text": "t"})).await;
    let erasures = (0..8).map(|_| {
        let archive = Arc::clone(&bench.fixture.archive);
        tokio::spawn(async move { archive.erase(&key()).await.unwrap() })
    });
    let first = join_all(erasures).await.into_iter().filter(|erased| *erased.as_ref().unwrap()).count();
    assert_eq!(first, 1);
    bench.expect(&key(), json!({"erased": true})).await;
}
