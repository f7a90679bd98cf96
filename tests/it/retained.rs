//! What a retention rule removed is nowhere to be read, and nothing brings it back.

use std::path::Path;
use std::time::Duration;

use ports::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use testkit::corpus::{TEAM, event};
use testkit::fake_slack::{FakeSlack, FakeWorkspace, START_S, channel};
use tests::harness::client::deliver;
use tests::harness::command::{annalist_at, json_lines, wait_until_idle};
use tests::harness::environment::FolderWithSlack;
use tests::harness::process;

use crate::export::export;
use crate::export::formats::{contains, files_below};
use crate::import::export::{Export, ImportFolder, entries, exported_message};
use crate::mcp::Client;
use crate::view::get;

const DEADLINE: Duration = Duration::from_secs(30);
const TOKEN: &str = "xoxb-1";
const CHANNEL: &str = "C1";
const DAY_S: i64 = 86_400;

/// A word in everything that expires, and one in everything that stays.
const OLD: &str = "expiredword";
const YOUNG: &str = "keptword";

/// A timestamp this many days before the start of Slack's clock, plus a number of seconds.
fn ts(days_before: i64, second: i64) -> String {
    format!("{}.000100", START_S - days_before * DAY_S + second)
}

/// The messages of the channel: a thread and a message before the time at which the rule ends, and one after it.
fn messages() -> Vec<Value> {
    let root = event::message(&ts(20, 0), "U1", &format!("{OLD} in a root"));
    let reply = event::reply(&ts(20, 60), &ts(20, 0), "U1", &format!("{OLD} in a reply"));
    let alone = event::message(&ts(19, 0), "U1", &format!("{OLD} alone"));
    vec![root, reply, alone, event::message(&ts(3, 0), "U1", &format!("{YOUNG} alone"))]
}

/// The events of these messages, with an earlier text of one that expires.
fn events() -> Vec<Value> {
    let messages = messages();
    let mut events: Vec<Value> = messages.iter().map(|message| event::posted(CHANNEL, message)).collect();
    let edited = event::edited(&messages[2], &ts(19, 9), &format!("{OLD} in a later text"));
    events.push(event::changed(CHANNEL, &messages[2], &edited, &ts(19, 9)));
    events
}

