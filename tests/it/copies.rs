//! Copies that are made while real processes write, and their restores.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, channel};
use tests::harness::binaries::binaries;
use tests::harness::client::{RetryDelays, deliver};
use tests::harness::command::{annalist, annalist_at, json_lines, status, wait_until_idle};
use tests::harness::environment::FolderWithSlack;
use tests::harness::load::RunningLoad;
use tests::harness::process::{self, ServerProcess};
use tests::harness::procfs;
use tests::harness::verify::assert_archive_holds;
use tokio::process::Command;

const SENDERS: usize = 4;
const EVENTS: usize = 400;
const MINUTE: Duration = Duration::from_millis(20);
const DEADLINE: Duration = Duration::from_secs(30);
const SLACK_START_S: u64 = 1_700_000_000;

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Per channel, the `ts` of its messages, oldest first.
async fn messages(data: &Path) -> BTreeMap<String, Vec<String>> {
    let mut archive = BTreeMap::new();
    for channel in json_lines(data, &["channels"]).await {
        let channel = channel["channel_id"].as_str().unwrap().to_owned();
        let rows = json_lines(data, &["messages", &channel]).await;
        let ts = |row: &Value| row["timestamp"].as_str().or(row["ts"].as_str()).unwrap().to_owned();
        archive.insert(channel, rows.iter().map(ts).collect());
    }
    archive
}

async fn restore(from: &Path, data: &Path) {
    annalist(&["restore", path(from), "--data", path(data)]).await.succeeded();
    annalist_at(data, &["verify", "--copy", path(from)]).await.succeeded();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_under_load_is_the_archive_at_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let (data, to) = (folder.path().join("data"), folder.path().join("copies"));
    let restored = folder.path().join("restored");
    std::fs::create_dir(&to).unwrap();
    let up = process::up_with(&*data, &["--copy-to", path(&to)]).await;
    // A missed night is made up for at the start.
    up.process.wait_for_log("the night's copy is made", DEADLINE).await;
    let mut load = RunningLoad::start(up.address, SENDERS, 41, &RetryDelays::slack(MINUTE));
    load.wait_for_acks(EVENTS).await;
    let before = messages(&data).await;
    let made = annalist_at(&*data, &["copy", "--to", path(&to), "--json"]).await.succeeded();
    // The copy blocked no sender.
    load.wait_for_acks(EVENTS / 4).await;
    let sent = load.stop().await;
    wait_until_idle(&*data, DEADLINE).await;
    assert_archive_holds(&*data, &sent.model).await;
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    let shown = status(&*data).await;
    assert_eq!((&shown["copy"]["at"], &shown["copy"]["to"]), (&made["at"], &path(&to).into()), "{shown}");
    assert_eq!(json_lines(&*data, &["copy", "--to", path(&to), "--list"]).await.len(), 2);
    let original = messages(&data).await;
    // A lost disk.
    up.process.sigkill().await;
    std::fs::remove_dir_all(&data).unwrap();

    restore(&to, &restored).await;
    let up = process::up_with(&*restored, &["--copy-to", path(&to)]).await;
    wait_until_idle(&*restored, DEADLINE).await;
    let copied = messages(&restored).await;
    for (channel, copied) in &copied {
        // A channel's messages are written in order, so the copy has no holes.
        assert_eq!(copied[..], original[channel][..copied.len()], "{channel}");
    }
    for (channel, before) in &before {
        assert!(copied[channel].len() >= before.len(), "{channel} was there before the copy began");
    }
    // It goes on copying to the same target.
    annalist_at(&*restored, &["copy", "--to", path(&to)]).await.succeeded();
    up.process.stop().await;
}

