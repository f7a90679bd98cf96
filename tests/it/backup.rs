//! Backups that are created while real processes write, and their restores.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tests::harness::binaries::binaries;
use tests::harness::client::RetryDelays;
use tests::harness::command::{CommandOutput, annalist, annalist_at, json_lines, status, wait_until_idle};
use tests::harness::load::RunningLoad;
use tests::harness::process;
use tests::harness::verify::assert_archive_holds;
use tokio::process::Command;

const SENDERS: usize = 4;
const EVENTS: usize = 400;
const MINUTE: Duration = Duration::from_millis(20);
const DEADLINE: Duration = Duration::from_secs(30);
/// Large enough to kill the copy in the middle.
const LARGE: &str = "slack/T1/C1/1700000000.000100/F1";
const LARGE_BYTES: u64 = 192 * 1024 * 1024;

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

async fn back_up(data: &Path, file: &Path) -> String {
    let outcome = annalist_at(data, &["backup", path(file)]).await;
    assert!(outcome.code == Some(0) && outcome.stderr.is_empty(), "{outcome:?}");
    outcome.stdout
}

async fn restore(file: &Path, data: &Path) -> CommandOutput {
    annalist(&["restore", path(file), "--data", path(data)]).await
}

/// Per channel, the `ts` of each message and its row as readers see it.
async fn messages(data: &Path) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut archive = BTreeMap::new();
    for channel in json_lines(data, &["channels"]).await {
        archive.insert(channel["channel_id"].as_str().unwrap().to_owned(), BTreeMap::new());
    }
    for n in 1..=SENDERS * 3 {
        archive.entry(testkit::corpus::channel_id(n)).or_default();
    }
    for (channel, rows) in &mut archive {
        let outcome = annalist_at(data, &["messages", channel, "--json"]).await;
        // A channel without a row is unknown.
        for line in outcome.stdout.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            rows.insert(
                row["timestamp"].as_str().or(row["ts"].as_str()).unwrap().to_owned(),
                row.to_string(),
            );
        }
    }
    archive
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_the_archive_at_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let file = folder.path().join("a.tar");
    let up = process::up(&*data).await;
    let mut load = RunningLoad::start(up.address, SENDERS, 31, &RetryDelays::slack(MINUTE));
    load.wait_for_acks(EVENTS).await;
    let before = messages(&data).await;
    let printed = back_up(&data, &file).await;
    // The backup blocked no sender, and no sender blocked it.
    load.wait_for_acks(EVENTS / 4).await;
    let sent = load.stop().await;
    wait_until_idle(&*data, DEADLINE).await;
    assert_archive_holds(&*data, &sent.model).await;
    assert!(printed.contains("the database") && printed.contains("bytes"), "{printed}");

    let restored = restore(&file, &copy).await;
    assert!(restored.code == Some(0) && restored.stderr.is_empty(), "{restored:?}");
    let up_again = process::up(&*copy).await;
    wait_until_idle(&*copy, DEADLINE).await;
    let (original, copied) = (messages(&data).await, messages(&copy).await);
    let mut rows = 0;
    for (channel, copied) in &copied {
        let original = &original[channel];
        for ts in before[channel].keys() {
            assert!(copied.contains_key(ts), "{ts} in {channel} was there before the backup began");
        }
        // A channel's messages are written in order, so the copy has no holes.
        if let Some((last, _)) = copied.last_key_value() {
            let prefix: Vec<&String> = original.range(..=last.clone()).map(|(ts, _)| ts).collect();
            assert_eq!(copied.keys().collect::<Vec<_>>(), prefix, "{channel}");
        }
        rows += copied.len();
    }
    assert!(rows > 0);
    up_again.process.stop().await;
    up.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_of_a_backup_is_drained_to_the_same_archive() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let file = folder.path().join("a.tar");
    // No worker drains the queue: the one writer is killed while it holds leases.
    let ingest = process::ingest(&*data).await;
    let mut load = RunningLoad::start(ingest.address, SENDERS, 32, &RetryDelays::slack(MINUTE));
    load.wait_for_acks(EVENTS / 2).await;
    let writer = process::message_writer(&*data).await;
    load.wait_for_acks(EVENTS / 8).await;
    writer.sigkill().await;
    load.wait_for_acks(EVENTS / 2).await;
    let sent = load.stop().await;
    back_up(&data, &file).await;

    // An empty folder may be a mounted volume, so restore must not replace it.
    std::fs::create_dir(&copy).unwrap();
    assert_eq!(restore(&file, &copy).await.code, Some(0));
    let (waiting, restored) = (status(&*data).await, status(&*copy).await);
    assert_eq!(restored["queues"][0]["in_flight"], 0, "{restored}");
    let all = |status: &serde_json::Value| {
        let queue = &status["queues"][0];
        queue["waiting"].as_u64().unwrap() + queue["in_flight"].as_u64().unwrap()
    };
    assert!(all(&restored) > 0 && all(&restored) == all(&waiting), "{restored} {waiting}");
    ingest.process.stop().await;
    let ups = [process::up(&*data).await, process::up(&*copy).await];
    for folder in [&data, &copy] {
        wait_until_idle(&**folder, DEADLINE).await;
        assert_archive_holds(&**folder, &sent.model).await;
    }
    assert_eq!(messages(&data).await, messages(&copy).await);
    for up in ups {
        up.process.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_backup_leaves_no_file_and_a_killed_restore_no_archive() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let file = folder.path().join("a.tar");
    process::up(&*data).await.process.stop().await;
    let large = data.join("files").join(LARGE);
    std::fs::create_dir_all(large.parent().unwrap()).unwrap();
    File::create(&large).unwrap().set_len(LARGE_BYTES).unwrap();
    let row =
        json!({ "type": "file", "team_id": "T1", "file_id": "F1", "file#F1": format!("9/stored/{LARGE}") });
    let database = rusqlite::Connection::open(data.join("annalist.db")).unwrap();
    let insert = "INSERT INTO items (item_id, timestamp, attributes) VALUES ('file#T1', 'F1', ?1)";
    database.execute(insert, [row.to_string()]).unwrap();
    drop(database);

    let killed_while = async |args: &[&str], growing: &Path| {
        let mut command = Command::new(&binaries().annalist);
        let mut child = command.args(args).env_clear().kill_on_drop(true).spawn().unwrap();
        let begun = async {
            while std::fs::metadata(growing).map_or(0, |metadata| metadata.len()) < LARGE_BYTES / 64 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, begun).await.expect("the copy grows");
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
        child.kill().await.unwrap();
    };
    let partial = folder.path().join(".a.tar.partial");
    killed_while(&["backup", path(&file), "--data", path(&data)], &partial).await;
    assert!(!file.exists() && partial.exists());
    back_up(&data, &file).await;
    assert!(!partial.exists() && !folder.path().join(".a.tar.snapshot").exists());

    let growing = folder.path().join(".copy.restoring/files").join(LARGE);
    killed_while(&["restore", path(&file), "--data", path(&copy)], &growing).await;
    assert!(!copy.exists());
    assert_eq!(restore(&file, &copy).await.code, Some(0));
    let mut left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort_unstable();
    assert_eq!(left, ["a.tar", "copy", "data"]);
    assert_eq!(std::fs::metadata(copy.join("files").join(LARGE)).unwrap().len(), LARGE_BYTES);
}

