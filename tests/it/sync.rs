//! `annalist sync` and the later output of `status`, on the real binary.

use std::time::Duration;

use ports::clock::{ManualClock, SharedClock, TimestampMs};
use serde_json::{Value, json};
use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, channel, person};
use tests::harness::client::deliver;
use tests::harness::command::{annalist_with, json_lines, wait_until_idle};
use tests::harness::environment::FolderWithSlack;
use tests::harness::process;
use tokio::time::timeout;

const TOKEN: &str = "xoxb-1";

/// More than any step takes, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn the_command_syncs_a_folder_prints_a_summary_and_reads_the_file_of_tokens() {
    let slack = FakeSlack::start().await;
    slack.set_workspace(TOKEN, FakeWorkspace::half_joined("T1"));
    let mut second = FakeWorkspace::with_size("T2", 1, 4);
    second.emoji = json!({ "parrot": "alias:tada" });
    slack.set_workspace("xoxb-2", second);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let clock: SharedClock = ManualClock::starting_at(TimestampMs(0));
    embedded::Database::open(&data, clock).unwrap().close().await;
    let (data_text, url) = (data.to_str().unwrap(), slack.url());
    let sync = ["sync", "--data", data_text];

    annalist_with(&sync, &[]).await.assert_refused(1, "SLACK_BOT_TOKEN");

    let one = [("SLACK_BOT_TOKEN", TOKEN), ("SLACK_API_URL", &url)];
    let outcome = annalist_with(&["sync", "--no-join", "--data", data_text], &one).await.succeeded();
    assert!(
        outcome.stdout.contains("T1 (Workspace T1): 6 channels, 0 people, 0 emoji; 6 new"),
        "{outcome:?}"
    );
    assert!(outcome.stdout.contains("not in 3 public channels"), "{outcome:?}");
    assert_eq!(slack.call_count("conversations.join"), 0);

    let file = folder.path().join("tokens.json");
    std::fs::write(&file, json!({ "T1": TOKEN, "T2": "xoxb-2", "T3": "xoxb-3" }).to_string()).unwrap();
    let several = [("SLACK_BOT_TOKENS_FILE", file.to_str().unwrap()), ("SLACK_API_URL", &url)];
    let outcome = annalist_with(&sync, &several).await;
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    for expected in [
        "T1 (Workspace T1): 6 channels, 0 people, 0 emoji; 0 new",
        "T2 (Workspace T2): 1 channel, 4 people, 1 emoji; 6 new",
        "T3: failed: Slack refused auth.test: invalid_auth",
        "T1: joined 3",
    ] {
        assert!(outcome.stdout.contains(expected), "{expected}: {outcome:?}");
    }
    assert!(outcome.stderr.contains("1 of 3 workspaces") && !outcome.stderr.contains("xoxb"), "{outcome:?}");
    assert_eq!(json_lines(data.as_path(), &["users"]).await.len(), 4);
    let status = annalist_with(&["status", "--data", data_text], &[]).await.stdout;
    assert!(status.contains("T2 (Workspace T2): 1 channel, 4 people, 1 emoji as of 2023-11-14"), "{status}");
    assert!(!status.contains("SLACK_BOT_TOKEN"), "{status}");

    let outcome = annalist_with(&["workspaces", "--json", "--data", data_text], &several).await.succeeded();
    let shown: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Vec<_> = shown
        .iter()
        .map(|line| (line["team_id"].as_str().unwrap(), line["token"].as_str().unwrap()))
        .collect();
    assert_eq!(shown, [("T1", "ok"), ("T2", "ok"), ("T3", "refused")]);
    let before = slack.call_count("users.list");
    let team = ["sync", "--team", "T2", "--data", data_text];
    let outcome = annalist_with(&team, &several).await.succeeded();
    assert!(outcome.stdout.starts_with("T2 (Workspace T2): 1 channel"), "{outcome:?}");
    assert_eq!(slack.call_count("users.list"), before + 1);
    annalist_with(&["sync", "--team", "T9", "--data", data_text], &several).await.assert_refused(1, "T9");

    for (variables, expected) in [
        (&[("SLACK_BOT_TOKEN", "xoxb hidden")][..], "SLACK_BOT_TOKEN cannot be used"),
        (&[("SLACK_BOT_TOKEN", TOKEN), several[0]], "both set"),
        (&[("SLACK_BOT_TOKENS_FILE", "/nowhere.json")], "/nowhere.json"),
        (&[("SLACK_BOT_TOKEN", TOKEN), ("SLACK_API_URL", "http://slack.com/hidden")], "SLACK_API_URL"),
    ] {
        let outcome = annalist_with(&sync, variables).await;
        assert_eq!((outcome.code, outcome.stderr.lines().count()), (Some(2), 1), "{outcome:?}");
        assert!(outcome.stderr.contains(expected) && !outcome.stderr.contains("hidden"), "{outcome:?}");
    }
}

#[tokio::test]
async fn up_syncs_the_directory_and_joins_existing_and_new_channels() {
    let slack = FakeSlack::start().await;
    slack.set_workspace(
        TOKEN,
        FakeWorkspace { members: vec![person("U1", "ada")], ..FakeWorkspace::half_joined("T1") },
    );
    let folder = tempfile::tempdir().unwrap();
    let environment = FolderWithSlack { data: folder.path(), slack: &slack, token: TOKEN };
    let server = process::up(&environment).await;
    let called = async |method: &str, times: usize| {
        let enough = async {
            while slack.call_count(method) < times {
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, enough).await.unwrap();
    };
    called("conversations.join", 3).await;
    slack.change_workspace(TOKEN, |workspace| workspace.channels.push(channel("C0NEW", "new")));
    let created = event::channel_created("C0NEW", "new", "1700000100.000000");
    deliver(server.address, "T1", &[created]).await;
    called("conversations.join", 4).await;
    server.process.stop().await;
    assert_eq!(slack.joined(TOKEN), ["C00002", "C00003", "C00004", "C0NEW"]);
    let names = json_lines(folder.path(), &["channels"]).await;
    assert_eq!(names.len(), 7, "{names:?}");
    assert_eq!(json_lines(folder.path(), &["users"]).await[0]["display_name"], "ada");
}

#[tokio::test]
async fn up_with_no_join_joins_no_channel() {
    let slack = FakeSlack::start().await;
    slack.set_workspace(TOKEN, FakeWorkspace::half_joined("T1"));
    let folder = tempfile::tempdir().unwrap();
    let environment = FolderWithSlack { data: folder.path(), slack: &slack, token: TOKEN };
    let server = process::up_with(&environment, &["--no-join"]).await;
    let synced = async {
        let text = ["status", "--data", folder.path().to_str().unwrap()];
        while !annalist_with(&text, &[]).await.stdout.contains("6 channels, 0 people") {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, synced).await.unwrap();
    slack.change_workspace(TOKEN, |workspace| workspace.channels.push(channel("C0NEW", "new")));
    let created = event::channel_created("C0NEW", "new", "1700000100.000000");
    deliver(server.address, "T1", &[created]).await;
    wait_until_idle(folder.path(), DEADLINE).await;
    server.process.stop().await;
    assert_eq!(slack.call_count("conversations.join"), 0);
}
