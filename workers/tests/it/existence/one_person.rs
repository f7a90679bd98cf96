//! Slack keeps failing for one person and answers for all others.

use std::time::Duration;

use ports::clock::Clock;
use ports::queue::Delivery;
use testkit::fake_slack::{person, refusal};
use workers::existence::read_waiting;
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{CHANNEL, ExistenceCheckFixture, TOKEN, TS, USER, jobs, message, reason, waits};

/// A job as a replay from quarantine sends it.
fn replayed(fixture: &ExistenceCheckFixture, job: &Delivery) -> Delivery {
    let body = job.body.replacen('{', r#"{"origin":{"sent_at_ms":1,"message_id":"1"},"#, 1);
    Delivery { body, sent_at: fixture.clock.now(), ..job.clone() }
}

#[tokio::test]
async fn a_person_slack_fails_on_blocks_no_other_event_and_is_quarantined_after_ten_minutes() {
    let fixture = ExistenceCheckFixture::new().await;
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.members.extend((0..20).map(|n| person(&format!("U1{n:03}"), "new")));
    });
    assert_eq!(fixture.write(&[message(CHANNEL, "U0BOB", TS)]).await, [JobOutcome::Done]);
    let bad = jobs(&[message(CHANNEL, USER, TS)]);
    let fails = || fixture.slack.plan_answers("users.info", [refusal("internal_error")]);
    for _ in 0..5 {
        fails();
        assert!(waits(&fixture.writer.handle(&bad).await[0]));
        fixture.clock.advance(Duration::from_secs(2));
    }
    for minute in 0..20 {
        let other = message("C0RANDOM", &format!("U1{minute:03}"), TS);
        assert_eq!(fixture.write(&[other]).await, [JobOutcome::Done], "minute {minute}");
        let breakers = read_waiting(&*fixture.archive, fixture.clock.now()).await.unwrap();
        assert_eq!(breakers, [], "minute {minute}");
        fixture.clock.advance(Duration::from_secs(61));
        fails();
        let outcome = fixture.writer.handle(&bad).await.remove(0);
        if minute < 9 {
            assert!(waits(&outcome), "minute {minute}: {outcome:?}");
        } else {
            let why = reason(&outcome);
            assert!(
                why.contains("could not say") && why.contains(USER) && why.contains("internal_error"),
                "{why}"
            );
            break;
        }
    }
    // Later deliveries are quarantined at once, and Slack is called once a minute at most.
    let calls = fixture.slack.call_count("users.info");
    reason(&fixture.writer.handle(&bad).await[0]);
    assert_eq!(fixture.slack.call_count("users.info"), calls);
    // A replayed job is checked at once.
    fixture.clock.advance(Duration::from_millis(1));
    assert_eq!(fixture.writer.handle(&[replayed(&fixture, &bad[0])]).await, [JobOutcome::Done]);
    assert_eq!(fixture.writer.handle(&bad).await, [JobOutcome::Done]);
}

#[tokio::test]
async fn while_slack_fails_on_everything_nothing_is_quarantined() {
    let fixture = ExistenceCheckFixture::new().await;
    fixture.slack.set_unavailable(true);
    for minute in 0..30 {
        let outcomes = fixture.write(&[message(CHANNEL, USER, TS)]).await;
        assert!(waits(&outcomes[0]), "minute {minute}: {outcomes:?}");
        fixture.clock.advance(Duration::from_secs(61));
    }
    fixture.slack.set_unavailable(false);
    // One probe, then everything.
    assert!(waits(&fixture.write(&[message(CHANNEL, USER, TS)]).await[0]));
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
}

#[tokio::test]
async fn a_replayed_job_ignores_a_remembered_absence() {
    let fixture = ExistenceCheckFixture::new().await;
    let early = jobs(&[message(CHANNEL, "U0EARLY", TS)]);
    reason(&fixture.writer.handle(&early).await[0]);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.members.push(person("U0EARLY", "early")));
    fixture.clock.advance(Duration::from_millis(1));
    reason(&fixture.writer.handle(&early).await[0]);
    assert_eq!(fixture.writer.handle(&[replayed(&fixture, &early[0])]).await, [JobOutcome::Done]);
}