#[tokio::test]
async fn a_refused_backup_or_restore_is_one_line_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let file = folder.path().join("a.tar");
    process::up(&*data).await.process.stop().await;
    back_up(&data, &file).await;
    let whole = std::fs::read(&file).unwrap();
    let cut = folder.path().join("cut.tar");
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let (file, cut, data, copy) = (path(&file), path(&cut), path(&data), path(&copy));
    for (args, code, expected) in [
        (&["backup", file, "--data", data][..], 1, "--force"),
        (&["backup", "new.tar", "--data", path(folder.path())], 1, "holds no archive"),
        (&["backup", "new.tar", "--backend", "aws"], 2, "point-in-time recovery"),
        (&["backup", "--data", data], 2, "<FILE>"),
        (&["restore", cut, "--data", copy], 1, "cut off"),
        (&["restore", data, "--data", copy], 1, "it has no copy"),
        (&["restore", "/nowhere.tar", "--data", copy], 1, "/nowhere.tar"),
        (&["restore", file, "--data", data], 1, "not empty"),
        (&["restore", file, "--backend", "aws"], 2, "point-in-time recovery"),
    ] {
        annalist(args).await.assert_refused(code, expected);
    }
    assert!(!Path::new(copy).exists() && !Path::new("new.tar").exists());
}
