//! Events that do not contain their channel's visibility: the check calls Slack.

use std::time::Duration;

use ports::queue::{Delivery, QueueName};
use serde_json::Value;
use testkit::corpus::{TEAM, event};
use testkit::deliveries::receive_visible;
use testkit::fake_slack::channel;
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{CHANNEL, ExistenceCheckFixture, TOKEN, TS, USER, message, reason, waits};

fn reaction(channel: &str) -> Value {
    event::reaction_added(channel, TS, USER, "eyes", "1700000003.000000")
}

/// Jobs that wait outside their channel's message group.
async fn parked(fixture: &ExistenceCheckFixture) -> Vec<Delivery> {
    receive_visible(&*fixture.queue, QueueName::Events).await
}

fn has_message(fixture: &ExistenceCheckFixture, channel: &str) -> bool {
    fixture.rows().iter().any(|row| row.key.item_id == format!("message#{TEAM}#{channel}"))
}

#[tokio::test]
async fn a_reaction_is_stored_if_slack_shows_the_channel_as_public_and_dropped_if_it_is_private() {
    let fixture = ExistenceCheckFixture::new().await;
    let secret = event::with_fields(channel("C0SECRET", "secret"), [("is_private", true.into())]);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels.push(secret));
    let outcomes = fixture.write(&[reaction(CHANNEL), reaction("C0SECRET"), reaction("C0NOWHERE")]).await;
    assert_eq!(outcomes[..2], [JobOutcome::Done, JobOutcome::Done]);
    assert!(reason(&outcomes[2]).contains("channel C0NOWHERE"), "{outcomes:?}");
    assert!(has_message(&fixture, CHANNEL) && !has_message(&fixture, "C0SECRET"));
    assert!(parked(&fixture).await.is_empty());
    // A second reaction in a channel known to be private costs no call.
    let calls = fixture.lookup_calls();
    assert_eq!(fixture.write(&[reaction("C0SECRET")]).await, [JobOutcome::Done]);
    assert_eq!(fixture.lookup_calls(), calls);
}

#[tokio::test]
async fn a_reaction_waits_outside_its_message_group_until_slack_is_reachable() {
    let fixture = ExistenceCheckFixture::new().await;
    fixture.slack.set_unavailable(true);
    assert_eq!(fixture.write(&[reaction(CHANNEL)]).await, [JobOutcome::Done]);
    let parked_jobs = parked(&fixture).await;
    assert_eq!(parked_jobs.len(), 1);
    fixture.clock.advance(Duration::from_secs(3_600));
    assert!(waits(&fixture.writer.handle(&parked_jobs).await[0]));
    fixture.slack.set_unavailable(false);
    fixture.clock.advance(Duration::from_secs(61));
    let mut outcomes = Vec::new();
    for _ in 0..5 {
        outcomes = fixture.writer.handle(&parked_jobs).await;
    }
    assert_eq!(outcomes, [JobOutcome::Done]);
    assert!(has_message(&fixture, CHANNEL));
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
}
