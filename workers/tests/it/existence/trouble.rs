//! Slack is slow, asks for a pause, is unreachable, or returns garbage: events wait and are not quarantined.

use std::time::{Duration, Instant};

use ports::archive::Item;
use ports::queue::waiting::WaitCause;
use serde_json::json;
use testkit::corpus::event;
use testkit::fake_slack::{self, FakeSlack, SlackAnswer, refusal};
use workers::runtime::{JobOutcome, JobRetry};

use super::fixture::{CHANNEL, ExistenceCheckFixture, TOKEN, TS, USER, aside, message, reason, waits};

const METHODS: [&str; 3] = ["team.info", "users.info", "conversations.info"];

/// Makes the next calls of every method return this response.
fn all_answer(slack: &FakeSlack, calls: usize, answer: &SlackAnswer) {
    for method in METHODS {
        slack.plan_answers(method, (0..calls).map(|_| answer.clone()));
    }
}

/// Why an event waits, and for how long.
fn wait(outcome: &JobOutcome) -> (&str, Duration) {
    match outcome {
        JobOutcome::Retry(JobRetry { reason, after: Some(after) }) => (reason.as_str(), *after),
        JobOutcome::Retry(_) | JobOutcome::Wait(..) | JobOutcome::Done | JobOutcome::Quarantine(_) => {
            panic!("{outcome:?} does not say until when")
        }
    }
}

