//! Slack is slow, wants a pause, is out of reach, or talks nonsense: events wait, and none is quarantined.

use std::time::{Duration, Instant};

use ports::archive::Item;
use ports::clock::Clock;
use serde_json::json;
use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, SlackAnswer, refusal};
use workers::existence::waiting;
use workers::runtime::{JobOutcome, JobRetry};

use super::fixture::{CHANNEL, ExistenceCheckFixture, TS, USER, message, reason, waits};

const METHODS: [&str; 3] = ["team.info", "users.info", "conversations.info"];

/// Each of the next calls of every method answers this.
fn all_answer(slack: &FakeSlack, calls: usize, answer: &SlackAnswer) {
    for method in METHODS {
        slack.next(method, (0..calls).map(|_| answer.clone()));
    }
}

/// Why an event waits, and for how long.
fn wait(outcome: &JobOutcome) -> (&str, Duration) {
    match outcome {
        JobOutcome::Retry(JobRetry { reason, after: Some(after) }) => (reason.as_str(), *after),
        JobOutcome::Retry(_) | JobOutcome::Done | JobOutcome::Quarantine(_) => {
            panic!("{outcome:?} does not say until when")
        }
    }
}

#[tokio::test]
async fn a_pause_that_slack_wants_holds_up_only_those_it_is_about() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message("C0RANDOM", "U0BOB", TS)]).await, [JobOutcome::Done]);
    fixture.slack.next("users.info", [SlackAnswer::new(429).with_header("retry-after", "17")]);
    let began = Instant::now();
    let outcomes = fixture
        .write(&[
            message(CHANNEL, USER, TS),
            message("C0RANDOM", "U0BOB", "1700000001.000100"),
            message(CHANNEL, "U0BOB", "1700000002.000100"),
        ])
        .await;
    let (why, after) = wait(&outcomes[0]);
    assert!(why.contains("pause") && after == Duration::from_secs(17), "{outcomes:?}");
    assert_eq!(outcomes[1], JobOutcome::Done);
    // Behind it in its group nothing is written, known or not.
    assert!(waits(&outcomes[2]));
    let general = |row: &Item| row.key.item_id.starts_with("message#") && row.key.item_id.ends_with(CHANNEL);
    assert!(!fixture.rows().iter().any(general));
    // While the pause lasts Slack is left alone, and says how long it still is.
    let called = fixture.slack.called("users.info");
    let outcomes = fixture.write(&[message(CHANNEL, USER, TS)]).await;
    let (_, after) = wait(&outcomes[0]);
    assert!(after > Duration::from_secs(10) && after <= Duration::from_secs(17), "{after:?}");
    assert_eq!(fixture.slack.called("users.info"), called);
    assert!(began.elapsed() < Duration::from_secs(10), "a job waited for the pause");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_answer_holds_up_a_batch_for_a_moment_and_then_only_its_group() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message("C0RANDOM", "U0BOB", TS)]).await, [JobOutcome::Done]);
    let slow = SlackAnswer::new(503).after(Duration::from_secs(9));
    fixture.slack.next("users.info", [slow]);
    let began = Instant::now();
    let events = [message(CHANNEL, USER, TS), message("C0RANDOM", "U0BOB", "1700000001.000100")];
    let outcomes = fixture.write(&events).await;
    assert!(waits(&outcomes[0]), "{outcomes:?}");
    assert_eq!(outcomes[1], JobOutcome::Done);
    // A later question for the same answer does not wait as long again.
    let between = Instant::now();
    let again = fixture.write(&events).await;
    assert!(waits(&again[0]) && again[1] == JobOutcome::Done, "{again:?}");
    assert!(between.elapsed() < Duration::from_millis(1_500), "{:?}", between.elapsed());
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    assert_eq!(fixture.slack.called("users.info"), 2);
}

