//! Rows by their keys.

use std::sync::Arc;

use futures_util::future::join_all;
use ports::clock::TimestampMs;
use ports::existence::{CacheKey, Verified};
use slack::ids::{ChannelId, TeamId, UserId};

use super::ExistenceFixture;

fn key(user: &str) -> CacheKey {
    let (team, channel) = (TeamId::parse("T01").unwrap(), ChannelId::parse("C01").unwrap());
    CacheKey::new(&team, &UserId::parse(user).unwrap(), &channel)
}

fn now(fixture: &ExistenceFixture) -> TimestampMs {
    fixture.clock.now()
}

fn row(fixture: &ExistenceFixture, age_s: i64) -> Verified {
    Verified::at(TimestampMs(now(fixture).0 - age_s * 1_000))
}

pub(super) async fn a_cache_is_ready(fixture: ExistenceFixture) {
    fixture.existence.ready().await.unwrap();
}

pub(super) async fn an_unknown_key_has_no_row(fixture: ExistenceFixture) {
    assert_eq!(fixture.existence.look_up(&[key("U01"), key("U02")]).await, Ok(vec![None, None]));
}

pub(super) async fn a_row_is_returned_as_it_was_stored(fixture: ExistenceFixture) {
    for row in [row(&fixture, 0), Verified { verified_at_s: None, ..row(&fixture, 7) }] {
        fixture.existence.remember(&[(key("U01"), row)]).await.unwrap();
        assert_eq!(fixture.existence.look_up(&[key("U01")]).await, Ok(vec![Some(row)]));
        assert!(row.valid_since(now(&fixture)).is_some());
    }
}

pub(super) async fn rows_come_in_the_order_of_the_keys(fixture: ExistenceFixture) {
    let (first, second) = (row(&fixture, 1), row(&fixture, 2));
    fixture.existence.remember(&[(key("U01"), first), (key("U02"), second)]).await.unwrap();
    let keys = [key("U02"), key("U03"), key("U01"), key("U02")];
    let found = fixture.existence.look_up(&keys).await;
    assert_eq!(found, Ok(vec![Some(second), None, Some(first), Some(second)]));
}

pub(super) async fn the_last_row_of_a_key_stays(fixture: ExistenceFixture) {
    let (older, newer) = (row(&fixture, 9), row(&fixture, 1));
    // Both within one call and in a later call.
    fixture.existence.remember(&[(key("U01"), newer), (key("U01"), older)]).await.unwrap();
    assert_eq!(fixture.existence.look_up(&[key("U01")]).await, Ok(vec![Some(older)]));
    fixture.existence.remember(&[(key("U01"), newer)]).await.unwrap();
    assert_eq!(fixture.existence.look_up(&[key("U01")]).await, Ok(vec![Some(newer)]));
}

pub(super) async fn keys_with_a_common_prefix_are_distinct(fixture: ExistenceFixture) {
    let team = |team: &str| TeamId::parse(team).unwrap();
    let (user, channel) = (UserId::parse("U01").unwrap(), ChannelId::parse("C01").unwrap());
    let longer = ChannelId::parse("C011").unwrap();
    fixture
        .existence
        .remember(&[(CacheKey::new(&team("T01"), &user, &channel), row(&fixture, 0))])
        .await
        .unwrap();
    let others = [
        CacheKey::new(&team("T01"), &user, &longer),
        CacheKey::new(&team("T02"), &user, &channel),
        key("U011"),
        key("U0"),
    ];
    assert_eq!(fixture.existence.look_up(&others).await, Ok(vec![None; others.len()]));
}

/// More than a batch of any backend.
const MANY: usize = 230;

pub(super) async fn hundreds_of_rows_come_back(fixture: ExistenceFixture) {
    let keys: Vec<CacheKey> = (0..MANY).map(|n| key(&format!("U{n:04}"))).collect();
    let age = |n: usize| row(&fixture, i64::try_from(n % 50).unwrap());
    let rows: Vec<(CacheKey, Verified)> =
        keys.iter().enumerate().map(|(n, key)| (key.clone(), age(n))).collect();
    fixture.existence.remember(&rows).await.unwrap();
    let found = fixture.existence.look_up(&keys).await.unwrap();
    for (n, (found, (key, kept))) in found.iter().zip(&rows).enumerate() {
        assert_eq!(found.as_ref(), Some(kept), "{n}: {key}");
    }
    assert_eq!(found.len(), MANY);
}

pub(super) async fn empty_batches_are_accepted(fixture: ExistenceFixture) {
    fixture.existence.remember(&[]).await.unwrap();
    assert_eq!(fixture.existence.look_up(&[]).await, Ok(Vec::new()));
}

pub(super) async fn an_expired_row_does_not_count_even_if_it_is_still_stored(fixture: ExistenceFixture) {
    fixture.existence.remember(&[(key("U01"), row(&fixture, 300))]).await.unwrap();
    // A later write may remove the expired row.
    fixture.existence.remember(&[(key("U02"), row(&fixture, 0))]).await.unwrap();
    let found = fixture.existence.look_up(&[key("U01"), key("U02")]).await.unwrap();
    let counts = |found: &Option<Verified>| found.and_then(|row| row.valid_since(now(&fixture))).is_some();
    assert_eq!(found.iter().map(counts).collect::<Vec<_>>(), [false, true], "{found:?}");
}

pub(super) async fn one_of_many_writers_wins(fixture: ExistenceFixture) {
    let rows: Vec<Verified> = (0..16).map(|n| row(&fixture, n)).collect();
    let writing = rows.iter().map(|row| {
        let (existence, row) = (Arc::clone(&fixture.existence), *row);
        tokio::spawn(async move { existence.remember(&[(key("U01"), row)]).await })
    });
    for written in join_all(writing).await {
        written.unwrap().unwrap();
    }
    let found = fixture.existence.look_up(&[key("U01")]).await.unwrap().pop().flatten().unwrap();
    assert!(rows.contains(&found), "{found:?}");
}
