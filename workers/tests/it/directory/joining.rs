//! Which channels are joined, and what stops it.

use serde_json::json;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, SlackAnswer, channel, one_token, refusal};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use workers::directory::Joiner;
use workers::directory::joins::{self, RetryLimit};

use super::fixture::{DEADLINE, DirectoryFixture, TOKEN, id, team};

#[tokio::test]
async fn public_channels_are_joined_and_a_new_one_too() {
    let DirectoryFixture { slack, sync, .. } = DirectoryFixture::new(FakeWorkspace::half_joined("T1")).await;
    slack.change(TOKEN, |workspace| {
        let mut created = channel("C0NEW", "new");
        created["is_archived"] = true.into();
        workspace.channels.push(created);
    });
    let (joiner, asked) = Joiner::new();
    let (turn, shutdown) = watch::channel(false);
    joiner.ask(&team("T1"), &id("C0NEW"));
    let joined = async {
        // Three that were found; the one that was asked for is archived by now.
        while slack.called("conversations.join") < 4 {
            tokio::task::yield_now().await;
        }
        turn.send_replace(true);
    };
    timeout(DEADLINE, async { tokio::join!(sync.run(Some(asked), shutdown), joined) }).await.unwrap();
    assert_eq!(slack.joined(TOKEN), ["C00002", "C00003", "C00004"]);
}

async fn join(slack: &FakeSlack, channels: &[&str]) -> joins::JoinCounts {
    let (found, lists) = mpsc::channel(1);
    found.try_send((team("T1"), channels.iter().map(|channel| id(channel)).collect())).unwrap();
    drop(found);
    let (_, asked) = Joiner::new();
    let api = slack.client(one_token(TOKEN));
    let joining = joins::run(&api, asked, lists, RetryLimit::Failures(2));
    timeout(DEADLINE, joining).await.unwrap().remove(&team("T1")).unwrap()
}

#[tokio::test]
async fn a_channel_that_cannot_be_joined_stops_no_other() {
    let DirectoryFixture { slack, .. } = DirectoryFixture::new(FakeWorkspace::half_joined("T1")).await;
    slack.next("conversations.join", [refusal("restricted_action")]);
    let tally = join(&slack, &["C00002", "C00003", "C00005", "C0UNKNOWN"]).await;
    assert_eq!(tally.joined, 1);
    let failed: Vec<_> = tally.failed.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    assert_eq!(failed, [("channel_not_found", 1), ("is_archived", 1), ("restricted_action", 1)]);
}

#[tokio::test]
async fn what_fails_for_all_is_tried_once() {
    let DirectoryFixture { slack, .. } = DirectoryFixture::new(FakeWorkspace::half_joined("T1")).await;
    let answer = json!({ "ok": false, "error": "missing_scope", "needed": "channels:join" });
    slack.refuse("conversations.join", answer);
    let tally = join(&slack, &["C00002", "C00003", "C00004"]).await;
    assert_eq!((tally.joined, tally.failed["missing_scope"]), (0, 3));
    assert_eq!(slack.called("conversations.join"), 1);
}

#[tokio::test]
async fn a_join_without_an_answer_is_tried_again() {
    let DirectoryFixture { slack, .. } = DirectoryFixture::new(FakeWorkspace::half_joined("T1")).await;
    slack.next("conversations.join", [SlackAnswer::new(503)]);
    let tally = join(&slack, &["C00002"]).await;
    assert_eq!((tally.joined, tally.failed.len()), (1, 0));
    slack.next("conversations.join", [SlackAnswer::new(503), SlackAnswer::new(503)]);
    let tally = join(&slack, &["C00003", "C00004"]).await;
    assert_eq!((tally.joined, tally.failed.values().sum::<u64>()), (0, 2), "{tally:?}");
}
