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

pub(super) async fn a_cursor_that_is_not_of_the_archive_means_to_rebuild(case: ChangesCase) {
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
        case.fixture.changes.behind(Some(&cursor)).await.unwrap();
        let mut follower = Follower { cursor: Some(cursor), ..Follower::default() };
        case.expect_equal(&mut follower, 10).await;
    }
}

pub(super) async fn a_lost_batch_comes_again(case: ChangesCase) {
    let mut follower = Follower::default();
    for number in 0..5 {
        case.write(message(0, &format!("170000000{number}.000100")), "first").await;
        // It dies before it has stored anything.
        follower.clone().step(&case, 10).await;
    }
    case.expect_equal(&mut follower, 2).await;
    let earlier = follower.clone();
    case.write(message(0, "1700000002.000100"), "second").await;
    case.expect_equal(&mut follower, 2).await;
    // What it stored is replaced by a copy of some time before.
    case.expect_equal(&mut earlier.clone(), 2).await;
}

pub(super) async fn two_followers_do_not_know_of_each_other(case: ChangesCase) {
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
