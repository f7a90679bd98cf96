//! The existence check in the real program, with a Slack that becomes unavailable and recovers.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use testkit::corpus::event::{EnvelopeShape, PARTNER};
use testkit::corpus::{TEAM, event};
use testkit::fake_slack::{FakeSlack, FakeWorkspace, channel, person};
use tests::harness::binaries::binaries;
use tests::harness::client::{EventClient, RetryDelays, deliver};
use tests::harness::command::{annalist_at, annalist_with, json_lines, run, status, wait_until_idle};
use tests::harness::environment::{FolderWithSlack, ProgramEnvironment};
use tests::harness::process;
use tokio::process::Command;

const TOKEN: &str = "xoxb-1";
const CHANNEL: &str = "C0GENERAL";
const USER: &str = "U0ADA";

/// The longest wait of the circuit breaker, and some time for a busy machine.
const DEADLINE: Duration = Duration::from_secs(90);

fn workspace() -> FakeWorkspace {
    let mut workspace = FakeWorkspace::new(TEAM);
    workspace.channels = vec![channel(CHANNEL, "general")];
    workspace.members = vec![person(USER, "ada")];
    workspace
}

fn messages(count: usize) -> Vec<Value> {
    (0..count).map(|n| message(USER, &format!("1700000000.{:06}", n + 1))).collect()
}

