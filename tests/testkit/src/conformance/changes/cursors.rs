//! A cursor is a text that a follower stores.

use ports::changes::{ChangeBatch, ChangeCursor};

use super::case::{ChangesCase, Follower, message};

pub(super) async fn a_cursor_survives_being_stored(case: ChangesCase) {
    let mut follower = Follower::default();
    for number in 0..9 {
        case.write(message(0, &format!("170000000{number}.000100")), "text").await;
        follower.step(&case, 1).await;
        let stored = serde_json::to_string(&follower.cursor).unwrap();
        follower.cursor = serde_json::from_str(&stored).unwrap();
        let text = follower.cursor.as_ref().unwrap().as_str();
        assert!(text.len() < 1000, "{text}");
    }
    case.expect_equal(&mut follower, 10).await;
}

pub(super) async fn a_cursor_of_another_archive_requires_a_rebuild(case: ChangesCase) {
    case.write(message(0, "1700000000.000100"), "text").await;
    for text in [
        "",
        "0",
        "null",
        "{}",
        "another archive's",
        "\u{0}",
        "{\"epoch\":\"another\",\"row\":1,\"change\":0}",
    ] {
        let cursor = ChangeCursor::new(text);
        let batch = case.fixture.changes.since(Some(&cursor), 10).await.unwrap();
        assert_eq!(batch, ChangeBatch::Rebuild, "{text}");
        case.fixture.changes.backlog_estimate(Some(&cursor)).await.unwrap();
        let mut follower = Follower { cursor: Some(cursor), ..Follower::default() };
        case.expect_equal(&mut follower, 10).await;
    }
}

pub(super) async fn a_lost_batch_is_returned_again(case: ChangesCase) {
    let mut follower = Follower::default();
    for number in 0..5 {
        case.write(message(0, &format!("170000000{number}.000100")), "first").await;
        // The follower dies before it has stored the batch.
        follower.clone().step(&case, 10).await;
    }
    case.expect_equal(&mut follower, 2).await;
    let earlier = follower.clone();
    case.write(message(0, "1700000002.000100"), "second").await;
    case.expect_equal(&mut follower, 2).await;
    // The follower's data is replaced by an older copy.
    case.expect_equal(&mut earlier.clone(), 2).await;
}

pub(super) async fn two_followers_are_independent(case: ChangesCase) {
    let (mut one, mut other) = (Follower::default(), Follower::default());
    for number in 0..6 {
        case.write(message(0, &format!("170000000{number}.000100")), "first").await;
        one.step(&case, 2).await;
        case.write(message(0, "1700000000.000100"), &format!("text {number}")).await;
        if number % 2 == 0 {
            other.step(&case, 3).await;
        }
    }
    case.expect_equal(&mut one, 2).await;
    case.expect_equal(&mut other, 3).await;
}
