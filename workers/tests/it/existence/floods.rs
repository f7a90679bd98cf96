//! An attacker with the signing secret invents hundreds of people in one channel. Uses virtual time.

use std::time::Duration;

use ports::queue::Delivery;
use serde_json::Value;
use testkit::corpus::event;
use testkit::fake_slack::person;
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{CHANNEL, ExistenceCheckFixture, TOKEN, TS, USER, jobs, message, reason, waits};

/// Handles the events of one channel as the runtime does: first as one batch, then one by one up to the first
/// that fails. No time passes between the rounds.
async fn drain(fixture: &ExistenceCheckFixture, jobs: &[Delivery]) -> Vec<JobOutcome> {
    let mut settled = fixture.writer.handle(jobs).await;
    settled.truncate(settled.iter().position(waits).unwrap_or(jobs.len()));
    for _ in 0..20 {
        while let Some(job) = jobs.get(settled.len()) {
            let outcome = fixture.writer.handle(std::slice::from_ref(job)).await.remove(0);
            if waits(&outcome) {
                break;
            }
            settled.push(outcome);
        }
    }
    settled
}

#[tokio::test(start_paused = true)]
async fn a_message_behind_four_hundred_invented_people_is_stored_within_a_few_calls() {
    let fixture = ExistenceCheckFixture::in_memory();
    fixture.clock.advance(Duration::from_secs(60));
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    let mut events: Vec<Value> =
        (0..400).map(|n| message(CHANNEL, &format!("U9{n:03}"), &format!("1700000001.{n:06}"))).collect();
    events.push(message(CHANNEL, USER, "1700000002.000100"));
    // Among them is a new, real person.
    events.insert(200, message(CHANNEL, "U0BOB", "1700000001.500000"));
    let jobs = jobs(&events);
    let outcomes = drain(&fixture, &jobs).await;
    assert_eq!(outcomes.len(), 402, "the rest waits");
    let done: Vec<usize> = (0..402).filter(|index| outcomes[*index] == JobOutcome::Done).collect();
    assert_eq!(done, [200, 401]);
    assert!(reason(&outcomes[399]).contains("Replay this job later"), "{:?}", outcomes[399]);
    let calls = fixture.slack.call_count("users.info");
    assert!(calls < 60, "{calls}");
}

#[tokio::test(start_paused = true)]
async fn in_a_flood_slack_is_asked_about_people_whom_the_archive_knows_and_later_about_all() {
    let fixture = ExistenceCheckFixture::in_memory();
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.members.extend(["UZKNOWN", "UZLATE"].map(|id| person(id, "last")));
    });
    let known = [message(CHANNEL, USER, TS), event::user_change("UZKNOWN", "known", TS)];
    assert_eq!(fixture.write(&known).await, [JobOutcome::Done, JobOutcome::Done]);
    // Long enough for all confirmations to expire.
    fixture.clock.advance(Duration::from_secs(301));
    let invented: Vec<Value> =
        (0..400).map(|n| message(CHANNEL, &format!("U9{n:03}"), &format!("1700000001.{n:06}"))).collect();
    let outcomes = drain(&fixture, &jobs(&invented)).await;
    assert_eq!(outcomes.len(), 400, "the rest waits");
    let unasked = outcomes.iter().filter(|outcome| reason(outcome).contains("could not say")).count();
    assert!(unasked > 300, "{unasked}");
    // Later messages of the channel. A person without a row may be invented too.
    let other = |(user, n): (&str, usize)| message(CHANNEL, user, &format!("170000000{n}.000100"));
    let others: Vec<Value> = ["U0BOB", "UZKNOWN", "UZLATE"].into_iter().zip(2..).map(other).collect();
    let outcomes = drain(&fixture, &jobs(&others)).await;
    assert_eq!(outcomes.len(), 3, "the rest waits");
    assert_eq!(outcomes[1], JobOutcome::Done);
    for (outcome, person) in [(&outcomes[0], "U0BOB"), (&outcomes[2], "UZLATE")] {
        let why = reason(outcome);
        assert!(why.contains("could not say") && why.contains(person) && why.contains("Replay"), "{why}");
    }
    let calls = fixture.slack.call_count("users.info");
    assert!(calls < 60, "{calls}");
    // Some seconds later, Slack is asked again.
    fixture.clock.advance(Duration::from_secs(3));
    assert_eq!(fixture.write(&[message(CHANNEL, "UZLATE", "1700000009.000100")]).await, [JobOutcome::Done]);
}

#[tokio::test(start_paused = true)]
async fn in_a_flood_invented_bots_are_quarantined_without_asking_slack() {
    let fixture = ExistenceCheckFixture::in_memory();
    fixture.clock.advance(Duration::from_secs(60));
    let bot = |id: &str, n: usize| {
        event::posted(CHANNEL, &event::bot_message(&format!("1700000001.{n:06}"), id, "bot", "hi"))
    };
    assert_eq!(fixture.write(&[bot("B0DEPLOY", 900)]).await, [JobOutcome::Done]);
    let mut events: Vec<Value> = (0..200).map(|n| bot(&format!("B9{n:03}"), n)).collect();
    events.push(bot("B0DEPLOY", 901));
    let outcomes = drain(&fixture, &jobs(&events)).await;
    assert_eq!(outcomes.len(), 201, "the rest waits");
    assert_eq!(outcomes[200], JobOutcome::Done);
    assert!(reason(&outcomes[199]).contains("Replay"), "{:?}", outcomes[199]);
    assert!(fixture.slack.call_count("bots.info") < 60);
}
