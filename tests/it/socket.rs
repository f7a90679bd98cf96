//! Socket Mode with real processes: events arrive without an address and without a signing secret.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::corpus::{TEAM, event};
use testkit::fake_slack::{FakeSlack, FakeWorkspace, SlackAnswer, refusal};
use testkit::fake_socket::{APP_TOKEN, FakeSocket, FromClient, SlackSide, TICKET};
use tests::harness::binaries::binaries;
use tests::harness::command::{annalist_with, json_lines, run, wait_until_idle};
use tests::harness::environment::ProgramEnvironment;
use tests::harness::process;
use tests::harness::tls_proxy::TlsProxy;
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
        use_socket(command);
        command.env("SLACK_API_URL", self.slack.url());
    }
}

/// Sets up Socket Mode with one connection.
fn use_socket(command: &mut Command) {
    command
        .env("SLACK_APP_TOKEN", APP_TOKEN)
        .env("ANNALIST_SOCKET_CONNECTIONS", "1")
        // The harness looks for the ticket and the token in every line.
        .env("ANNALIST_LOG", "trace");
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

/// A folder with Socket Mode whose network leads through a proxy.
struct FolderBehindProxy<'a> {
    data: &'a Path,
    proxy: &'a TlsProxy,
}

impl ProgramEnvironment for FolderBehindProxy<'_> {
    fn configure(&self, command: &mut Command) {
        self.data.configure(command);
        self.proxy.configure(command);
        use_socket(command);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_arrive_encrypted_through_the_proxy_of_the_environment() {
    let data = tempfile::tempdir().unwrap();
    let slack = FakeSlack::start().await;
    let mut socket = FakeSocket::start(&slack, 0).await;
    let ticket = json!({ "ok": true, "url": format!("wss://wss-primary.slack.com/link/?ticket={TICKET}") });
    slack.plan_answers("apps.connections.open", [SlackAnswer::json(&ticket)]);
    let web_api = slack.url().split('/').nth(2).unwrap().parse().unwrap();
    let proxy = TlsProxy::start(web_api, socket.address()).await;
    let up = process::up(&FolderBehindProxy { data: data.path(), proxy: &proxy }).await;
    let mut side = socket.ready().await;
    deliver(&mut side, 0).await;
    wait_until_idle(data.path(), DEADLINE).await;
    let kept = json_lines(data.path(), &["messages", CHANNEL]).await;
    assert_eq!(kept.iter().map(|row| &row["ts"]).collect::<Vec<_>>(), [&ts(0)]);
    let heads = proxy.heads();
    for host in ["slack.com:443", "wss-primary.slack.com:443"] {
        assert!(heads.iter().any(|head| head.starts_with(&format!("CONNECT {host} "))), "{heads:?}");
    }
    assert!(heads.iter().all(|head| !head.contains(TICKET) && !head.contains(APP_TOKEN)), "{heads:?}");
    up.process.stop().await;
    assert_eq!(side.received().await, FromClient::Close(Some(1000)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_opens_a_connection_and_names_the_next_step() {
    const BOT_TOKEN: &str = "xoxb-1-hidden";
    let data = tempfile::tempdir().unwrap();
    let slack = FakeSlack::start().await;
    slack.set_workspace(BOT_TOKEN, FakeWorkspace::with_size(TEAM, 1, 0));
    let mut socket = FakeSocket::start(&slack, 1).await;
    let up = process::up(&FolderWithSocket { data: data.path(), slack: &slack }).await;
    let mut side = socket.ready().await;
    deliver(&mut side, 0).await;
    let (address, metrics) = (up.address.to_string(), up.process.metrics_address().await.to_string());
    let (folder, api) = (data.path().to_str().unwrap(), slack.url());
    let args = ["doctor", "--json", "--data", folder, "--slack-api-url", &api];
    let args = [&args[..], &["--listen", &address, "--metrics-listen", &metrics]].concat();
    let doctor = async |app_token: &str| -> Value {
        let variables = [("SLACK_APP_TOKEN", app_token), ("SLACK_BOT_TOKEN", BOT_TOKEN)];
        let outcome = annalist_with(&args, &variables).await;
        let checks: Vec<Value> =
            outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let named = |name: &str| checks.iter().find(|check| check["check"] == name).unwrap().clone();
        assert_eq!(named("signing-secret")["state"], "ok", "{outcome:?}");
        assert_eq!(named("request-url")["state"], "skipped", "{outcome:?}");
        named("socket")
    };
    let assert_check = |check: Value, state: &str, expected: &str| {
        assert_eq!(check["state"], state, "{check}");
        assert!(format!("{} {}", check["says"], check["next"]).contains(expected), "{check}");
    };

    for (connections, app_id, state, expected) in [
        (2, "A0ANNALIST", "ok", "of the app A0ANNALIST is accepted; the process that runs has 1 connection"),
        (5, "A0ANNALIST", "finding", "others have 3 connections"),
        (2, "A0OTHER", "finding", "of the app A0ANNALIST, and the bot token of the app A0OTHER"),
    ] {
        socket.give_tickets(&slack, 1);
        let bot = json!({ "ok": true, "bot": { "id": "B0BOT", "app_id": app_id } });
        slack.plan_answers("bots.info", [SlackAnswer::json(&bot)]);
        let (check, ()) = tokio::join!(doctor(APP_TOKEN), async {
            let mut probed = socket.next().await;
            probed.hello(connections).await;
            assert_eq!(probed.received().await, FromClient::Close(Some(1000)));
        });
        assert_check(check, state, expected);
    }
    for (reason, expected) in
        [("link_disabled", "your app > Socket Mode"), ("too_many_websockets", "--socket-connections")]
    {
        socket.give_tickets(&slack, 1);
        let (check, _) = tokio::join!(doctor(APP_TOKEN), async {
            let mut probed = socket.next().await;
            probed.disconnect(reason).await;
            probed.received().await
        });
        assert_check(check, "finding", expected);
    }
    slack.plan_answers("apps.connections.open", [refusal("invalid_auth")]);
    assert_check(doctor(APP_TOKEN).await, "finding", "connections:write");
    assert_check(doctor("xoxb-2-hidden").await, "finding", "it is a bot token");
    deliver(&mut side, 60).await;
    up.process.stop().await;
}

#[tokio::test]
async fn a_wrong_setting_of_socket_mode_is_refused_with_one_line() {
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
    for (token, expected) in [
        ("xoxb hidden", "it is not a token"),
        ("xoxb-0", "it is a bot token (xoxb-…)"),
        ("xoxp-0", "it is a user token (xoxp-…)"),
        ("xoxe-0", "it is a refresh token (xoxe-…)"),
        ("8f742231b10e8888abcd99yyyzzz85a5", "which begins with xapp-"),
    ] {
        let outcome = annalist_with(&args, &[("SLACK_APP_TOKEN", token)]).await;
        outcome.assert_refused(2, expected);
        outcome.assert_refused(2, "SLACK_APP_TOKEN cannot be used");
        assert!(!outcome.stderr.contains("hidden"), "{outcome:?}");
    }
    for expected in ["SLACK_SIGNING_SECRET", "SLACK_APP_TOKEN", "annalist setup"] {
        annalist_with(&args, &[]).await.assert_refused(2, expected);
    }
    for (flags, variables, expected) in [
        (&["--backfill", "some"][..], &[][..], "possible values: all, gaps, off"),
        (&[], &[("ANNALIST_BACKFILL", "some")], "possible values: all, gaps, off"),
        (&["--socket-connections", "0"], &[], "give a number from 1 to 5"),
        (&["--socket-connections", "6"], &[], "give a number from 1 to 5"),
        (&[], &[("ANNALIST_SOCKET_CONNECTIONS", "two")], "--socket-connections"),
        (&["--settings", "/nonexistent/annalist.env"], &[], "/nonexistent/annalist.env"),
        (&[], &[("ANNALIST_SETTINGS", "/nonexistent/annalist.env")], "/nonexistent/annalist.env"),
    ] {
        let args = [&args[..], flags].concat();
        let variables = [&[("SLACK_APP_TOKEN", APP_TOKEN)][..], variables].concat();
        annalist_with(&args, &variables).await.assert_refused(2, expected);
    }
    let both = ["manifest", "--socket", "--url", "https://slack.example.com/slack/events"];
    annalist_with(&both, &[]).await.assert_refused(2, "cannot be used with");
    let on_lambda = [("SLACK_APP_TOKEN", APP_TOKEN), ("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:1")];
    let function = run(&binaries().ingest, &[], &on_lambda).await;
    function.assert_refused(2, "SLACK_APP_TOKEN does not work on Lambda");
    assert!(!data.exists(), "nothing is created before the settings are right");
}
