//! Slack keeps failing for one person and answers for all others.

use std::time::Duration;

use ports::clock::Clock;
use ports::queue::Delivery;
use ports::queue::waiting::WaitCause;
use serde_json::json;
use testkit::fake_slack::{person, refusal};
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{CHANNEL, ExistenceCheckFixture, TOKEN, TS, USER, aside, jobs, message, reason, waits};

/// A job as a replay from quarantine sends it.
fn replayed(fixture: &ExistenceCheckFixture, job: &Delivery) -> Delivery {
    let body = job.body.replacen('{', r#"{"origin":{"sent_at_ms":1,"message_id":"1"},"#, 1);
    Delivery { body, sent_at: fixture.clock.now(), ..job.clone() }
}

#[tokio::test]
async fn a_person_slack_fails_on_blocks_no_other_event_and_is_set_aside() {
    let fixture = ExistenceCheckFixture::new().await;
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.members.extend((0..20).map(|n| person(&format!("U1{n:03}"), "new")));
    });
    let bad = jobs(&[message(CHANNEL, USER, TS)]);
    let again = Delivery { receive_count: 5, ..bad[0].clone() };
    let fails = || fixture.slack.plan_answers("users.info", [refusal("internal_error")]);
    fails();
    // A failure that ends soon writes no row.
    assert!(matches!(fixture.writer.handle(&bad).await[0], JobOutcome::Retry(_)));
    for minute in 0..20 {
        let other = message("C0RANDOM", &format!("U1{minute:03}"), TS);
        assert_eq!(fixture.write(&[other]).await, [JobOutcome::Done], "minute {minute}");
        fixture.clock.advance(Duration::from_secs(61));
        fails();
        let outcomes = fixture.writer.handle(std::slice::from_ref(&again)).await;
        let (cause, why) = aside(&outcomes[0]);
        assert!(cause == WaitCause::Slack && why.contains("internal_error"), "{why}");
    }
    // Slack is called once a minute at most.
    let calls = fixture.slack.call_count("users.info");
    aside(&fixture.writer.handle(std::slice::from_ref(&again)).await[0]);
    assert_eq!(fixture.slack.call_count("users.info"), calls);
    // A job that is sent back asks at once.
    fixture.clock.advance(Duration::from_millis(1));
    assert_eq!(fixture.writer.handle(&[replayed(&fixture, &bad[0])]).await, [JobOutcome::Done]);
    assert_eq!(fixture.writer.handle(&bad).await, [JobOutcome::Done]);
}

#[tokio::test]
async fn a_method_that_fails_for_everybody_is_asked_rarely_while_others_answer() {
    let fixture = ExistenceCheckFixture::new().await;
    let people: Vec<String> = (0..12).map(|n| format!("U1{n:03}")).collect();
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.members.extend(people.iter().map(|id| person(id, "new")));
    });
    fixture.slack.refuse("users.info", json!({ "ok": false, "error": "internal_error" }));
    let mut set_aside = 0;
    for second in 0..60 {
        for (number, person) in people.iter().enumerate() {
            let channel = if number % 2 == 0 { CHANNEL } else { "C0RANDOM" };
            let outcomes = fixture.write(&[message(channel, person, TS)]).await;
            assert!(waits(&outcomes[0]), "second {second}: {outcomes:?}");
            set_aside += usize::from(matches!(outcomes[0], JobOutcome::Wait(WaitCause::Slack, _)));
        }
        fixture.clock.advance(Duration::from_secs(1));
    }
    // Each of the first three, and a probe after 2, 4, 8 and more seconds.
    let calls = fixture.slack.call_count("users.info");
    assert!(calls <= 10 && set_aside >= 600, "{calls} calls, {set_aside} set aside");
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
