//! Events that do not say who may read their channel: Slack is asked.

use std::time::Duration;

use ports::queue::{Delivery, QueueName};
use serde_json::Value;
use testkit::corpus::{TEAM, event};
use testkit::deliveries::received;
use testkit::fake_slack::channel;
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{CHANNEL, ExistenceCheckFixture, TOKEN, TS, USER, message, reason, waits};

fn reaction(channel: &str) -> Value {
    event::reaction_added(channel, TS, USER, "eyes", "1700000003.000000")
}

/// What waits beside its channel.
async fn parked(fixture: &ExistenceCheckFixture) -> Vec<Delivery> {
    received(&*fixture.queue, QueueName::Events).await
}

fn has_message(fixture: &ExistenceCheckFixture, channel: &str) -> bool {
    fixture.rows().iter().any(|row| row.key.item_id == format!("message#{TEAM}#{channel}"))
}

#[tokio::test]
async fn a_reaction_is_stored_where_slack_shows_the_channel_as_public_and_dropped_where_it_is_private() {
    let fixture = ExistenceCheckFixture::new().await;
    let secret = event::with(channel("C0SECRET", "secret"), [("is_private", true.into())]);
    fixture.slack.change(TOKEN, |workspace| workspace.channels.push(secret));
    let outcomes = fixture.write(&[reaction(CHANNEL), reaction("C0SECRET"), reaction("C0NOWHERE")]).await;
    assert_eq!(outcomes[..2], [JobOutcome::Done, JobOutcome::Done]);
    assert!(reason(&outcomes[2]).contains("channel C0NOWHERE"), "{outcomes:?}");
    assert!(has_message(&fixture, CHANNEL) && !has_message(&fixture, "C0SECRET"));
    assert!(parked(&fixture).await.is_empty());
    // In a channel that Slack shows as private, another one costs no question.
    let asked = fixture.asked();
    assert_eq!(fixture.write(&[reaction("C0SECRET")]).await, [JobOutcome::Done]);
    assert_eq!(fixture.asked(), asked);
}

#[tokio::test]
async fn while_slack_is_away_a_reaction_waits_beside_its_channel_for_as_long_as_it_takes() {
    let fixture = ExistenceCheckFixture::new().await;
    fixture.slack.away(true);
    assert_eq!(fixture.write(&[reaction(CHANNEL)]).await, [JobOutcome::Done]);
    let parked_jobs = parked(&fixture).await;
    assert_eq!(parked_jobs.len(), 1);
    fixture.clock.advance(Duration::from_secs(3_600));
    assert!(waits(&fixture.writer.handle(&parked_jobs).await[0]));
    fixture.slack.away(false);
    fixture.clock.advance(Duration::from_secs(61));
    let mut outcomes = Vec::new();
    for _ in 0..5 {
        outcomes = fixture.writer.handle(&parked_jobs).await;
    }
    assert_eq!(outcomes, [JobOutcome::Done]);
    assert!(has_message(&fixture, CHANNEL));
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
}
