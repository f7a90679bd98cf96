//! A night on Lambda: the scheduled command begins it, and its turns go through the queue.

use ports::archive::ArchiveExt;
use ports::archive::erasure::ExpiryFact;
use ports::clock::{Clock, SystemClock, TimestampMs};
use ports::queue::QueueName;
use rules::history::proof::{last_night, night_done, night_key};
use rules::retention::{RetentionPeriod, RetentionRule};
use serde_json::json;
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, START_S, channel};
use tests::harness::binaries::binaries;
use tests::harness::command::{annalist_at, json_lines};
use tests::harness::environment::AwsInstallation;
use tests::harness::lambda::RunningFunction;
use tests::harness::lambda::poller::Poller;

use super::DEADLINE;

const TOKEN: &str = "xoxb-test";

/// The timestamp this number of minutes after the start of Slack's clock.
fn ts(minute: i64) -> String {
    format!("{}.000100", START_S - 86_400 + minute * 60)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_night_removes_what_has_expired_and_then_stores_what_is_missing() {
    let (installation, slack) = (AwsInstallation::new().await, FakeSlack::start().await);
    let mut workspace = FakeWorkspace::new("T1");
    workspace.channels = vec![channel("C1", "general"), channel("C2", "short")];
    for id in ["C1", "C2"] {
        let history = workspace.channel_history(id);
        (0..5).for_each(|minute| history.post(&event::message(&ts(minute), "U1", "said here")));
    }
    slack.set_workspace(TOKEN, workspace);
    let environment = installation.with_slack(&slack.url(), TOKEN);
    annalist_at(&environment, &["sync", "--no-join"]).await.succeeded();
    annalist_at(&environment, &["backfill", "short"]).await.succeeded();
    let rows = async |channel: &str| json_lines(&environment, &["messages", channel]).await.len();
    assert_eq!((rows("C1").await, rows("C2").await), (0, 5));

    // The rule is from before the night, and the last night was three days ago.
    let (archive, team, now) = (installation.aws.archive(), TeamId::parse("T1").unwrap(), SystemClock.now());
    let before = TimestampMs(now.0 - 3 * 86_400_000);
    let rule = RetentionRule {
        team: team.clone(),
        channel: Some(ChannelId::parse("C2").unwrap()),
        period: RetentionPeriod::Days(1),
        by: None,
        set_at: Ts::parse(&format!("{}.000000", before.seconds())).unwrap(),
    };
    for update in [rule.update(), night_done(&team, before)] {
        archive.write(&update).await.unwrap();
    }
    let variables = environment.with_variable("ANNALIST_BACKFILL", Some("all"));
    let keeper = RunningFunction::start(&binaries().worker("keeper"), &variables).await;
    let poll = json!({ "annalist": "dead-letters" });
    keeper.invoke(&poll, DEADLINE).await.unwrap();
    let turns = Poller::for_queue(&installation, QueueName::Nightly).await.poll_until_empty(&keeper).await;
    assert!(turns.iter().all(|turn| turn.failed.is_empty()) && !turns.is_empty(), "{turns:?}");

    assert_eq!((rows("C1").await, rows("C2").await), (5, 0));
    let fact = archive.get(&ExpiryFact::key(&team, rule.channel.as_ref())).await.unwrap();
    assert!(fact.is_some_and(|fact| fact.text("done").is_some()));
    let night = last_night(archive.get(&night_key(&team)).await.unwrap().as_ref()).unwrap();
    assert!(night > before && night <= now);
    let coverage = json_lines(&environment, &["coverage"]).await;
    assert!(coverage.iter().any(|channel| channel["verified"]["through"].is_string()), "{coverage:?}");

    // It is done: the next poll sends nothing.
    keeper.invoke(&poll, DEADLINE).await.unwrap();
    let status = json_lines(&environment, &["status"]).await;
    let queue =
        status[0]["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == "nightly").unwrap();
    assert_eq!((&queue["waiting"], &queue["in_flight"]), (&json!(0), &json!(0)), "{queue}");
}