/// Checks that no reader finds a word of what expired, and that each finds what stays.
async fn assert_expired(data: &Path, step: &str) {
    // The index follows by itself, but a reader on a busy machine may come before it.
    annalist_at(data, &["index"]).await.succeeded();
    for (command, is_found) in [
        (&["messages", CHANNEL, "--json"][..], true),
        (&["search", YOUNG, "--json"], true),
        (&["search", OLD, "--json"], false),
        (&["thread", CHANNEL, &ts(20, 0), "--json"], false),
    ] {
        let printed = annalist_at(data, command).await.stdout;
        assert!(!printed.contains(OLD), "{step}, {command:?}: {printed}");
        assert_eq!(printed.contains(YOUNG), is_found, "{step}, {command:?}: {printed}");
    }
    let folder = tempfile::tempdir().unwrap();
    for format in ["slack", "html", "jsonl", "markdown", "text"] {
        let out = folder.path().join(format);
        export(data, format, &out, &["--include-deleted"]).await.succeeded();
        let files: Vec<Vec<u8>> = match format {
            "slack" => entries(&out).into_values().collect(),
            _ => files_below(&out).into_values().collect(),
        };
        let has = |word: &str| files.iter().any(|bytes| contains(bytes, word));
        assert_eq!((has(OLD), has(YOUNG)), (false, true), "{step}, {format}");
    }
    let view = process::view(data, &[]).await;
    for (path, is_found) in [
        (format!("/c/{TEAM}/{CHANNEL}"), true),
        (format!("/c/{TEAM}/{CHANNEL}?around={}", ts(20, 0)), false),
        (format!("/t/{TEAM}/{CHANNEL}/{}", ts(20, 0)), false),
        (format!("/r/{TEAM}/{CHANNEL}/{}", ts(19, 0)), false),
        (format!("/search?q={YOUNG}"), true),
        (format!("/api/v1/messages?channel={CHANNEL}&team={TEAM}"), true),
        (format!("/api/v1/search?q={YOUNG}"), true),
        (format!("/api/v1/thread?channel={CHANNEL}&ts={}", ts(20, 0)), false),
    ] {
        let page = get(view.address, &path, "localhost").await;
        assert!(!page.contains(OLD), "{step}, {path}: {page}");
        assert!(!is_found || page.contains(YOUNG), "{step}, {path}: {page}");
    }
    view.process.stop().await;
    let client = Client::new(data).await;
    let found = client.answer("search", json!({ "query": OLD, "include_deleted": true })).await;
    assert_eq!(found["messages"], json!([]), "{step}");
    let read = client.answer("read_channel", json!({ "channel": CHANNEL, "include_deleted": true })).await;
    let read = read.to_string();
    assert!(!read.contains(OLD) && read.contains(YOUNG), "{step}: {read}");
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reader_finds_what_has_expired_and_nothing_brings_it_back() {
    let slack = FakeSlack::start().await;
    let mut workspace = FakeWorkspace { knows_every_id: true, ..FakeWorkspace::new(TEAM) };
    workspace.channels = vec![channel(CHANNEL, "general")];
    messages().iter().for_each(|message| workspace.channel_history(CHANNEL).post(message));
    slack.set_workspace(TOKEN, workspace);
    let import_folder = ImportFolder::new();
    let data = &*import_folder.data();
    let here = FolderWithSlack { data, slack: &slack, token: TOKEN };
    let up = process::up(&here).await;
    deliver(up.address, TEAM, &events()).await;
    wait_until_idle(data, DEADLINE).await;
    let searched = async || {
        annalist_at(data, &["index"]).await.succeeded();
        json_lines(data, &["search", OLD]).await.len()
    };
    assert_eq!(searched().await, 3);
    // The rule ends ten days before the start of Slack's clock.
    let days = (SystemClock.now().seconds() - (START_S - 10 * DAY_S)) / DAY_S;
    annalist_at(data, &["retain", "set", "--workspace", &format!("{days}d"), "--yes"]).await.succeeded();
    let run = json_lines(data, &["retain", "run"]).await;
    let sum = run.last().unwrap();
    assert_eq!((&sum["messages"], &sum["revisions"]), (&json!(3), &json!(1)), "{run:?}");
    assert_expired(data, "the run").await;

    deliver(up.address, TEAM, &events()).await;
    wait_until_idle(data, DEADLINE).await;
    assert_expired(data, "events again").await;
    up.process.stop().await;
    let exported: Vec<Value> = [(20, OLD), (3, YOUNG)]
        .map(|(days, word)| exported_message(&ts(days, 0), "U1", &format!("{word} of an export")))
        .into();
    let zip = import_folder.zip(
        "again.zip",
        &Export::with_lists(&["U1"], &[(CHANNEL, "general")])
            .with("general/2023-11-01.json", &json!(exported)),
    );
    let imported = annalist_at(data, &["import", zip.to_str().unwrap(), "--json"]).await.succeeded();
    let counts: Value = serde_json::from_str(imported.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(counts["expired"], 1, "{counts}");
    assert_expired(data, "an import").await;
    annalist_at(&here, &["backfill", "--all"]).await.succeeded();
    assert_expired(data, "history").await;
    for _ in 0..2 {
        let compared = annalist_at(&here, &["reconcile", "--all", "--json"]).await.succeeded();
        let sum: Value = serde_json::from_str(compared.stdout.lines().last().unwrap()).unwrap();
        assert_eq!([&sum["missing"], &sum["changed"], &sum["extra"]], [0, 0, 0], "{sum}");
    }
    assert_expired(data, "a comparison").await;
}
