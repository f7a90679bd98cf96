//! Searches the complete output of runs with many errors for secrets.
//!
//! The harness searches every line of every program in every test; these tests search the rest.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::corpus::{TEAM, channel_id, event};
use testkit::fake_files;
use tests::harness::binaries::binaries;
use tests::harness::client::{EventClient, RetryDelays};
use tests::harness::command::{annalist_at, json_lines, wait_until_idle};
use tests::harness::process::{self, SIGNING_SECRET, ServerProcess};
use tests::harness::secrets::{VERIFICATION_TOKEN, assert_no_secret, find_secret};
use tests::harness::{procfs, scrape};
use tokio::process::Command;

use crate::export::formats::{contains, files_below};

const TOKEN: &str = "xoxb-17-ofTheWorkspace";
const DEADLINE: Duration = Duration::from_secs(60);

/// Events that are stored, that contain files, that cannot be parsed, and that contain malformed ids.
fn events(files: &str) -> Vec<String> {
    let plain = event::message("1700000000.000100", "U01", "hello");
    let file = json!({ "id": "F01", "url_private": format!("{files}/files/F01"), "size": 300 });
    let gone = json!({ "id": "F02", "url_private": format!("{files}/nowhere"), "size": 300 });
    let away = json!({ "id": "F03", "url_private": "https://files.example.com/F03", "size": 300 });
    let shared = event::with_fields(
        event::message("1700000000.000200", "U01", "look"),
        [("files", json!([file, gone, away]))],
    );
    let person = json!({ "type": "user_change", "user": { "id": "U01", "name": "ann", "profile": {
        "image_192": "https://avatars.slack-edge.com/x_192.png" } }, "event_ts": "1700000000.000300" });
    let without_ts = json!({ "type": "message", "channel": "C01", "channel_type": "channel", "text": "?" });
    let odd_ids = json!({ "type": "message", "channel": "../C01#", "channel_type": "channel", "text": "?" });
    let of_a_channel = json!({ "type": "channel_rename", "channel": { "id": "../C01", "name": "x" } });
    let revoked = json!({ "type": "tokens_revoked", "tokens": { "bot": ["U0ANNALIST"] } });
    [
        event::posted(&channel_id(1), &plain),
        event::posted(&channel_id(1), &shared),
        person,
        without_ts,
        odd_ids,
    ]
    .into_iter()
    .chain([of_a_channel, revoked])
    .enumerate()
    .map(|(n, event)| event::envelope(TEAM, &format!("Ev{n}"), &event))
    .collect()
}

