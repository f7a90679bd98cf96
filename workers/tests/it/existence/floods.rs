//! An attacker with the signing secret invents hundreds of people in one channel.

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

#[tokio::test(flavor = "multi_thread")]
async fn a_message_behind_four_hundred_invented_people_is_stored_within_a_few_calls() {
    let fixture = ExistenceCheckFixture::new().await;
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
    assert!(reason(&outcomes[399]).contains("replay"), "{:?}", outcomes[399]);
    let called = ["users.info", "users.list"].map(|method| fixture.slack.call_count(method));
    assert!(called[0] < 60 && called[1] < 5, "{called:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_in_a_workspace_that_is_too_large_to_list_does_not_block_its_channel() {
    let fixture = ExistenceCheckFixture::new().await;
    // More than the ten pages that the check reads.
    fixture.slack.set_page_size(10);
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.members.extend((0..200).map(|n| person(&format!("U1{n:03}"), "many")));
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
    // Later messages of the channel. A person beyond the listed pages and without a row may be invented too.
    let others = ["U0BOB", "UZKNOWN", "UZLATE", USER];
    let others = others
        .iter()
        .zip(1..)
        .map(|(user, n)| message(CHANNEL, user, &format!("{}.000100", 1_700_000_001 + n)));
    let others: Vec<Value> = others.collect();
    let outcomes = drain(&fixture, &jobs(&others)).await;
    assert_eq!(outcomes.len(), 4, "the rest waits");
    assert_eq!([&outcomes[0], &outcomes[1], &outcomes[3]], [&JobOutcome::Done; 3]);
    let why = reason(&outcomes[2]);
    assert!(why.contains("could not say") && why.contains("UZLATE") && why.contains("Replay"), "{why}");
    let called = ["users.info", "users.list"].map(|method| fixture.slack.call_count(method));
    assert!(called[0] < 60 && called[1] <= 20, "{called:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_whom_a_list_of_several_pages_lacks_is_not_taken_for_invented() {
    let fixture = ExistenceCheckFixture::new().await;
    // The list changes between its pages: each but the first one skips an entry.
    fixture.slack.set_page_size(10);
    fixture.slack.with_state(|state| state.skip_entries(true));
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.members.extend((0..12).map(|n| person(&format!("U1{n:03}"), "many")));
    });
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    let invented: Vec<Value> =
        (0..200).map(|n| message(CHANNEL, &format!("U9{n:03}"), &format!("1700000001.{n:06}"))).collect();
    drain(&fixture, &jobs(&invented)).await;
    let real: Vec<Value> = (0..12)
        .map(|n| message(CHANNEL, &format!("U1{n:03}"), &format!("{}.000100", 1_700_000_002 + n)))
        .collect();
    let outcomes = drain(&fixture, &jobs(&real)).await;
    let (done, others): (Vec<_>, Vec<_>) = outcomes.iter().partition(|outcome| **outcome == JobOutcome::Done);
    let found = done.len();
    let unasked = others.into_iter().filter(|outcome| reason(outcome).contains("could not say")).count();
    assert!(found >= 10 && unasked >= 1 && found + unasked == 12, "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_flood_invented_bots_are_quarantined_without_asking_slack() {
    let fixture = ExistenceCheckFixture::new().await;
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