/// The timestamp this number of seconds after the start of a test.
fn ts(second: u64) -> String {
    format!("{}.000100", SLACK_START_S + second)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_lost_disk_the_time_since_the_copy_is_a_gap_that_history_fills() {
    const TOKEN: &str = "xoxb-1";
    let slack = FakeSlack::start().await;
    let mut workspace = FakeWorkspace { knows_every_id: true, ..FakeWorkspace::new("T1") };
    workspace.channels.push(channel("C1", "general"));
    slack.set_workspace(TOKEN, workspace);
    let folder = tempfile::tempdir().unwrap();
    let (data, to) = (folder.path().join("data"), folder.path().join("copies"));
    let restored = folder.path().join("restored");
    std::fs::create_dir(&to).unwrap();
    let here = |data| FolderWithSlack { data, slack: &slack, token: TOKEN };
    let message = |second| event::message(&ts(second), "U1", &format!("said at {second}"));
    // What Slack shows, and an event of it.
    let post = async |up: &ServerProcess, event: &Value| {
        slack.change_workspace(TOKEN, |workspace| workspace.channel_history("C1").post(event));
        deliver(up.address, "T1", &[event::posted("C1", event)]).await;
    };
    let up = process::up(&here(&data)).await;
    for second in [0, 100] {
        post(&up, &message(second)).await;
    }
    wait_until_idle(&*data, DEADLINE).await;
    annalist_at(&*data, &["copy", "--to", path(&to)]).await.succeeded();
    post(&up, &message(200)).await;
    post(&up, &event::reply(&ts(300), &ts(100), "U2", "a late reply")).await;
    let edited = event::edited(&message(0), &ts(400), "edited later");
    slack.change_workspace(TOKEN, |workspace| workspace.channel_history("C1").post(&edited));
    deliver(up.address, "T1", &[event::changed("C1", &message(0), &edited, &ts(400))]).await;
    wait_until_idle(&*data, DEADLINE).await;
    up.process.sigkill().await;
    std::fs::remove_dir_all(&data).unwrap();

    restore(&to, &restored).await;
    slack.set_clock(SLACK_START_S as i64 + 7_260);
    let up = process::up(&here(&restored)).await;
    post(&up, &message(7_200)).await;
    wait_until_idle(&*restored, DEADLINE).await;
    up.process.stop().await;
    let gaps = json_lines(&*restored, &["gaps"]).await;
    let shown = ["reason", "from", "to"].map(|name| gaps[0][name].as_str().unwrap());
    assert_eq!((gaps.len(), shown), (1, ["downtime", &*ts(100), &*ts(7_200)]), "{gaps:?}");
    annalist_at(&here(&restored), &["backfill", "--all"]).await.succeeded();
    let gaps = json_lines(&*restored, &["gaps"]).await;
    assert_eq!(gaps[0]["state"], "filled", "{gaps:?}");
    annalist_at(&here(&restored), &["reconcile", "--all"]).await.succeeded();
    let rows = json_lines(&*restored, &["messages", "C1", "--flat"]).await;
    let texts: Vec<&str> = rows.iter().filter_map(|row| row["text"].as_str()).collect();
    assert_eq!(texts, ["edited later", "said at 100", "said at 200", "a late reply", "said at 7200"]);
    annalist_at(&*restored, &["verify"]).await.succeeded();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_copy_leaves_the_last_one_usable_and_the_next_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (data, to) = (folder.path().join("data"), folder.path().join("copies"));
    std::fs::create_dir(&to).unwrap();
    process::up(&*data).await.process.stop().await;
    annalist_at(&*data, &["copy", "--to", path(&to)]).await.succeeded();
    let database = rusqlite::Connection::open(data.join("annalist.db")).unwrap();
    let insert = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100000)
        INSERT INTO items (item_id, timestamp, attributes)
        SELECT 'message#T1#C1', (1700000000 + n) || '.000000', json_object('text', hex(randomblob(40))) FROM n";
    database.execute_batch(insert).unwrap();
    let count = || walk(&to.join("block"));
    let before = count();
    let mut command = Command::new(&binaries().annalist);
    let copy = ["copy", "--to", path(&to), "--data", path(&data)];
    let mut child = command.args(copy).env_clear().kill_on_drop(true).spawn().unwrap();
    let begun = async {
        while count() < before + 20 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, begun).await.expect("blocks are written");
    // A second copier at the same time.
    annalist_at(&*data, &["copy", "--to", path(&to)]).await.assert_refused(1, "another copy is running");
    assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
    child.kill().await.unwrap();
    assert_eq!(json_lines(&*data, &["copy", "--to", path(&to), "--list"]).await.len(), 1);
    restore(&to, &folder.path().join("after-the-kill")).await;

    let written = count();
    let made = &json_lines(&*data, &["copy", "--to", path(&to)]).await[0];
    let (blocks, new) = (made["blocks"].as_u64().unwrap(), made["new_blocks"].as_u64().unwrap());
    assert!(new < blocks && new + written as u64 >= blocks, "{made}, after {written} blocks");
    assert!(!to.join(".unfinished").read_dir().is_ok_and(|left| left.count() > 0));
    restore(&to, &folder.path().join("after-the-next")).await;
}