#[tokio::test]
async fn a_pause_that_slack_asks_for_delays_only_the_events_that_need_a_call() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message("C0RANDOM", "U0BOB", TS)]).await, [JobOutcome::Done]);
    fixture.slack.plan_answers("users.info", [SlackAnswer::new(429).with_header("retry-after", "17")]);
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
    // No later event of its group is written, even if its entities are known.
    assert!(waits(&outcomes[2]));
    let general = |row: &Item| row.key.item_id.starts_with("message#") && row.key.item_id.ends_with(CHANNEL);
    assert!(!fixture.rows().iter().any(general));
    // During the pause, Slack is not called, and the outcome has the remaining time.
    let called = fixture.slack.call_count("users.info");
    let outcomes = fixture.write(&[message(CHANNEL, USER, TS)]).await;
    let (_, after) = wait(&outcomes[0]);
    assert!(after > Duration::from_secs(10) && after <= Duration::from_secs(17), "{after:?}");
    assert_eq!(fixture.slack.call_count("users.info"), called);
    assert!(began.elapsed() < Duration::from_secs(10), "a job waited for the pause");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_response_delays_a_batch_briefly_and_then_only_its_group() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message("C0RANDOM", "U0BOB", TS)]).await, [JobOutcome::Done]);
    let slow = SlackAnswer::new(503).with_delay(Duration::from_secs(9));
    fixture.slack.plan_answers("users.info", [slow]);
    let began = Instant::now();
    let events = [message(CHANNEL, USER, TS), message("C0RANDOM", "U0BOB", "1700000001.000100")];
    let outcomes = fixture.write(&events).await;
    assert!(waits(&outcomes[0]), "{outcomes:?}");
    assert_eq!(outcomes[1], JobOutcome::Done);
    // A later batch that needs the same response does not wait as long again.
    let between = Instant::now();
    let again = fixture.write(&events).await;
    assert!(waits(&again[0]) && again[1] == JobOutcome::Done, "{again:?}");
    assert!(between.elapsed() < Duration::from_millis(1_500), "{:?}", between.elapsed());
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    assert_eq!(fixture.slack.call_count("users.info"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_hardly_waits_for_a_question_that_has_failed() {
    let fixture = ExistenceCheckFixture::in_memory();
    assert_eq!(fixture.write(&[message("C0RANDOM", "U0BOB", TS)]).await, [JobOutcome::Done]);
    let events = [message(CHANNEL, USER, TS), message("C0RANDOM", "U0BOB", "1700000001.000100")];
    let slow = SlackAnswer::new(503).with_delay(Duration::from_secs(9));
    let mut took = Vec::new();
    for answer in [slow.clone(), refusal("internal_error"), slow] {
        fixture.slack.plan_answers("users.info", [answer]);
        let began = tokio::time::Instant::now();
        let outcomes = fixture.write(&events).await;
        assert!(waits(&outcomes[0]) && outcomes[1] == JobOutcome::Done, "{outcomes:?}");
        took.push(began.elapsed().as_millis());
        // Until the question is answered, and its failure is over.
        for _ in 0..60 {
            tokio::time::advance(Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
        }
        fixture.clock.advance(Duration::from_secs(61));
    }
    assert!(took[0] >= 1_500 && took[2] < 500, "{took:?}");
}

#[tokio::test]
async fn what_would_be_dropped_waits_behind_an_event_that_its_batch_sets_aside() {
    let fixture = ExistenceCheckFixture::new().await;
    all_answer(&fixture.slack, 1, &refusal("token_revoked"));
    // The message shows that the channel was public: what follows in it is kept.
    let private =
        event::with_fields(message("C0NEW", USER, "1700000009.000100"), [("channel_type", "group".into())]);
    let outcomes = fixture.write(&[message("C0NEW", USER, TS), private]).await;
    let causes: Vec<WaitCause> = outcomes.iter().map(|outcome| aside(outcome).0).collect();
    assert_eq!(causes, [WaitCause::Token, WaitCause::Order]);
}

#[tokio::test]
async fn a_channel_that_became_private_during_an_outage_is_quarantined_and_the_reason_says_both_causes() {
    let fixture = ExistenceCheckFixture::new().await;
    all_answer(&fixture.slack, 1, &refusal("token_revoked"));
    let private =
        |ts: &str| event::with_fields(message("C0NEW", USER, ts), [("channel_type", "group".into())]);
    let converted =
        event::with_fields(private("1700000008.000100"), [("subtype", "channel_convert_to_private".into())]);
    let events = [message("C0NEW", USER, TS), converted, private("1700000009.000100")];
    assert!(fixture.write(&events).await.iter().all(waits));
    let object = event::with_fields(fake_slack::channel("C0NEW", "new"), [("is_private", true.into())]);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels.push(object));
    // One probe after each wait, until Slack accepts the token.
    let mut outcomes = Vec::new();
    for _ in 0..6 {
        fixture.clock.advance(Duration::from_secs(600));
        outcomes = fixture.write(&events).await;
        if !waits(&outcomes[0]) {
            break;
        }
    }
    for outcome in &outcomes[..2] {
        let why = reason(outcome);
        assert!(why.contains("C0NEW") && why.contains("as private") && !why.contains('\n'), "{why}");
        for cause in ["while Slack could not be asked", "forged", "--existence-check off", "signing secret"] {
            assert!(why.contains(cause), "{cause}: {why}");
        }
    }
    assert_eq!(outcomes[2], JobOutcome::Done, "dropped");
    assert_eq!(fixture.rows(), []);
}

#[tokio::test]
async fn a_refused_token_opens_the_breaker_at_once_and_it_closes_again() {
    let fixture = ExistenceCheckFixture::new().await;
    all_answer(&fixture.slack, 1, &refusal("token_revoked"));
    let events = [message(CHANNEL, USER, TS)];
    let outcomes = fixture.write(&events).await;
    let (cause, why) = aside(&outcomes[0]);
    assert!(cause == WaitCause::Token && why.contains("token_revoked"), "{why}");

    // While the breaker is open, no call is made.
    let calls = fixture.lookup_calls();
    assert_eq!(aside(&fixture.write(&events).await[0]).0, WaitCause::Token);
    assert_eq!(fixture.lookup_calls(), calls);

    // One probe for each wait, which doubles if it fails. Then Slack accepts the token.
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
}

#[tokio::test]
async fn garbage_responses_and_refused_tokens_quarantine_no_event() {
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
async fn a_response_about_another_person_confirms_no_one() {
    let fixture = ExistenceCheckFixture::new().await;
    let other = SlackAnswer::json(&json!({ "ok": true, "user": { "id": "U0BOB" } }));
    fixture.slack.plan_answers("users.info", [other]);
    let outcomes = fixture.write(&[message(CHANNEL, USER, TS)]).await;
    assert!(reason(&outcomes[0]).contains("another id"));
}

#[tokio::test]
async fn a_missing_scope_makes_events_wait_and_is_named_in_the_reason() {
    let fixture = ExistenceCheckFixture::new().await;
    fixture.slack.refuse(
        "users.info",
        json!({ "ok": false, "error": "missing_scope", "needed": "users:read", "provided": "" }),
    );
    let outcomes = fixture.write(&[message(CHANNEL, USER, TS)]).await;
    let (cause, why) = aside(&outcomes[0]);
    assert!(why.contains("users:read") && why.contains("OAuth & Permissions"), "{why}");
    assert_eq!(cause, WaitCause::Scope);
    // Events without a person continue.
    let emoji = event::emoji_added("party", "https://emoji.slack-edge.com/T1/party/1.png", TS);
    assert_eq!(fixture.write(&[emoji]).await, [JobOutcome::Done]);
}

#[tokio::test]
async fn events_of_known_entities_are_stored_while_slack_is_unreachable() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    all_answer(&fixture.slack, 9, &SlackAnswer::new(503));
    let events = [message(CHANNEL, USER, "1700000001.000100"), message("C0RANDOM", "U0BOB", TS)];
    let outcomes = fixture.write(&events).await;
    assert_eq!(outcomes[0], JobOutcome::Done);
    assert!(waits(&outcomes[1]));
}