#[tokio::test]
async fn slack_out_of_reach_opens_the_breaker_which_says_so_and_closes_again() {
    let fixture = ExistenceCheckFixture::new().await;
    all_answer(&fixture.slack, 1, &SlackAnswer::new(503));
    let events = [message(CHANNEL, USER, TS)];
    assert!(waits(&fixture.write(&events).await[0]));
    let said = waiting(&*fixture.archive, fixture.clock.now()).await.unwrap();
    assert_eq!((said.len(), said[0].method.as_deref()), (1, None), "{said:?}");
    assert!(said[0].reason.contains("503"), "{said:?}");

    // Open: no call is made, and the wait says how long.
    let asked = fixture.asked();
    let outcomes = fixture.write(&events).await;
    assert_eq!(wait(&outcomes[0]).1, Duration::from_secs(2));
    assert_eq!(fixture.asked(), asked);

    // One probe, which fails: the wait doubles.
    all_answer(&fixture.slack, 1, &SlackAnswer::new(503));
    fixture.clock.advance(Duration::from_secs(2));
    assert!(waits(&fixture.write(&events).await[0]));
    assert_eq!(fixture.asked(), asked + 1);
    assert_eq!(wait(&fixture.write(&events).await[0]).1, Duration::from_secs(4));

    // A row of a process that has ended does not count for ever.
    let later = fixture.clock.now().plus(Duration::from_secs(60));
    assert_eq!(waiting(&*fixture.archive, later).await.unwrap(), []);

    // It answers again. What is left of the bad answers are two probes.
    let mut outcomes = Vec::new();
    for _ in 0..6 {
        fixture.clock.advance(Duration::from_secs(60));
        outcomes = fixture.write(&events).await;
        if outcomes == [JobOutcome::Done] {
            break;
        }
        assert!(waits(&outcomes[0]), "{outcomes:?}");
    }
    assert_eq!(outcomes, [JobOutcome::Done]);
    assert_eq!(waiting(&*fixture.archive, fixture.clock.now()).await.unwrap(), []);
    assert!(!fixture.archive.items().iter().any(|row| row.key.item_id == "meta#existence"));
}

#[tokio::test]
async fn nonsense_and_refused_tokens_quarantine_nothing() {
    for answer in [
        SlackAnswer::new(200).with_body("<html>sign in</html>"),
        SlackAnswer::new(200).with_body("[]"),
        SlackAnswer::json(&json!({ "ok": true })),
        SlackAnswer::json(&json!({ "ok": true, "team": 7, "user": [], "channel": "C" })),
        SlackAnswer::new(302).with_header("location", "https://example.com/"),
        refusal("invalid_auth"),
        refusal("token_revoked"),
        refusal("something_new"),
    ] {
        let fixture = ExistenceCheckFixture::new().await;
        all_answer(&fixture.slack, 1, &answer);
        let outcomes = fixture.write(&[message(CHANNEL, USER, TS)]).await;
        assert!(waits(&outcomes[0]), "{answer:?}: {outcomes:?}");
        assert_eq!(fixture.rows(), []);
    }
}

#[tokio::test]
async fn an_answer_about_another_person_confirms_no_person() {
    let fixture = ExistenceCheckFixture::new().await;
    let other = SlackAnswer::json(&json!({ "ok": true, "user": { "id": "U0BOB" } }));
    fixture.slack.next("users.info", [other]);
    let outcomes = fixture.write(&[message(CHANNEL, USER, TS)]).await;
    assert!(reason(&outcomes[0]).contains("another id"));
}

#[tokio::test]
async fn a_scope_that_is_missing_waits_and_is_named() {
    let fixture = ExistenceCheckFixture::new().await;
    fixture.slack.refuse(
        "users.info",
        json!({ "ok": false, "error": "missing_scope", "needed": "users:read", "provided": "" }),
    );
    let outcomes = fixture.write(&[message(CHANNEL, USER, TS)]).await;
    let (why, _) = wait(&outcomes[0]);
    assert!(why.contains("users:read") && why.contains("OAuth & Permissions"), "{why}");
    let said = waiting(&*fixture.archive, fixture.clock.now()).await.unwrap();
    assert_eq!(said[0].method.as_deref(), Some("users.info"));
    // What needs no person goes on.
    let emoji = event::emoji_added("party", "https://emoji.slack-edge.com/T1/party/1.png", TS);
    assert_eq!(fixture.write(&[emoji]).await, [JobOutcome::Done]);
}

#[tokio::test]
async fn while_slack_is_away_what_is_known_is_stored() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    all_answer(&fixture.slack, 9, &SlackAnswer::new(503));
    let events = [message(CHANNEL, USER, "1700000001.000100"), message("C0RANDOM", "U0BOB", TS)];
    let outcomes = fixture.write(&events).await;
    assert_eq!(outcomes[0], JobOutcome::Done);
    assert!(waits(&outcomes[1]));
}
