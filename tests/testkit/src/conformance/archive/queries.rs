//! Queries of one partition, in order, page by page.

use ports::archive::{ItemKey, Query, Update};
use serde_json::json;

use super::case::{ArchiveCase, timestamps};

const PARTITION: &str = "message#T1#C1";

/// Ordered by bytes, not by number.
const IN_ORDER: [&str; 6] = ["1.000000", "10.000000", "2.000000", "9", "A", "é"];

async fn fill(case: &ArchiveCase, partition: &str) {
    for timestamp in IN_ORDER.iter().rev() {
        case.put(ItemKey::new(partition, *timestamp), json!({"at": timestamp})).await;
    }
}

fn newest_first() -> Vec<&'static str> {
    IN_ORDER.iter().rev().copied().collect()
}

pub(super) async fn items_are_ordered_by_the_text_of_their_timestamps(case: ArchiveCase) {
    fill(&case, PARTITION).await;
    let found = case.query(Query::partition(PARTITION)).await;
    assert_eq!(timestamps(&found), IN_ORDER.to_vec());
    assert!(found.iter().all(|item| item.text("at") == Some(&item.key.timestamp)), "{found:?}");
}

pub(super) async fn a_descending_query_returns_the_newest_items_first(case: ArchiveCase) {
    fill(&case, PARTITION).await;
    let found = case.query(Query { descending: true, ..Query::partition(PARTITION) }).await;
    assert_eq!(timestamps(&found), newest_first());
}

pub(super) async fn pages_join_without_gap_or_overlap(case: ArchiveCase) {
    fill(&case, PARTITION).await;
    for limit in 1..8 {
        for (descending, expected) in [(false, IN_ORDER.to_vec()), (true, newest_first())] {
            let found = case.query(Query { limit, descending, ..Query::partition(PARTITION) }).await;
            assert_eq!(timestamps(&found), expected, "limit {limit}");
        }
    }
}

pub(super) async fn a_page_can_start_after_an_absent_item(case: ArchiveCase) {
    fill(&case, PARTITION).await;
    // "5" never existed: only its position in the order counts.
    for after in ["2.000000", "5"] {
        let after = Some(ItemKey::new(PARTITION, after));
        let newer = Query { after: after.clone(), ..Query::partition(PARTITION) };
        assert_eq!(timestamps(&case.query(newer).await), ["9", "A", "é"]);
    }
    let older =
        Query { after: Some(ItemKey::new(PARTITION, "5")), descending: true, ..Query::partition(PARTITION) };
    assert_eq!(timestamps(&case.query(older).await), ["2.000000", "10.000000", "1.000000"]);
    let behind_all = Query { after: Some(ItemKey::new(PARTITION, "ü")), ..Query::partition(PARTITION) };
    assert_eq!(case.query(behind_all).await, []);
}

/// Bounds between two timestamps, at one, before all, after all, and the empty text.
const UNTIL: [&str; 5] = ["5", "9", "0", "ü", ""];

pub(super) async fn a_query_ends_before_its_bound_in_both_directions(case: ArchiveCase) {
    fill(&case, PARTITION).await;
    for until in UNTIL {
        for descending in [false, true] {
            let mut expected: Vec<&str> = IN_ORDER.into_iter().filter(|at| *at < until).collect();
            if descending {
                expected.reverse();
            }
            for limit in 1..8 {
                let until = Some(until.to_owned());
                let found =
                    case.query(Query { until, descending, limit, ..Query::partition(PARTITION) }).await;
                assert_eq!(timestamps(&found), expected, "limit {limit}, descending {descending}");
            }
        }
    }
}

pub(super) async fn a_bound_and_a_start_hold_together(case: ArchiveCase) {
    fill(&case, PARTITION).await;
    for (until, after) in UNTIL.into_iter().flat_map(|until| UNTIL.map(|after| (until, after))) {
        for descending in [false, true] {
            let is_after = |at: &str| if descending { at < after } else { at > after };
            let mut expected: Vec<&str> =
                IN_ORDER.into_iter().filter(|at| *at < until && is_after(at)).collect();
            if descending {
                expected.reverse();
            }
            let bounds = Query {
                after: Some(ItemKey::new(PARTITION, after)),
                until: Some(until.to_owned()),
                descending,
                limit: 2,
                ..Query::partition(PARTITION)
            };
            let found = case.query(bounds).await;
            assert_eq!(timestamps(&found), expected, "until {until:?}, after {after:?}");
        }
    }
}

pub(super) async fn a_partition_is_not_its_prefix(case: ArchiveCase) {
    for other in
        ["message#T1#C10", "message#T1#C", "message#T1#c1", "message#T1#C1 ", "revision#T1#C1", "message#T1%"]
    {
        fill(&case, other).await;
    }
    assert_eq!(case.query(Query::partition(PARTITION)).await, []);
    case.put(ItemKey::new(PARTITION, "7"), json!({})).await;
    assert_eq!(timestamps(&case.query(Query::partition(PARTITION)).await), ["7"]);
}

pub(super) async fn an_empty_partition_has_one_empty_page(case: ArchiveCase) {
    let page = case.page(&Query::partition(PARTITION)).await;
    assert!(page.items.is_empty() && page.next.is_none(), "{page:?}");
}

pub(super) async fn a_query_shows_items_as_they_are_now(case: ArchiveCase) {
    let key = ItemKey::new(PARTITION, "1");
    for round in 0..10 {
        case.put(key.clone(), json!({"round": round, "text": "x"})).await;
        case.apply(Update { remove: vec!["text"], ..Update::new(key.clone()) }).await;
        let found = case.query(Query::partition(PARTITION)).await;
        assert_eq!(found.len(), 1);
        assert_eq!(serde_json::Value::Object(found[0].attributes.clone()), json!({"round": round}));
    }
}
