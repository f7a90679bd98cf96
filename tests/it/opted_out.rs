//! Opting out, checked from the bytes: no file of the data folder contains what a person writes meanwhile.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ports::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use testkit::corpus::{TEAM, event};
use testkit::fake_files;
use tests::harness::client::deliver;
use tests::harness::command::{annalist_at, json_lines, wait_until_idle};
use tests::harness::environment::ProgramEnvironment;
use tests::harness::process;
use tokio::process::Command;
use wiremock::MockServer;

use crate::export::formats::{contains, files_below};

const DEADLINE: Duration = Duration::from_secs(30);
const CHANNEL: &str = "C01";
/// A word in everything that must not be stored, and the file with it: its bytes repeat its id.
const MARKER: &str = "MARKOFOUT";
const FILE: &str = "FMARKOFOUT";

struct FolderWithFiles<'a> {
    data: PathBuf,
    slack: &'a MockServer,
}

impl ProgramEnvironment for FolderWithFiles<'_> {
    fn configure(&self, command: &mut Command) {
        self.data.configure(command);
        command.env("SLACK_BOT_TOKEN", "xoxb-1").env("SLACK_API_URL", format!("{}/api/", self.slack.uri()));
    }
}

/// A timestamp that is ahead of the clock of this machine, but not too far for a new event.
fn ahead(second: i64) -> String {
    format!("{}.000100", SystemClock.now().seconds() + 100 + second)
}

fn leaks(data: &Path) -> Vec<PathBuf> {
    let mut files = files_below(data);
    files.retain(|path, bytes| contains(bytes, MARKER) || path.to_str().unwrap().contains(MARKER));
    files.into_keys().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_file_contains_what_a_person_writes_while_out_and_threads_stay_whole() {
    let slack = fake_files::slack().await;
    let folder = tempfile::tempdir().unwrap();
    let here = FolderWithFiles { data: folder.path().join("data"), slack: &slack };
    let data = &*here.data;
    let up = process::up(&here).await;
    let before = "1700000000.000100";
    deliver(up.address, TEAM, &[event::posted(CHANNEL, &event::message(before, "U01", "before"))]).await;
    wait_until_idle(data, DEADLINE).await;
    annalist_at(data, &["optout", "add", "--user", "U01"]).await.succeeded();

    let (root, reply, answer, share) = (ahead(1), ahead(2), ahead(3), ahead(4));
    let said = event::message(&root, "U01", MARKER);
    let edited = event::edited(&said, &ahead(5), &format!("{MARKER} again"));
    let mut shared = fake_files::message_with_file(&slack, FILE, &share);
    shared["text"] = MARKER.into();
    let events = [
        event::posted(CHANNEL, &said),
        event::posted(CHANNEL, &event::reply(&reply, before, "U01", MARKER)),
        event::posted(CHANNEL, &event::reply(&answer, &root, "U02", "an answer")),
        event::posted(CHANNEL, &shared),
        event::changed(CHANNEL, &said, &edited, &ahead(5)),
    ];
    deliver(up.address, TEAM, &events).await;
    wait_until_idle(data, DEADLINE).await;
    let rows = json_lines(data, &["messages", CHANNEL]).await;
    let row = |ts: &str| rows.iter().find(|row| row["timestamp"] == ts).cloned().unwrap_or_default();
    for withheld in [&root, &reply, &share] {
        let row = row(withheld);
        assert_eq!((&row["withheld"], &row["user_id"]), (&json!(true), &Value::Null), "{row}");
    }
    assert_eq!((&row(before)["text"], &row(&answer)["text"]), (&json!("before"), &json!("an answer")));
    let thread = json_lines(data, &["thread", CHANNEL, &root]).await;
    assert_eq!(thread.len(), 2, "{thread:?}");
    let asked = slack.received_requests().await.unwrap();
    assert!(!asked.iter().any(|request| request.url.path().contains(FILE)), "the file was fetched");

    annalist_at(data, &["optout", "remove", "--user", "U01"]).await.succeeded();
    let after = ahead(9);
    deliver(up.address, TEAM, &[event::posted(CHANNEL, &event::message(&after, "U01", "after"))]).await;
    wait_until_idle(data, DEADLINE).await;
    up.process.stop().await;
    assert_eq!(leaks(data), [] as [PathBuf; 0]);
    let rows = json_lines(data, &["messages", CHANNEL]).await;
    assert!(rows.iter().any(|row| row["text"] == "after"), "{rows:?}");
}
