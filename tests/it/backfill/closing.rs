//! A gap that closes by itself, with `annalist up`.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, channel};
use tests::harness::client::deliver;
use tests::harness::command::{json_lines, wait_until_idle};
use tests::harness::place::FolderWithSlack;
use tests::harness::process;
use tokio::time::timeout;

const TOKEN: &str = "xoxb-1";
const TEAM: &str = "T1";
const CHANNEL: &str = "C0GENERAL";

/// The first look for gaps comes 30 s after the start.
const DEADLINE: Duration = Duration::from_secs(75);

const MISSED: u64 = 50;

/// Slack's clock `second` seconds into the story.
fn ts(second: u64) -> String {
    format!("{}.000100", 1_700_000_000 + second)
}

fn said(second: u64) -> Value {
    event::message(&ts(second), "U0FIRST", &format!("said at {second}"))
}

/// A message is posted, and its event delivered.
async fn posted(slack: &FakeSlack, up: &process::ServerProcess, second: u64) {
    slack.change(TOKEN, |workspace| workspace.said_in(CHANNEL).post(&said(second)));
    deliver(up.address, TEAM, &[event::posted(CHANNEL, &said(second))]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_missed_while_up_was_stopped_is_filled_by_itself() {
    let slack = FakeSlack::start().await;
    let mut workspace = FakeWorkspace { knows_every_id: true, ..FakeWorkspace::new(TEAM) };
    workspace.channels.push(channel(CHANNEL, "general"));
    slack.set(TOKEN, workspace);
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let place = FolderWithSlack { data, slack: &slack, token: TOKEN };
    let killed = process::up(&place).await;
    posted(&slack, &killed, 0).await;
    wait_until_idle(data, DEADLINE).await;
    killed.process.sigkill().await;

    // Two hours in which messages and threads come, one of them to a message from before.
    slack.change(TOKEN, |workspace| {
        let history = workspace.said_in(CHANNEL);
        for n in 1..=MISSED {
            history.post(&said(n * 100));
        }
        history.post(&event::reply(&ts(6_000), &ts(100), "U0FIRST", "a reply"));
        history.post(&event::reply(&ts(6_001), &ts(0), "U0FIRST", "a reply to what was there"));
    });
    // By Slack's clock the gap has ended before it is looked for.
    slack.at(1_700_000_000 + 7_260);
    let again = process::up(&place).await;
    posted(&slack, &again, 7_200).await;
    let filled = async {
        again.process.says("history was read", DEADLINE).await;
        loop {
            if let [gap] = &json_lines(data, &["gaps"]).await[..]
                && gap["state"] == "filled"
            {
                return gap.clone();
            }
        }
    };
    let gap = timeout(DEADLINE, filled).await.expect("it becomes filled");
    let expected = json!({ "team_id": TEAM, "channel_id": null, "reason": "downtime", "from": ts(0), "to": ts(7_200),
        "state": "filled", "channels_left": 0 });
    assert_eq!(gap, expected);
    let messages = json_lines(data, &["messages", CHANNEL]).await;
    assert_eq!(messages.len() as u64, MISSED + 2 + 2, "{messages:?}");
    let thread = json_lines(data, &["thread", CHANNEL, &ts(0)]).await;
    assert_eq!(thread.len(), 2, "{thread:?}");
    assert!(again.process.sigterm(Duration::from_secs(30)).await.success());
}
