//! The conditions under which an update is applied.

use ports::archive::{Guard, Update};
use serde_json::json;

use super::case::{ArchiveCase, attributes, greater, key, less, unchanged, update};

pub(super) async fn always_applies(case: ArchiveCase) {
    case.put(key(), json!({"text": "1", "version": "5"})).await;
    case.put(key(), json!({"text": "2"})).await;
    case.expect(&key(), json!({"text": "2", "version": "5"})).await;
}

/// Every order of three versions.
const ORDERS: [[&str; 3]; 6] =
    [["1", "2", "3"], ["1", "3", "2"], ["2", "1", "3"], ["2", "3", "1"], ["3", "1", "2"], ["3", "2", "1"]];

async fn expect_in_any_order(case: ArchiveCase, guard: fn(&str) -> Guard, winner: &str) {
    for (number, order) in ORDERS.iter().enumerate() {
        let mut key = key();
        key.timestamp = number.to_string();
        for version in order {
            case.write(update(key.clone(), guard(version), json!({"text": version}))).await;
        }
        case.expect(&key, json!({"version": winner, "text": winner})).await;
    }
}

pub(super) async fn the_greatest_version_stays_in_any_order(case: ArchiveCase) {
    expect_in_any_order(case, greater, "3").await;
}

pub(super) async fn the_least_version_stays_in_any_order(case: ArchiveCase) {
    expect_in_any_order(case, less, "1").await;
}

pub(super) async fn versions_compare_as_text(case: ArchiveCase) {
    // By bytes: digits before upper case before lower case before everything else; a prefix
    // before longer texts.
    for next in ["", "0", "10", "9", "9-", "90", "A", "a", "aa", "é", "～", "🦀"] {
        case.apply(update(key(), greater(next), json!({}))).await;
        case.expect(&key(), json!({"version": next})).await;
    }
    case.refuse(update(key(), greater("～"), json!({}))).await;
    case.refuse(update(key(), greater("🦀"), json!({}))).await;
}

pub(super) async fn an_unchanged_version_may_be_replaced(case: ArchiveCase) {
    case.apply(update(key(), unchanged(None, "5"), json!({"text": "first"}))).await;
    // Any version may follow, even a smaller one.
    case.apply(update(key(), unchanged(Some("5"), "3"), json!({"text": "second"}))).await;
    case.expect(&key(), json!({"version": "3", "text": "second"})).await;
}

pub(super) async fn a_changed_version_is_refused(case: ArchiveCase) {
    case.apply(update(key(), unchanged(None, "5"), json!({}))).await;
    for expected in [None, Some("4"), Some("6"), Some("")] {
        case.refuse(update(key(), unchanged(expected, "9"), json!({"text": "t"}))).await;
    }
    case.expect(&key(), json!({"version": "5"})).await;
}

pub(super) async fn an_absent_register_is_not_any_version(case: ArchiveCase) {
    case.put(key(), json!({"text": "t"})).await;
    case.refuse(update(key(), unchanged(Some(""), "1"), json!({}))).await;
    case.apply(update(key(), unchanged(None, "1"), json!({}))).await;
    for (number, guard) in [greater(""), less("~")].into_iter().enumerate() {
        let mut key = key();
        key.timestamp = number.to_string();
        case.put(key.clone(), json!({"text": "t"})).await;
        case.apply(update(key, guard, json!({}))).await;
    }
}

pub(super) async fn a_refused_update_changes_nothing_and_returns_the_stored_item(case: ArchiveCase) {
    case.apply(update(key(), greater("5"), json!({"text": "t", "files": [1]}))).await;
    let stored = case.get(&key()).await.unwrap();
    for guard in [greater("5"), greater("4"), less("5"), less("6"), unchanged(Some("4"), "6")] {
        let refused = Update {
            remove: vec!["files"],
            set_if_absent: attributes(json!({"parent": "p"})),
            ..update(key(), guard, json!({"text": "other"}))
        };
        assert_eq!(case.refuse(refused).await, stored);
    }
    assert_eq!(case.get(&key()).await, Some(stored));
}

pub(super) async fn a_refused_update_makes_no_item(case: ArchiveCase) {
    let shown = case.refuse(update(key(), unchanged(Some("1"), "2"), json!({"text": "t"}))).await;
    assert_eq!((shown.key, shown.attributes.len()), (key(), 0));
    assert_eq!(case.get(&key()).await, None);
}

pub(super) async fn an_erased_item_refuses_every_update(case: ArchiveCase) {
    case.put(key(), json!({"erased": true})).await;
    let erased = case.get(&key()).await.unwrap();
    for guard in [Guard::Always, greater("9"), less("0"), unchanged(None, "1")] {
        let refused = Update {
            set_if_absent: attributes(json!({"parent": "p"})),
            ..update(key(), guard, json!({"text": "t"}))
        };
        assert_eq!(case.refuse(refused).await, erased);
        let lifts = Update { remove: vec!["erased"], ..Update::new(key()) };
        assert_eq!(case.refuse(lifts).await, erased);
    }
    assert_eq!(case.get(&key()).await, Some(erased));
}

pub(super) async fn a_repeated_update_changes_nothing(case: ArchiveCase) {
    let repeated = Update {
        set_if_absent: attributes(json!({"parent": "p"})),
        ..update(key(), greater("1"), json!({"text": "t"}))
    };
    case.apply(repeated.clone()).await;
    let once = case.get(&key()).await.unwrap();
    assert_eq!(case.refuse(repeated).await, once);
    assert_eq!(case.get(&key()).await, Some(once));
}
