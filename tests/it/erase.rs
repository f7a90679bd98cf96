//! `annalist erase` on the real binary: no file of the folder contains erased data any more, and no later
//! input restores it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, channel, person};
use tests::harness::client::deliver;
use tests::harness::command::{annalist_at, annalist_with, json_lines, wait_until_idle};
use tests::harness::environment::FolderWithSlack;
use tests::harness::process::{self, ServerProcess};

use crate::export::formats::{contains, files_below};
use crate::import::export::{
    Export, ImportFolder, TEAM, channel as exported_channel, exported_message, file,
    person as exported_person,
};
use crate::import::{import, rows};

const DEADLINE: Duration = Duration::from_secs(60);
const TOKEN: &str = "xoxb-1";

/// A word in everything that will be erased, and in nothing that stays.
const MARKER: &str = "xyzzymarker";

fn ts(second: u32) -> String {
    format!("16000{second:05}.000100")
}

fn secret(second: u32) -> Value {
    event::message(&ts(second), "U1", &format!("{MARKER} said in second {second}"))
}

fn open(second: u32) -> Value {
    event::message(&ts(second), "U2", &format!("<@U1> heard it in second {second}"))
}

/// The events: messages, an edit, a profile, a reaction.
fn events() -> Vec<Value> {
    let edited = event::edited(&secret(1), &ts(90), &format!("{MARKER} corrected"));
    let mut profile = event::user_change("U1", &format!("Ana {MARKER}"), &ts(3));
    profile["user"]["team_id"] = TEAM.into();
    vec![
        event::posted("C1", &secret(1)),
        event::posted("C1", &open(2)),
        profile,
        event::changed("C1", &secret(1), &edited, &ts(90)),
        event::reaction_added("C1", &ts(2), "U1", "tada", &ts(91)),
        event::posted("C2", &secret(4)),
    ]
}

/// An export of the same workspace, with a file and another profile.
fn export() -> Export {
    let bytes = format!("the bytes of a {MARKER}");
    let mut shared = exported_message(&ts(5), "U1", &format!("a file for {MARKER}"));
    shared["files"] = json!([file("F1", bytes.len())]);
    let mut ana = exported_person("U1");
    ana["profile"]["real_name"] = format!("Ana {MARKER} Example").into();
    Export::default()
        .with("users.json", &json!([ana, exported_person("U2")]))
        .with("channels.json", &json!([exported_channel("C1", "general"), exported_channel("C2", "random")]))
        .with("general/2020-09-13.json", &json!([shared, exported_message(&ts(6), "U2", "exported")]))
        .with_bytes("__uploads/F1/a.txt", bytes)
}

/// A Slack that still has the messages and lists the person.
async fn slack() -> FakeSlack {
    let slack = FakeSlack::start().await;
    let mut workspace = FakeWorkspace { knows_every_id: true, ..FakeWorkspace::new(TEAM) };
    workspace.channels = vec![channel("C1", "general"), channel("C2", "random")];
    workspace.members = vec![person("U1", &format!("ana {MARKER}")), person("U2", "bob")];
    for second in [1, 7, 8] {
        workspace.channel_history("C1").post(&secret(second));
    }
    workspace.channel_history("C1").post(&open(2));
    slack.set_workspace(TOKEN, workspace);
    slack
}

fn environment<'a>(slack: &'a FakeSlack, data: &'a Path) -> FolderWithSlack<'a> {
    FolderWithSlack { data, slack, token: TOKEN }
}

async fn stop(server: ServerProcess, data: &Path) {
    wait_until_idle(data, DEADLINE).await;
    server.process.stop().await;
}

/// The one object that `erase --json` prints.
async fn erase(data: &Path, args: &[&str]) -> Value {
    let mut lines = json_lines(data, &[&["erase"], args].concat()).await;
    assert_eq!(lines.len(), 1);
    lines.remove(0)
}

/// The files below a folder that contain the marker in their bytes or path.
fn leaks(folder: &Path) -> Vec<PathBuf> {
    let mut files = files_below(folder);
    files.retain(|path, bytes| contains(bytes, MARKER) || path.to_str().unwrap().contains(MARKER));
    files.into_keys().collect()
}

