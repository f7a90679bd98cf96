//! The channels that the app joins, and failures of a join.

use ports::archive::key;
use reader::history;
use serde_json::json;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, START_S, SlackAnswer, channel, one_token, refusal};
use tokio::sync::watch;
use tokio::time::timeout;
use workers::directory::Joiner;
use workers::directory::joins::{self, RetryLimit};

use super::fixture::{DEADLINE, DirectoryFixture, TOKEN, id, team, ts};

#[tokio::test]
async fn public_channels_are_joined_and_a_new_one_too() {
    let fixture = DirectoryFixture::new(FakeWorkspace::half_joined("T1")).await;
    let slack = &fixture.slack;
    slack.change_workspace(TOKEN, |workspace| {
        let mut created = channel("C0NEW", "new");
        created["is_archived"] = true.into();
        workspace.channels.push(created);
    });
    let (joiner, requests) = Joiner::new();
    let (stop, shutdown) = watch::channel(false);
    joiner.ask(&team("T1"), &id("C0NEW"));
    let worker = fixture.worker(Some(joiner));
    fixture.work(&worker).await;
    let joined = async {
        // Three calls for listed channels, and one for the requested channel, which is archived by now.
        while slack.call_count("conversations.join") < 4 {
            tokio::task::yield_now().await;
        }
        stop.send_replace(true);
    };
    let joining = joins::run_until_shutdown(slack.client_in_memory(TOKEN), Some(requests), shutdown);
    timeout(DEADLINE, async { tokio::join!(joining, joined) }).await.unwrap();
    assert_eq!(slack.joined(TOKEN), ["C00002", "C00003", "C00004"]);
}

async fn join(slack: &FakeSlack, channels: &[&str]) -> joins::JoinCounts {
    let (joiner, requests) = Joiner::new();
    joiner.found(team("T1"), channels.iter().map(|channel| id(channel)).collect());
    drop(joiner);
    let api = slack.client(one_token(TOKEN));
    let joining = joins::run(&api, requests, RetryLimit::Failures(2));
    timeout(DEADLINE, joining).await.unwrap().remove(&team("T1")).unwrap()
}

#[tokio::test]
async fn a_channel_that_cannot_be_joined_stops_no_other() {
    let DirectoryFixture { slack, .. } = DirectoryFixture::new(FakeWorkspace::half_joined("T1")).await;
    slack.plan_answers("conversations.join", [refusal("restricted_action")]);
    let tally = join(&slack, &["C00002", "C00003", "C00005", "C0UNKNOWN"]).await;
    assert_eq!(tally.joined, 1);
    let failed: Vec<_> = tally.failed.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    assert_eq!(failed, [("channel_not_found", 1), ("is_archived", 1), ("restricted_action", 1)]);
}

#[tokio::test]
async fn a_failure_that_affects_all_channels_is_tried_once() {
    let DirectoryFixture { slack, .. } = DirectoryFixture::new(FakeWorkspace::half_joined("T1")).await;
    let answer = json!({ "ok": false, "error": "missing_scope", "needed": "channels:join" });
    slack.refuse("conversations.join", answer);
    let tally = join(&slack, &["C00002", "C00003", "C00004"]).await;
    assert_eq!((tally.joined, tally.failed["missing_scope"]), (0, 3));
    assert_eq!(slack.call_count("conversations.join"), 1);
}

#[tokio::test]
async fn a_join_without_a_response_is_retried() {
    let DirectoryFixture { slack, .. } = DirectoryFixture::new(FakeWorkspace::half_joined("T1")).await;
    slack.plan_answers("conversations.join", [SlackAnswer::new(503)]);
    let tally = join(&slack, &["C00002"]).await;
    assert_eq!((tally.joined, tally.failed.len()), (1, 0));
    slack.plan_answers("conversations.join", [SlackAnswer::new(503), SlackAnswer::new(503)]);
    let tally = join(&slack, &["C00003", "C00004"]).await;
    assert_eq!((tally.joined, tally.failed.values().sum::<u64>()), (0, 2), "{tally:?}");
}

#[tokio::test]
async fn a_channel_that_a_list_shows_the_app_in_counts_as_joined_since_the_first_such_list() {
    let mut workspace = FakeWorkspace::with_size("T1", 4, 0);
    for (number, is_member) in [(1, json!(false)), (2, json!(["?"])), (3, json!(null))] {
        workspace.channels[number]["is_member"] = is_member;
    }
    let fixture = DirectoryFixture::new(workspace).await;
    for seconds_later in [60, 3_660] {
        fixture.slack.set_clock(START_S + seconds_later);
        fixture.sync().await;
    }
    let mut joined = Vec::new();
    for channel in ["C00000", "C00001", "C00002", "C00003"] {
        let since = history::first_presence(&*fixture.archive, &team("T1"), &id(channel), &[]).await.unwrap();
        joined.push(since.map(|since| since.to_string()));
        assert!(fixture.rows(key::joins(&team("T1"), &id(channel))).await.len() <= 1, "{channel}");
    }
    assert_eq!(joined, [Some(ts(60)), None, None, None]);
}
