//! Socket Mode with real processes: events arrive without an address and without a signing secret.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use testkit::corpus::{TEAM, event};
use testkit::fake_slack::FakeSlack;
use testkit::fake_socket::{APP_TOKEN, FakeSocket, FromClient, SlackSide};
use tests::harness::command::{annalist_with, json_lines, wait_until_idle};
use tests::harness::environment::ProgramEnvironment;
use tests::harness::process;
use tokio::process::Command;

const CHANNEL: &str = "C0GENERAL";
const DEADLINE: Duration = Duration::from_secs(30);

struct FolderWithSocket<'a> {
    data: &'a Path,
    slack: &'a FakeSlack,
}

impl ProgramEnvironment for FolderWithSocket<'_> {
    fn configure(&self, command: &mut Command) {
        self.data.configure(command);
        command
            .env("SLACK_APP_TOKEN", APP_TOKEN)
            .env("SLACK_API_URL", self.slack.url())
            .env("ANNALIST_SOCKET_CONNECTIONS", "1");
    }
}

fn ts(second: u64) -> String {
    format!("{}.000100", 1_700_000_000 + second)
}

async fn deliver(side: &mut SlackSide, second: u64) {
    let message = event::posted(CHANNEL, &event::message(&ts(second), "U0FIRST", "hello"));
    let body = event::envelope(TEAM, &format!("Ev{second}"), &message).to_string();
    side.event(&format!("envelope-{second}"), &body, 0).await;
    assert_eq!(side.received().await, FromClient::Ack(format!("envelope-{second}")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acked_event_survives_a_kill_and_a_stop_closes_the_connection() {
    let data = tempfile::tempdir().unwrap();
    let slack = FakeSlack::start().await;
    let mut socket = FakeSocket::start(&slack, 2).await;
    let environment = FolderWithSocket { data: data.path(), slack: &slack };
    let up = process::up(&environment).await;
    let mut side = socket.ready().await;
    deliver(&mut side, 0).await;
    up.process.sigkill().await;

    let up = process::up(&environment).await;
    let mut side = socket.ready().await;
    deliver(&mut side, 60).await;
    deliver(&mut side, 61).await;
    wait_until_idle(data.path(), DEADLINE).await;
    let kept = json_lines(data.path(), &["messages", CHANNEL]).await;
    assert_eq!(kept.iter().map(|row| &row["ts"]).collect::<Vec<_>>(), [&ts(0), &ts(60), &ts(61)]);
    let gaps = json_lines(data.path(), &["gaps"]).await;
    let gaps: Vec<_> = gaps.iter().map(|gap| json!([gap["reason"], gap["from"], gap["to"]])).collect();
    assert_eq!(gaps, [json!(["downtime", ts(0), ts(60)])]);
    up.process.stop().await;
    assert_eq!(side.received().await, FromClient::Close(Some(1000)));
}

#[tokio::test]
async fn a_wrong_app_level_token_is_refused_with_one_line() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path().join("data");
    let args = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "--metrics-listen",
        "127.0.0.1:0",
        "--data",
        data.to_str().unwrap(),
    ];
    annalist_with(&args, &[("SLACK_APP_TOKEN", "xoxb hidden")]).await.assert_refused(2, "SLACK_APP_TOKEN");
    annalist_with(&args, &[("SLACK_APP_TOKEN", "xoxb-0")]).await.assert_refused(2, "it is a bot token");
    annalist_with(&args, &[]).await.assert_refused(2, "SLACK_APP_TOKEN");
    assert!(!data.exists(), "nothing is created before the settings are right");
}