async fn texts(data: &Path, channel: &str) -> Vec<String> {
    let messages = json_lines(data, &["messages", channel]).await;
    messages.iter().map(|message| message["text"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_file_contains_an_erased_person_and_no_input_restores_them() {
    let import_folder = ImportFolder::new();
    let (slack, data, zip) =
        (slack().await, import_folder.data(), import_folder.zip("export.zip", &export()));
    let server = process::up(&environment(&slack, &data)).await;
    // The sync sends jobs for pictures, which would be counted if they arrived later.
    server.process.wait_for_log("the directory is synced", DEADLINE).await;
    deliver(server.address, TEAM, &events()).await;
    stop(server, &data).await;
    assert_eq!(import(&zip, &data).await.code, Some(0));
    assert_eq!(annalist_at(&*data, &["index"]).await.code, Some(0));
    let before = rows(&data);
    assert!(leaks(&data).len() >= 2, "the database and a file: {:?}", leaks(&data));

    let planned = erase(&data, &["--user", "U1"]).await;
    let counts = ["messages", "revisions", "files", "users", "reports", "quarantined", "jobs"]
        .map(|name| planned[name].as_u64());
    assert_eq!(counts, [Some(3), Some(1), Some(1), Some(1), Some(0), Some(0), Some(0)], "{planned}");
    assert_eq!((&planned["scope"], &planned["dry_run"]), (&json!("user#U1"), &json!(true)));
    assert_eq!(rows(&data), before, "a dry run changes nothing");
    assert!(data.join("index.db").exists());

    let done = erase(&data, &["--user", "U1", "--yes", "--compact"]).await;
    for name in ["messages", "revisions", "files", "bytes", "users"] {
        assert_eq!(done[name], planned[name], "{name}: {done}");
    }
    assert_eq!(leaks(&data), [] as [PathBuf; 0]);
    assert_eq!(texts(&data, "#general").await, ["<@U1> heard it in second 2", "exported"]);
    let record = rows(&data).into_iter().find(|(item, ..)| item == &format!("erasure#{TEAM}")).unwrap();
    assert!(record.2.contains("\"messages\":3") && record.2.contains("user#U1"), "{record:?}");

    // Slack delivers all events again, and two new ones.
    let server = process::up(&environment(&slack, &data)).await;
    deliver(server.address, TEAM, &events()).await;
    deliver(server.address, TEAM, &[event::posted("C1", &secret(9)), event::posted("C1", &open(10))]).await;
    stop(server, &data).await;
    assert_eq!(import(&zip, &data).await.code, Some(0));
    for command in [&["backfill", "--all"][..], &["sync"]] {
        annalist_at(&environment(&slack, &data), command).await.succeeded();
    }
    assert_eq!(annalist_at(&*data, &["search", MARKER]).await.stdout, "Nothing was found.\n");
    assert_eq!(leaks(&data), [] as [PathBuf; 0]);
    assert_eq!(texts(&data, "#general").await.len(), 3, "other people's new messages are still stored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_and_a_message_are_erased_while_up_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (slack, data) = (slack().await, folder.path());
    let server = process::up(&environment(&slack, data)).await;
    deliver(server.address, TEAM, &events()).await;
    wait_until_idle(data, DEADLINE).await;
    let done = erase(data, &["--channel", "C2", "--yes"]).await;
    assert_eq!(
        (&done["scope"], &done["messages"], &done["users"]),
        (&json!("channel#C2"), &json!(1), &json!(0))
    );
    let text = annalist_at(data, &["erase", "--message", "C1", &ts(1), "--yes", "--compact"]).await;
    assert!(
        text.code == Some(0) && text.stdout.starts_with("Erased for good: 1 message, 1 earlier version."),
        "{text:?}"
    );
    assert_eq!(erase(data, &["--user", "U1", "--yes", "--compact"]).await["messages"], 0);
    deliver(server.address, TEAM, &events()).await;
    stop(server, data).await;
    assert_eq!(leaks(data), [] as [PathBuf; 0]);
    assert_eq!(texts(data, "C1").await, ["<@U1> heard it in second 2"]);
    let database = rusqlite::Connection::open(data.join("annalist.db")).unwrap();
    let shown: String = database
        .query_row("SELECT group_concat(concat_ws(' ', scope, messages, files), ', ') FROM (SELECT * FROM erasures ORDER BY at)", [], |row| row.get(0))
        .unwrap();
    assert_eq!(shown, format!("channel#C2 1 0, message#C1#{} 1 0, user#U1 0 0", ts(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_on_a_queue_are_erased_too() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let server = process::up(data).await;
    deliver(server.address, TEAM, &[event::posted("C1", &open(3))]).await;
    stop(server, data).await;
    let ingest = process::ingest(data).await;
    deliver(ingest.address, TEAM, &events()).await;
    ingest.process.stop().await;
    assert_eq!(leaks(data).len(), 1);
    let planned = erase(data, &["--user", "U1"]).await;
    assert_eq!((&planned["jobs"], &planned["messages"]), (&json!(4), &json!(0)), "{planned}");
    assert_eq!(erase(data, &["--user", "U1", "--yes", "--compact"]).await["jobs"], 4);
    assert_eq!(leaks(data), [] as [PathBuf; 0]);
    let server = process::up(data).await;
    stop(server, data).await;
    assert_eq!(texts(data, "C1").await, ["<@U1> heard it in second 2", "<@U1> heard it in second 3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaying_erasures_on_an_older_backup_erases_the_person_again() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy, file) =
        (folder.path().join("data"), folder.path().join("copy"), folder.path().join("a.tar"));
    let server = process::up(&*data).await;
    deliver(server.address, TEAM, &events()).await;
    stop(server, &data).await;
    let (packed, restored) = (file.to_str().unwrap(), copy.to_str().unwrap());
    assert_eq!(annalist_at(&*data, &["backup", packed]).await.code, Some(0));
    assert_eq!(erase(&data, &["--user", "U1", "--yes"]).await["messages"], 2);

    let outcome = annalist_with(&["restore", packed, "--data", restored], &[]).await;
    assert!(outcome.stdout.contains("annalist erase --replay --yes"), "{outcome:?}");
    let outcome = annalist_at(&*copy, &["erase", "--replay"]).await;
    assert!(outcome.code == Some(1) && outcome.stderr.contains("there is no list"), "{outcome:?}");
    std::fs::copy(data.join("erasures.jsonl"), copy.join("erasures.jsonl")).unwrap();
    assert_eq!(erase(&copy, &["--replay"]).await["messages"], 2);
    let replayed = erase(&copy, &["--replay", "--yes", "--compact"]).await;
    assert_eq!((&replayed["messages"], &replayed["scope"]), (&json!(2), &json!("replay")));
    assert_eq!(leaks(&copy), [] as [PathBuf; 0]);
    let server = process::up(&*copy).await;
    deliver(server.address, TEAM, &events()).await;
    stop(server, &copy).await;
    assert_eq!(leaks(&copy), [] as [PathBuf; 0]);
}