/// Every row of the database, except messages on a queue: these are the bytes that Slack signed.
fn items(data: &Path) -> Vec<String> {
    let database = rusqlite::Connection::open(data.join("annalist.db")).unwrap();
    let mut rows = database.prepare("SELECT item_id || ' ' || attributes FROM items").unwrap();
    let rows = rows.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_in_logs_items_quarantine_metrics_arguments_or_files() {
    let data = tempfile::tempdir().unwrap();
    let slack = fake_files::slack().await;
    let mut command = Command::new(&binaries().annalist);
    command.args(["up", "--listen", "127.0.0.1:0", "--data"]).arg(data.path());
    command.env("SLACK_API_URL", format!("{}/api/", slack.uri())).env("SLACK_BOT_TOKEN", TOKEN);
    // The most verbose log, including the libraries' lines about each request.
    command.env("ANNALIST_LOG", "trace");
    let server = process::serve(&mut command).await;
    let mut sender = EventClient::for_address(server.address, RetryDelays::slack(Duration::from_millis(20)));
    for body in events(&slack.uri()) {
        sender.deliver(&body).await.unwrap();
    }
    wait_until_idle(data.path(), DEADLINE).await;

    let pid = server.process.pid();
    assert_no_secret("the command line", &procfs::command_line(pid));
    assert_eq!(procfs::children(pid), [] as [u32; 0], "a child would inherit the environment");
    assert_no_secret("/metrics", &scrape::metrics(server.process.metrics_address().await).await);
    let quarantined = json_lines(data.path(), &["quarantine", "list"]).await;
    assert!(quarantined.len() >= 3, "too few jobs in quarantine: {quarantined:?}");
    for job in &quarantined {
        let id = job["id"].as_str().unwrap();
        // The harness searches the output.
        assert_eq!(annalist_at(data.path(), &["quarantine", "show", id]).await.code, Some(0));
    }
    for command in [&["messages", "C01"][..], &["files"], &["users"], &["status"], &["doctor"]] {
        annalist_at(data.path(), command).await;
    }
    server.process.stop().await;

    let items = items(data.path());
    assert!(
        items.iter().any(|item| item.contains("hello"))
            && items.iter().any(|item| item.starts_with("quarantine#"))
    );
    for item in &items {
        assert_no_secret("an item", item);
    }
    for (path, content) in files_below(data.path()) {
        for secret in [SIGNING_SECRET, TOKEN] {
            assert!(!contains(&content, secret), "{} contains a secret", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_setting_is_named_and_its_value_is_not_printed() {
    let data = tempfile::tempdir().unwrap();
    for (name, value) in [
        ("SLACK_BOT_TOKEN", "xoxb-17-with a blank"),
        ("SLACK_BOT_TOKENS_FILE", "/nowhere/xoxb-17-file"),
        ("SLACK_SIGNING_SECRETS_FILE", "/nowhere/signing-secrets.json"),
        ("SLACK_SIGNING_SECRET", "8f742231b10e8888abcd99yyyzzz85a5,b,c"),
    ] {
        let mut command = Command::new(&binaries().annalist);
        command.args(["up", "--listen", "127.0.0.1:0", "--data"]).arg(data.path());
        command.env_clear().env("SLACK_SIGNING_SECRET", SIGNING_SECRET).env(name, value);
        let output = command.output().await.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(name), "{stderr}");
        // A path may be printed: it is the location of a secret, not a secret.
        assert!(name == "SLACK_BOT_TOKENS_FILE" || find_secret(&stderr).is_none(), "{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_signing_secrets_that_cannot_be_used_ends_the_start_in_one_line() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("signing-secrets.json");
    let list = |secrets: usize| json!({ "A0123ABCD": vec![SIGNING_SECRET; secrets] }).to_string();
    for (text, expected) in [
        (json!([SIGNING_SECRET]).to_string(), "it is not a JSON object"),
        (json!({ "A0123ABCD": 5 }).to_string(), "the secret of A0123ABCD is neither text"),
        (list(3), "the secret of A0123ABCD cannot be one: it lists more than two"),
        (json!({ SIGNING_SECRET: "A0123ABCD" }).to_string(), "is not the id of an app"),
    ] {
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(&binaries().ingest);
        command.args(["--listen", "127.0.0.1:0", "--data"]).arg(data.path());
        command.env_clear().env("SLACK_SIGNING_SECRETS_FILE", &file);
        let output = command.output().await.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.contains("SLACK_SIGNING_SECRETS_FILE") && stderr.contains(expected), "{stderr}");
        assert!(find_secret(&stderr).is_none(), "{stderr}");
    }
}

/// Sends events to this path until one gets this status, and the process has logged this.
async fn send_until(server: &ServerProcess, path: &str, status: u16, logged: &str) {
    let mut sender = EventClient::for_address(server.address, RetryDelays::slack(Duration::from_millis(20)));
    sender.set_path(path);
    let body = event::envelope(TEAM, "Ev1", &json!({ "type": "app_uninstalled" }));
    let answered = async {
        loop {
            // Ingest closes a connection after a response that is not a success.
            let is_answered = sender.post(&body, &[]).await.is_ok_and(|response| response.status == status);
            if is_answered && server.process.log().contains(logged) {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, answered).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_is_added_to_the_file_while_ingest_runs() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("signing-secrets.json");
    std::fs::write(&file, json!({ "A01": SIGNING_SECRET }).to_string()).unwrap();
    let mut command = Command::new(&binaries().ingest);
    command.args(["--listen", "127.0.0.1:0", "--data"]).arg(data.path());
    command.env("SLACK_SIGNING_SECRETS_FILE", &file);
    let server = process::serve(&mut command).await;
    for (path, status, logged) in [
        ("/slack/events/A01", 200, ""),
        ("/slack/events/A02", 401, "its path names an app without a signing secret"),
        ("/slack/events", 401, ""),
    ] {
        send_until(&server, path, status, logged).await;
    }
    std::fs::write(&file, json!({ "A02": ["old", SIGNING_SECRET] }).to_string()).unwrap();
    send_until(&server, "/slack/events/A02", 200, "").await;
    send_until(&server, "/slack/events/A01", 401, "").await;
    // The last table stays.
    std::fs::write(&file, "{").unwrap();
    send_until(&server, "/slack/events/A01", 401, "cannot read a setting again").await;
    send_until(&server, "/slack/events/A02", 200, "").await;
    server.process.stop().await;
}

#[test]
fn generated_envelopes_contain_the_token_that_is_searched_for() {
    let body: Value = serde_json::from_str(&event::envelope(TEAM, "Ev1", &json!({}))).unwrap();
    assert_eq!(body["token"], VERIFICATION_TOKEN);
}
