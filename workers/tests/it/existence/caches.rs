//! How the process cache and the shared cache reduce calls to Slack.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ports::clock::Clock;
use ports::existence::{CacheKey, Existence, Verified};
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, UserId};
use testkit::corpus::TEAM;
use workers::directory::DirectorySync;
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{CHANNEL, ExistenceCheckFixture, TS, USER, jobs, message};

fn triple(user: &str, channel: &str) -> CacheKey {
    CacheKey::new(
        &TeamId::parse(TEAM).unwrap(),
        &UserId::parse(user).unwrap(),
        &ChannelId::parse(channel).unwrap(),
    )
}

fn ts(n: usize) -> String {
    format!("1700000000.{n:06}")
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_batches_of_an_unknown_person_call_slack_once() {
    let fixture = ExistenceCheckFixture::new().await;
    let batches = (0..40).map(|n| {
        let jobs = jobs(&[message(CHANNEL, USER, &ts(n)), message("C0RANDOM", USER, &ts(n))]);
        let writer = &fixture.writer;
        async move { writer.handle(&jobs).await }
    });
    for outcomes in join_all(batches).await {
        assert_eq!(outcomes, [JobOutcome::Done, JobOutcome::Done]);
    }
    let called =
        ["team.info", "users.info", "conversations.info"].map(|method| fixture.slack.call_count(method));
    assert_eq!(called, [1, 1, 2]);
}

#[tokio::test]
async fn under_load_slack_is_called_once_in_five_minutes_for_each_id() {
    let fixture = ExistenceCheckFixture::new().await;
    // Twenty-five minutes, an event of each person in each channel every ten seconds.
    for n in 0..150 {
        let events: Vec<Value> =
            [(CHANNEL, USER), (CHANNEL, "U0BOB"), ("C0RANDOM", USER), ("C0RANDOM", "U0BOB")]
                .iter()
                .map(|(channel, user)| message(channel, user, &ts(n)))
                .collect();
        assert_eq!(fixture.write(&events).await, vec![JobOutcome::Done; 4], "round {n}");
        fixture.clock.advance(Duration::from_secs(10));
    }
    let called =
        ["team.info", "users.info", "conversations.info"].map(|method| fixture.slack.call_count(method));
    assert_eq!(called, [5, 10, 10], "5 windows, of 1 workspace, 2 people, 2 channels");
}

#[tokio::test]
async fn another_process_reads_the_triple_from_the_shared_cache() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    let now_s = fixture.clock.now().seconds();
    let row = Verified { ttl_s: now_s + 300, verified_at_s: Some(now_s) };
    assert_eq!(fixture.table.rows().into_iter().collect::<Vec<_>>(), [(triple(USER, CHANNEL), row)]);
    let asked = fixture.lookup_calls();
    fixture.clock.advance(Duration::from_secs(299));
    let outcomes = fixture.another().handle(&jobs(&[message(CHANNEL, USER, "1700000001.000100")])).await;
    assert_eq!((outcomes, fixture.lookup_calls()), (vec![JobOutcome::Done], asked));
}

#[tokio::test]
async fn an_expired_row_does_not_count_although_it_is_still_there() {
    let fixture = ExistenceCheckFixture::new().await;
    // Two people unknown to Slack, confirmed 300 and 299 seconds ago.
    let at = |age_s: i64| Verified::at(ports::clock::TimestampMs(fixture.clock.now().0 - age_s * 1_000));
    fixture.table.remember(&[(triple("U0GONE", CHANNEL), at(300))]).await.unwrap();
    let outcomes = fixture.write(&[message(CHANNEL, "U0GONE", TS)]).await;
    assert!(matches!(&outcomes[0], JobOutcome::Quarantine(why) if why.contains("U0GONE")), "{outcomes:?}");
    assert_eq!(fixture.table.rows().len(), 1, "it is still there");

    fixture.table.remember(&[(triple("U0LATER", CHANNEL), at(299))]).await.unwrap();
    assert_eq!(fixture.write(&[message(CHANNEL, "U0LATER", TS)]).await, [JobOutcome::Done]);
    // The confirmation expires with its row, in this process as well.
    fixture.clock.advance(Duration::from_secs(1));
    let outcomes = fixture.write(&[message(CHANNEL, "U0LATER", TS)]).await;
    assert!(matches!(&outcomes[0], JobOutcome::Quarantine(_)), "{outcomes:?}");
}

#[tokio::test]
async fn a_cache_that_fails_is_a_miss_and_no_reason_to_wait() {
    let fixture = ExistenceCheckFixture::new().await;
    fixture.table.fail(true);
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    assert_eq!((fixture.lookup_calls(), fixture.table.looked_up()), (3, 1));
    // The process does not read the shared cache for ids in its own cache.
    assert_eq!(fixture.write(&[message(CHANNEL, USER, "1700000001.000100")]).await, [JobOutcome::Done]);
    assert_eq!((fixture.lookup_calls(), fixture.table.looked_up()), (3, 1));
}

#[tokio::test]
async fn ids_from_the_directory_sync_need_no_call() {
    let fixture = ExistenceCheckFixture::new().await;
    let sync = DirectorySync::new(Arc::clone(&fixture.api), fixture.archive.clone(), fixture.queue.clone())
        .with_known_entities(fixture.check.known());
    let report = sync.sync(&TeamId::parse(TEAM).unwrap()).await;
    assert!(report.failure.is_none(), "{report:?}");
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    assert_eq!((fixture.lookup_calls(), fixture.table.looked_up()), (0, 0));
    fixture.clock.advance(Duration::from_secs(300));
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    assert_eq!(fixture.lookup_calls(), 3);
}