fn message(user: &str, ts: &str) -> Value {
    event::posted(CHANNEL, &event::message(ts, user, "hello"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_wait_while_slack_is_unavailable_and_status_reports_it() {
    let slack = FakeSlack::start().await;
    slack.set_workspace(TOKEN, workspace());
    slack.set_unavailable(true);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = process::up(&FolderWithSlack { data: &data, slack: &slack, token: TOKEN }).await;
    deliver(server.address, TEAM, &messages(20)).await;
    server.process.wait_for_log("set a job aside", DEADLINE).await;

    let report = status(data.as_path()).await;
    assert_eq!(report["existence_check"][0]["team_id"], TEAM, "{report}");
    assert_eq!((&report["idle"], &report["quarantined"]), (&false.into(), &0.into()), "{report}");
    let waiting = &report["waiting"][0];
    assert_eq!((&waiting["queue"], &waiting["cause"]), (&"events".into(), &"slack".into()), "{report}");
    let text = annalist_at(data.as_path(), &["status"]).await.stdout;
    assert!(text.contains("of events ha") && text.contains("waited for") && text.contains("503"), "{text}");
    let doctor = annalist_with(&["doctor", "--data", data.to_str().unwrap()], &[]).await;
    assert!(doctor.code != Some(0) && doctor.stdout.contains("https://slack-status.com"), "{doctor:?}");

    slack.set_unavailable(false);
    let report = wait_until_idle(data.as_path(), DEADLINE).await;
    assert_eq!((report.get("existence_check"), &report["quarantined"]), (None, &0.into()), "{report}");
    assert_eq!(report["waiting"], Value::Array(Vec::new()), "{report}");
    assert_eq!(json_lines(data.as_path(), &["messages", CHANNEL]).await.len(), 20);
    server.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_event_is_in_quarantine_with_its_reason_and_real_ones_are_stored() {
    let slack = FakeSlack::start().await;
    slack.set_workspace(TOKEN, workspace());
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = process::up(&FolderWithSlack { data: &data, slack: &slack, token: TOKEN }).await;
    let mut events = messages(3);
    events.push(message("U0NOBODY", "1700000009.000100"));
    deliver(server.address, TEAM, &events).await;
    let report = wait_until_idle(data.as_path(), DEADLINE).await;
    assert_eq!(report["quarantined"], 1, "{report}");
    let listed = annalist_at(data.as_path(), &["quarantine", "list"]).await.stdout;
    assert!(listed.contains("Slack does not know user U0NOBODY"), "{listed}");
    assert_eq!(json_lines(data.as_path(), &["messages", CHANNEL]).await.len(), 3);
    assert!(!server.process.log().contains(TOKEN));
    server.process.stop().await;
}

/// A data folder, a Slack, and a file of tokens for it.
struct FolderWithTokensFile<'a> {
    data: &'a Path,
    slack: &'a FakeSlack,
    tokens: &'a Path,
}

impl ProgramEnvironment for FolderWithTokensFile<'_> {
    fn configure(&self, command: &mut Command) {
        self.data.configure(command);
        command.env("SLACK_BOT_TOKENS_FILE", self.tokens).env("SLACK_API_URL", self.slack.url());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_replaced_in_its_file_is_used_without_a_restart() {
    let slack = FakeSlack::start().await;
    slack.set_workspace(TOKEN, workspace());
    let folder = tempfile::tempdir().unwrap();
    let (data, tokens) = (folder.path().join("data"), folder.path().join("tokens.json"));
    let store = |token: &str| std::fs::write(&tokens, format!(r#"{{"{TEAM}": "{token}"}}"#)).unwrap();
    store(TOKEN);
    let environment = FolderWithTokensFile { data: &data, slack: &slack, tokens: &tokens };
    let server = process::up(&environment).await;
    deliver(server.address, TEAM, &messages(1)).await;
    wait_until_idle(data.as_path(), DEADLINE).await;

    let mut later = workspace();
    later.members.push(person("U0GRACE", "grace"));
    slack.remove_workspace(TOKEN);
    slack.set_workspace("xoxb-2", later);
    store("xoxb-2");
    deliver(server.address, TEAM, &[message("U0GRACE", "1700000009.000100")]).await;
    let report = wait_until_idle(data.as_path(), DEADLINE).await;
    assert_eq!(report["quarantined"], 0, "{report}");
    assert_eq!(json_lines(data.as_path(), &["messages", CHANNEL]).await.len(), 2);
    assert_eq!(slack.calls().last().unwrap().token, "xoxb-2");
    server.process.stop().await;
}

#[tokio::test]
async fn without_a_token_a_required_check_prevents_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let secret = ("SLACK_SIGNING_SECRET", "8f742231b10e8888abcd99yyyzzz85a5");
    for mode in ["enforce", "observe"] {
        let args = ["up", "--data", data, "--listen", "127.0.0.1:0", "--existence-check", mode];
        let up = annalist_with(&args, &[secret]).await;
        let parts = [&binaries().worker("message-writer"), &binaries().worker("channel-indexer")];
        let mut outcomes = vec![up];
        for part in parts {
            outcomes.push(run(part, &["--data", data, "--existence-check", mode], &[]).await);
        }
        for outcome in outcomes {
            assert_eq!((outcome.code, outcome.stderr.lines().count()), (Some(2), 1), "{outcome:?}");
            assert!(
                outcome.stderr.contains("SLACK_BOT_TOKEN") && outcome.stderr.contains(mode),
                "{outcome:?}"
            );
        }
    }
    assert!(!Path::new(data).exists(), "it left something behind");
}

/// Delivers messages of both sides of a channel that is shared with a partner, one pair in an envelope of
/// each shape, and checks that all of them are in one workspace.
async fn store_both_sides(environment: &(impl ProgramEnvironment + ?Sized)) {
    let server = process::up(environment).await;
    let mut slack = EventClient::for_address(server.address, RetryDelays::none());
    let mut expected = 0;
    for (number, shape) in EnvelopeShape::ALL.into_iter().enumerate() {
        let by = |user: &str, team: &str, side: usize| {
            let posted = event::posted(
                "C0CONNECT1",
                &event::message(&format!("1700000000.{:06}", 2 * number + side), user, "hello"),
            );
            event::with_fields(posted, [("team", team.into())])
        };
        let theirs = event::with_fields(
            by("U0PARTNER1", PARTNER, 2),
            [("user_team", PARTNER.into()), ("source_team", PARTNER.into())],
        );
        for (side, event) in [by(USER, TEAM, 1), theirs].iter().enumerate() {
            let body = shape.apply(&event::envelope(TEAM, &format!("Ev{number}x{side}"), event));
            assert_eq!(slack.deliver(&body).await, Ok(1), "{body}");
            expected += 1;
        }
    }
    let report = wait_until_idle(environment, DEADLINE).await;
    assert_eq!(report["quarantined"], 0, "{report}");
    assert_eq!(json_lines(environment, &["messages", "C0CONNECT1", "--team", TEAM]).await.len(), expected);
    assert_eq!(json_lines(environment, &["messages", "C0CONNECT1"]).await.len(), expected);
    server.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_of_a_shared_channel_are_in_one_workspace_with_and_without_a_token() {
    let folder = tempfile::tempdir().unwrap();
    store_both_sides(folder.path().join("without").as_path()).await;

    let slack = FakeSlack::start().await;
    let mut connected = workspace();
    connected.channels.push(event::with_fields(
        channel("C0CONNECT1", "con"),
        [("is_ext_shared", true.into()), ("is_shared", true.into())],
    ));
    slack.set_workspace(TOKEN, connected);
    let data = folder.path().join("with");
    store_both_sides(&FolderWithSlack { data: &data, slack: &slack, token: TOKEN }).await;
}
