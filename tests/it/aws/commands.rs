//! Every command that reads or operates prints the same on AWS as on the embedded backend.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::corpus::{TEAM, event};
use tests::harness::client::deliver;
use tests::harness::command::{annalist_at, json_lines, wait_until_idle};
use tests::harness::environment::{AwsInstallation, ProgramEnvironment};
use tests::harness::process;

const CHANNEL: &str = "C0GENERAL";
const ROOT: &str = "1700000000.000100";
const REPLY: &str = "1700000001.000100";
// SQS's counts are trusted a minute after they are read, and a job that a stopped process has received is delivered
// again when its visibility timeout has passed.
const DEADLINE: Duration = Duration::from_secs(120);

/// One event of every kind that the commands show.
fn events() -> [Value; 8] {
    let root = event::reply(ROOT, ROOT, "U0FIRST", "root");
    let edited = event::edited(&root, "1700000005.000000", "root, edited");
    let file = event::file("F0FIRST", "U0FIRST");
    let share = event::with_fields(
        event::message("1700000002.000100", "U0FIRST", "look"),
        [("files", json!([file]))],
    );
    [
        event::channel_created(CHANNEL, "general", "1699999999.000100"),
        event::posted(CHANNEL, &root),
        event::posted(CHANNEL, &event::reply(REPLY, ROOT, "U0SECOND", "a reply\nin two lines")),
        event::changed(CHANNEL, &root, &edited, "1700000005.000000"),
        event::reaction_added(CHANNEL, ROOT, "U0SECOND", "tada", "1700000006.000000"),
        event::posted(CHANNEL, &share),
        event::user_change("U0FIRST", "first", "1700000007.000000"),
        // Signed, but with a channel that must not become part of a key.
        event::posted("c/../x", &event::message("1700000008.000100", "U0FIRST", "hostile")),
    ]
}

async fn run_and_deliver(environment: &(impl ProgramEnvironment + ?Sized)) {
    let up = process::up(environment).await;
    deliver(up.address, TEAM, &events()).await;
    // The hostile event is quarantined, and the others are stored and passed to other queues.
    up.process.wait_for_log("quarantine", DEADLINE).await;
    wait_until_idle(environment, 3 * DEADLINE).await;
    up.process.stop().await;
}

const READS: [&[&str]; 14] = [
    &["messages", "#general"],
    &["messages", CHANNEL, "--json"],
    &["messages", CHANNEL, "--limit", "1"],
    &["thread", CHANNEL, ROOT],
    &["thread", "#general", REPLY, "--json"],
    &["revisions", CHANNEL, ROOT],
    &["revisions", CHANNEL, ROOT, "--json"],
    // It counts everything; without the flag, it waits for the index for a moment and says that it is behind.
    &["channels", "--count"],
    &["channels", "--json"],
    &["channel", "#general"],
    &["channel", CHANNEL, "--history"],
    &["users"],
    &["users", "--json"],
    &["files", "#general"],
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_read_prints_the_same_as_on_one_machine_and_quarantined_jobs_can_be_replayed_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let installation = AwsInstallation::new().await;
    tokio::join!(run_and_deliver(folder.path()), run_and_deliver(&installation));
    for args in READS {
        let here = annalist_at(folder.path(), args).await;
        let there = annalist_at(&installation, args).await;
        assert_eq!((there.code, &*there.stderr), (Some(0), ""), "{args:?}");
        assert!(!there.stdout.is_empty(), "{args:?} shows nothing");
        assert_eq!(there.stdout, here.stdout, "{args:?}");
    }
    for args in [&["messages", "#nowhere"][..], &["thread", CHANNEL, "1.000000"]] {
        let here = annalist_at(folder.path(), args).await;
        let there = annalist_at(&installation, args).await;
        assert_eq!((there.code, there.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert_eq!(there.stderr.lines().count(), 1, "{args:?}: {}", there.stderr);
        assert_eq!(there.code, here.code);
    }
    operate(&installation).await;
}

async fn operate(installation: &AwsInstallation) {
    let quarantined = json_lines(installation, &["quarantine", "list"]).await;
    let [job] = &quarantined[..] else { panic!("{quarantined:?}") };
    let id = job["id"].as_str().unwrap_or_else(|| panic!("no id in {job}"));
    let shown = annalist_at(installation, &["quarantine", "show", id]).await;
    assert!(shown.code == Some(0) && shown.stdout.contains("hostile"), "{shown:?}");
    annalist_at(installation, &["quarantine", "replay", id]).await.succeeded();
    assert_eq!(json_lines(installation, &["quarantine", "list"]).await, [] as [Value; 0]);

    annalist_at(installation, &["files", "retry", "--all"]).await.succeeded();

    // The replayed job fails again and keeps its ID.
    let writer = process::message_writer(installation).await;
    writer.wait_for_log("quarantine", DEADLINE).await;
    writer.stop().await;
    assert_eq!(json_lines(installation, &["quarantine", "list"]).await[0]["id"], id);
    annalist_at(installation, &["quarantine", "drop", id]).await.succeeded();
    assert_eq!(json_lines(installation, &["quarantine", "list"]).await, [] as [Value; 0]);
}
