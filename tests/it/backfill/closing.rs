//! A gap that `annalist up` fills automatically.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, channel};
use tests::harness::client::deliver;
use tests::harness::command::{json_lines, wait_until_idle};
use tests::harness::environment::FolderWithSlack;
use tests::harness::process;
use tokio::time::timeout;

const TOKEN: &str = "xoxb-1";
const TEAM: &str = "T1";
const CHANNEL: &str = "C0GENERAL";

/// Above the 30 s between the start and the first search for gaps.
const DEADLINE: Duration = Duration::from_secs(75);

const MISSED: u64 = 50;

/// The timestamp `second` seconds after the start of the test.
fn ts(second: u64) -> String {
    format!("{}.000100", 1_700_000_000 + second)
}

fn message_at(second: u64) -> Value {
    event::message(&ts(second), "U0FIRST", &format!("said at {second}"))
}

/// Posts a message to Slack, and delivers its event.
async fn post(slack: &FakeSlack, up: &process::ServerProcess, second: u64) {
    slack.change_workspace(TOKEN, |workspace| workspace.channel_history(CHANNEL).post(&message_at(second)));
    deliver(up.address, TEAM, &[event::posted(CHANNEL, &message_at(second))]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_missed_while_up_was_stopped_are_filled_automatically() {
    let slack = FakeSlack::start().await;
    let mut workspace = FakeWorkspace { knows_every_id: true, ..FakeWorkspace::new(TEAM) };
    workspace.channels.push(channel(CHANNEL, "general"));
    slack.set_workspace(TOKEN, workspace);
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let environment = FolderWithSlack { data, slack: &slack, token: TOKEN };
    let killed = process::up(&environment).await;
    post(&slack, &killed, 0).await;
    wait_until_idle(data, DEADLINE).await;
    killed.process.sigkill().await;

    // Two hours with new messages and threads, one of them under an earlier message.
    slack.change_workspace(TOKEN, |workspace| {
        let history = workspace.channel_history(CHANNEL);
        for n in 1..=MISSED {
            history.post(&message_at(n * 100));
        }
        history.post(&event::reply(&ts(6_000), &ts(100), "U0FIRST", "a reply"));
        history.post(&event::reply(&ts(6_001), &ts(0), "U0FIRST", "a reply to an earlier message"));
    });
    // By Slack's clock, the gap ends before the search for gaps.
    slack.set_clock(1_700_000_000 + 7_260);
    let again = process::up(&environment).await;
    post(&slack, &again, 7_200).await;
    let filled = async {
        again.process.wait_for_log("history was read", DEADLINE).await;
        loop {
            if let [gap] = &json_lines(data, &["gaps"]).await[..]
                && gap["state"] == "filled"
            {
                return gap.clone();
            }
        }
    };
    let gap = timeout(DEADLINE, filled).await.expect("the gap is filled");
    let expected = json!({ "team_id": TEAM, "channel_id": null, "reason": "downtime", "from": ts(0), "to": ts(7_200),
        "state": "filled", "channels_left": 0 });
    assert_eq!(gap, expected);
    let messages = json_lines(data, &["messages", CHANNEL]).await;
    assert_eq!(messages.len() as u64, MISSED + 2 + 2, "{messages:?}");
    let thread = json_lines(data, &["thread", CHANNEL, &ts(0)]).await;
    assert_eq!(thread.len(), 2, "{thread:?}");
    again.process.stop().await;
}
