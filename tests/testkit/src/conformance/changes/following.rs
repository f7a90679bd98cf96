//! A follower finds all changes.

use std::collections::BTreeSet;

use ports::archive::ItemKey;
use ports::changes::{ChangeBatch, ChangeCursor, ChangedSpan};

use super::case::{ChangesCase, Follower, message};

pub(super) async fn an_empty_archive_has_no_changes(case: ChangesCase) {
    let mut follower = Follower::default();
    case.expect_equal(&mut follower, 10).await;
    assert!(follower.messages.is_empty() && follower.cursor.is_some());
}

pub(super) async fn a_written_message_is_found(case: ChangesCase) {
    let mut follower = Follower::default();
    case.write(message(0, "1700000000.000100"), "before").await;
    case.expect_equal(&mut follower, 10).await;
    assert_eq!(follower.messages.len(), 1);
    // Another day, other channels, and timestamps that Slack never uses.
    for (channel, ts) in [
        (0, "1700000000.000200"),
        (0, "1700090000.000100"),
        (1, "1700000000.000100"),
        (2, "1700000000.000100"),
        (0, "5.000000"),
        (0, "999999999.000000"),
    ] {
        case.write(message(channel, ts), "after").await;
        case.expect_equal(&mut follower, 10).await;
    }
    assert_eq!(follower.messages.len(), 7);
}

pub(super) async fn a_rewritten_message_is_found_again(case: ChangesCase) {
    let mut follower = Follower::default();
    for number in 0..5 {
        case.write(message(0, &format!("170000000{number}.000100")), "first").await;
    }
    case.expect_equal(&mut follower, 10).await;
    for text in ["second", "third"] {
        case.write(message(0, "1700000003.000100"), text).await;
        case.write(message(0, "1700000000.000100"), text).await;
        case.write(message(0, "1700000003.000100"), "and again").await;
        case.expect_equal(&mut follower, 10).await;
    }
    // The first version was not read before it changed.
    case.write(message(1, "1700000000.000100"), "first").await;
    case.write(message(1, "1700000000.000100"), "second").await;
    case.expect_equal(&mut follower, 1).await;
}

pub(super) async fn an_erased_message_is_removed(case: ChangesCase) {
    let mut follower = Follower::default();
    for number in 0..4 {
        case.write(message(0, &format!("170000000{number}.000100")), "text").await;
    }
    case.expect_equal(&mut follower, 10).await;
    for ts in ["1700000001.000100", "1700000003.000100", "1700000007.000100"] {
        assert!(case.fixture.archive.erase(&message(0, ts)).await.unwrap());
        case.expect_equal(&mut follower, 10).await;
    }
    assert_eq!(follower.messages.len(), 2);
    case.expect_equal(&mut Follower::default(), 1).await;
}

pub(super) async fn only_messages_are_followed(case: ChangesCase) {
    let mut follower = Follower::default();
    for item_id in
        ["revision#T1#C1#1.000000", "user#T1", "messages#T1#C1", "message", "channel#T1#C1", "file#T1"]
    {
        for text in ["first", "second"] {
            case.write(ItemKey::new(item_id, "1700000000.000100"), text).await;
        }
    }
    case.expect_equal(&mut follower, 1).await;
    assert!(follower.messages.is_empty());
}

pub(super) async fn a_batch_is_no_longer_than_its_limit(case: ChangesCase) {
    for number in 10..30 {
        case.write(message(number % 3, &format!("17000{number}000.000100")), "text").await;
    }
    for limit in [1, 3, 20, 1000] {
        case.expect_equal(&mut Follower::default(), limit).await;
    }
    // A limit of zero counts as one, so that the follower makes progress.
    let batch = case.fixture.changes.since(None, 0).await.unwrap();
    let found = match batch {
        ChangeBatch::Items { items, .. } => items.len(),
        ChangeBatch::Spans { spans, .. } => spans.len(),
        ChangeBatch::Rebuild => 0,
    };
    assert_eq!(found, 1);
}

pub(super) async fn changed_spans_are_reported(case: ChangesCase) {
    let ChangesCase { fixture, traits, .. } = &case;
    let mut cursor = None;
    for written in [
        vec![(0, "1700000000.000100"), (0, "1700000001.000100"), (0, "1700090000.000100"), (1, "5.000000")],
        vec![(2, "1700000000.000100"), (0, "1700000000.000100")],
    ] {
        let written: Vec<ItemKey> = written.into_iter().map(|(channel, ts)| message(channel, ts)).collect();
        for key in &written {
            case.write(key.clone(), "text").await;
        }
        let mut reported = BTreeSet::new();
        loop {
            let batch = fixture.changes.spans_since(cursor.as_ref(), 2).await.unwrap().unwrap();
            assert!(batch.spans.len() <= 2, "{batch:?}");
            reported.extend(batch.spans);
            cursor = Some(batch.next);
            if batch.is_all {
                break;
            }
        }
        let spans: BTreeSet<ChangedSpan> = written.iter().filter_map(ChangedSpan::for_row).collect();
        if traits.by_row {
            assert_eq!(reported, spans);
        }
        for span in spans {
            let whole = ChangedSpan::whole(span.team.clone(), span.channel.clone());
            assert!(
                reported.contains(&span) || reported.contains(&whole),
                "{span:?} is not among {reported:?}"
            );
        }
    }
    let odd = ChangeCursor::new("of another archive");
    assert_eq!(fixture.changes.spans_since(Some(&odd), 2).await.unwrap(), None);
}

pub(super) async fn the_remaining_changes_are_counted(case: ChangesCase) {
    let mut follower = Follower::default();
    if !case.traits.by_row {
        assert_eq!(case.fixture.changes.backlog_estimate(None).await.unwrap(), None);
        return;
    }
    let behind = async |follower: &Follower| {
        case.fixture.changes.backlog_estimate(follower.cursor.as_ref()).await.unwrap().unwrap()
    };
    assert_eq!(behind(&follower).await, 0);
    for number in 0..5 {
        case.write(message(0, &format!("170000000{number}.000100")), "first").await;
    }
    case.write(ItemKey::new("user#T1", "U1"), "no message").await;
    assert_eq!(behind(&follower).await, 5);
    follower.step(&case, 2).await;
    assert_eq!(behind(&follower).await, 3);
    follower.catch_up(&case, 10).await;
    assert_eq!(behind(&follower).await, 0);
    for text in ["second", "third"] {
        case.write(message(0, "1700000001.000100"), text).await;
    }
    case.write(message(0, "1700000009.000100"), "new").await;
    assert_eq!(behind(&follower).await, 2);
}

pub(super) async fn short_lived_rows_hide_no_message(case: ChangesCase) {
    let mut follower = Follower::default();
    let mark = ItemKey::new("meta#attempts#events", "1");
    for number in 0..4 {
        case.write(mark.clone(), "passes").await;
        case.expect_equal(&mut follower, 10).await;
        let row = case.fixture.archive.get(&mark).await.unwrap().unwrap();
        assert!(case.fixture.archive.delete_unchanged(&row).await.unwrap());
        case.write(message(0, &format!("170000000{number}.000100")), "stays").await;
        case.expect_equal(&mut follower, 10).await;
    }
    assert_eq!(follower.messages.len(), 4);
}