/// What a copier may hold, and an archive that is larger.
const COPIER_KIB: u64 = 64 * 1024;
const LARGE_BYTES: u64 = 96 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copier_never_holds_as_much_as_a_large_archive_has() {
    let folder = tempfile::tempdir().unwrap();
    let (data, to) = (folder.path().join("data"), folder.path().join("copies"));
    std::fs::create_dir(&to).unwrap();
    process::up(&*data).await.process.stop().await;
    let database = rusqlite::Connection::open(data.join("annalist.db")).unwrap();
    let insert = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 50000)
        INSERT INTO items (item_id, timestamp, attributes)
        SELECT 'message#T1#C1', (1700000000 + n) || '.000000', json_object('text', hex(randomblob(1000))) FROM n";
    database.execute_batch(insert).unwrap();
    drop(database);
    assert!(std::fs::metadata(data.join("annalist.db")).unwrap().len() > LARGE_BYTES);
    let mut command = Command::new(&binaries().annalist);
    let copy = ["copy", "--to", path(&to), "--data", path(&data)];
    let mut child = command.args(copy).env_clear().kill_on_drop(true).spawn().unwrap();
    let (pid, mut peak_kib) = (child.id().unwrap(), 0);
    // The peak only grows, and is gone with the process.
    while let Some(usage) = procfs::usage(pid) {
        peak_kib = usage.peak_rss_kib;
        tokio::task::yield_now().await;
    }
    assert!(child.wait().await.unwrap().success());
    assert!((1..COPIER_KIB).contains(&peak_kib), "{peak_kib} KiB");
}

/// The number of files below a folder.
fn walk(folder: &Path) -> usize {
    let Ok(entries) = folder.read_dir() else { return 0 };
    entries.map(|entry| entry.unwrap().path()).map(|path| if path.is_dir() { walk(&path) } else { 1 }).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_cannot_be_made_is_one_line_and_up_goes_on_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let (data, other) = (folder.path().join("data"), folder.path().join("other"));
    let (to, missing) = (folder.path().join("copies"), folder.path().join("missing"));
    std::fs::create_dir(&to).unwrap();
    let up = process::up_with(&*data, &["--copy-to", path(&missing)]).await;
    up.process.wait_for_log("no copy was made", DEADLINE).await;
    assert!(status(&*data).await["copy"]["error"].as_str().unwrap().contains("does not exist"));
    assert!(!missing.exists());
    annalist_at(&*data, &["copy", "--to", path(&to)]).await.succeeded();
    process::up(&*other).await.process.stop().await;
    annalist_at(&*other, &["copy", "--to", path(&to)]).await.assert_refused(1, "another archive");
    let (within, data_path, to) = (data.join("copies"), path(&data), path(&to));
    for (args, code, expected) in [
        (&["copy", "--to", path(&within), "--data", data_path][..], 2, "another disk"),
        (&["copy", "--data", data_path], 2, "--to"),
        (&["copy", "--to", "ftp://host/x", "--data", data_path], 2, "folder"),
        (&["copy", "--to", to, "--copy-keep", "forever", "--data", data_path], 2, "7d"),
        (&["copy", "--to", to, "--backend", "aws"], 2, "point-in-time recovery"),
        (&["up", "--copy-to", path(&within), "--data", data_path], 2, "another disk"),
        (&["up", "--copy-to", to, "--copy-keep", "0d", "--data", data_path], 2, "1d"),
        (&["restore", to, "--data", data_path], 1, "not empty"),
        (&["restore", path(folder.path()), "--data", path(&missing)], 1, "has no copy"),
        (&["restore", to, "--until", "2001-01-01", "--data", path(&missing)], 1, "--until"),
        (&["restore", to, "--until", "soon", "--data", path(&missing)], 2, "2026-11-20"),
        (&["verify", "--copy", path(&missing), "--data", data_path], 1, "does not exist"),
    ] {
        annalist(args).await.assert_refused(code, expected);
    }
    up.process.stop().await;
}
