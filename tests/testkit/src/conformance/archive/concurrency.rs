//! Concurrent writers: every update is atomic.

use std::sync::Arc;

use futures_util::future::join_all;
use ports::archive::{Guard, Update, WriteOutcome};
use serde_json::json;

use super::case::{ArchiveCase, apply_once, attributes, greater, key, unchanged, update};

const WRITERS: usize = 16;

/// Runs updates concurrently, each in its own task, and returns the outcomes.
async fn write_at_once(case: &ArchiveCase, updates: Vec<Update>) -> Vec<WriteOutcome> {
    let tasks = updates.into_iter().map(|update| {
        let archive = Arc::clone(&case.fixture.archive);
        tokio::spawn(async move { apply_once(&*archive, &update).await.unwrap() })
    });
    join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

pub(super) async fn one_writer_wins_each_version(case: ArchiveCase) {
    let mut version: Option<String> = None;
    for round in 0..8 {
        let by = |writer: usize| {
            let next = format!("{round}-{writer}");
            update(key(), unchanged(version.as_deref(), &next), json!({"by": writer}))
        };
        let outcomes = write_at_once(&case, (0..WRITERS).map(by).collect()).await;
        let winners: Vec<usize> =
            (0..WRITERS).filter(|writer| outcomes[*writer] == WriteOutcome::Applied).collect();
        assert_eq!(winners.len(), 1, "round {round}: {winners:?} won");
        let won = format!("{round}-{}", winners[0]);
        case.expect(&key(), json!({"version": won, "by": winners[0]})).await;
        version = Some(won);
    }
}

pub(super) async fn the_greatest_of_many_writers_stays(case: ArchiveCase) {
    // Neither ascending nor descending.
    let versions: Vec<String> = (0..WRITERS * 4).map(|number| format!("{:03}", number * 37 % 64)).collect();
    let updates =
        versions.iter().map(|version| update(key(), greater(version), json!({"text": version}))).collect();
    let outcomes = write_at_once(&case, updates).await;
    for (version, outcome) in versions.iter().zip(outcomes) {
        // A loser received the winner of that time.
        if let WriteOutcome::Rejected(stored) = outcome {
            assert!(stored.text("version") > Some(version) && stored.text("text") == stored.text("version"));
        }
    }
    case.expect(&key(), json!({"version": "063", "text": "063"})).await;
}

pub(super) async fn the_first_of_many_writers_sets_absent_attributes(case: ArchiveCase) {
    let by = |writer: usize| {
        let set_if_absent = attributes(json!({"first": writer, "also_first": writer}));
        Update { set_if_absent, ..Update::new(key()) }
    };
    write_at_once(&case, (0..WRITERS).map(by).collect()).await;
    let stored = case.get(&key()).await.unwrap();
    assert_eq!(stored.attributes.get("first"), stored.attributes.get("also_first"));
    write_at_once(&case, (0..WRITERS).map(by).collect()).await;
    assert_eq!(case.get(&key()).await, Some(stored));
}

pub(super) async fn no_register_of_many_writers_is_lost(case: ArchiveCase) {
    let by = |writer: usize| {
        let guard = Guard::Greater { register: format!("version{writer}"), version: "1".into() };
        update(key(), guard, json!({format!("text{writer}"): writer}))
    };
    let outcomes = write_at_once(&case, (0..WRITERS).map(by).collect()).await;
    assert_eq!(outcomes, vec![WriteOutcome::Applied; WRITERS]);
    assert_eq!(case.get(&key()).await.unwrap().attributes.len(), WRITERS * 2);
}

pub(super) async fn one_of_many_deleters_deletes(case: ArchiveCase) {
    case.put(key(), json!({"text": "t"})).await;
    let read = case.get(&key()).await.unwrap();
    let tasks = (0..WRITERS).map(|_| {
        let (archive, read) = (Arc::clone(&case.fixture.archive), read.clone());
        tokio::spawn(async move { archive.delete_unchanged(&read).await.unwrap() })
    });
    let deleted = join_all(tasks).await.into_iter().filter(|deleted| *deleted.as_ref().unwrap()).count();
    assert_eq!(deleted, 1);
}
