//! The parts as separate processes, several of them on one data folder.

use std::path::Path;
use std::time::Duration;

use tests::harness::binaries::binaries;
use tests::harness::client::RetryDelays;
use tests::harness::command::{json_lines, status, wait_until_idle};
use tests::harness::load::RunningLoad;
use tests::harness::process::{self, SIGNING_SECRET};
use tests::harness::verify::assert_archive_holds;
use tokio::process::Command;

const SENDERS: usize = 4;
const EVENTS: usize = 600;
const MINUTE: Duration = Duration::from_millis(20);
/// Shorter than a lease, because the leases of a process that ended in any way are released at once.
const IDLE_DEADLINE: Duration = Duration::from_secs(20);
/// Several, because a leaked lease only shows if the signal arrives during a receive.
const TERMS: usize = 6;

fn load(server: std::net::SocketAddr, seed: u64) -> RunningLoad {
    RunningLoad::start(server, SENDERS, seed, &RetryDelays::slack(MINUTE))
}

async fn rows(data: &Path, channel: &str) -> usize {
    json_lines(data, &["messages", channel]).await.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ingest_and_two_writers_share_one_folder() {
    let data = tempfile::tempdir().unwrap();
    let ingest = process::ingest(data.path()).await;
    let writers = [process::message_writer(data.path()).await, process::message_writer(data.path()).await];
    let mut load = load(ingest.address, 1);
    load.wait_for_acks(EVENTS).await;
    let sent = load.stop().await;
    wait_until_idle(data.path(), IDLE_DEADLINE).await;
    assert_archive_holds(data.path(), &sent.model).await;
    for process in [ingest.process].into_iter().chain(writers) {
        process.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_a_killed_writer_are_finished_by_another() {
    let data = tempfile::tempdir().unwrap();
    let ingest = process::ingest(data.path()).await;
    let mut load = load(ingest.address, 2);
    load.wait_for_acks(EVENTS).await;
    let killed = process::message_writer(data.path()).await;
    load.wait_for_acks(EVENTS / 4).await;
    killed.sigkill().await;
    let _writer = process::message_writer(data.path()).await;
    load.wait_for_acks(1).await;
    let sent = load.stop().await;
    wait_until_idle(data.path(), IDLE_DEADLINE).await;
    assert_archive_holds(data.path(), &sent.model).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_works_alongside_a_separate_writer() {
    let data = tempfile::tempdir().unwrap();
    let up = process::up(data.path()).await;
    let mut load = load(up.address, 3);
    load.wait_for_acks(EVENTS / 2).await;
    let writer = process::message_writer(data.path()).await;
    load.wait_for_acks(EVENTS / 2).await;
    let sent = load.stop().await;
    wait_until_idle(data.path(), IDLE_DEADLINE).await;
    writer.stop().await;
    assert_archive_holds(data.path(), &sent.model).await;
    up.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_under_load_exits_0_releases_all_leases_and_loses_no_event() {
    let data = tempfile::tempdir().unwrap();
    let mut up = process::up(data.path()).await;
    let mut load = load(up.address, 4);
    for _ in 0..TERMS {
        load.wait_for_acks(EVENTS / TERMS).await;
        up.process.stop().await;
        let status = status(data.path()).await;
        // Unfinished messages are released: no consumer has to wait for a lease to end.
        assert_eq!(status["queues"][0]["in_flight"], 0, "{status}");
        up = process::up(data.path()).await;
        load.set_server(up.address);
    }
    load.wait_for_acks(1).await;
    let sent = load.stop().await;
    wait_until_idle(data.path(), IDLE_DEADLINE).await;
    assert_archive_holds(data.path(), &sent.model).await;
    up.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_work_while_up_runs_and_never_see_fewer_rows() {
    let data = tempfile::tempdir().unwrap();
    let up = process::up(data.path()).await;
    let mut load = load(up.address, 5);
    let channel = testkit::corpus::channel_id(1);
    load.wait_for_acks(EVENTS / 4).await;
    wait_for_rows(data.path(), &channel).await;
    let mut seen = 0;
    for _ in 0..5 {
        let now = rows(data.path(), &channel).await;
        assert!(now >= seen, "{now} rows after {seen}");
        seen = now;
        load.wait_for_acks(EVENTS / 10).await;
    }
    let sent = load.stop().await;
    wait_until_idle(data.path(), IDLE_DEADLINE).await;
    assert!(sent.model.channels[&channel].len() >= seen);
    assert_archive_holds(data.path(), &sent.model).await;
    up.process.stop().await;
}

/// Polls until a channel has rows: before its first row the channel is unknown, and `messages` fails.
async fn wait_for_rows(data: &Path, channel: &str) {
    let until = tokio::time::Instant::now() + IDLE_DEADLINE;
    let folder = data.to_str().unwrap();
    while tests::harness::command::annalist(&["messages", channel, "--json", "--data", folder]).await.code
        != Some(0)
    {
        assert!(tokio::time::Instant::now() < until, "{channel} never appeared");
    }
}

#[tokio::test]
async fn a_part_with_wrong_arguments_prints_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    for program in [binaries().ingest.clone(), binaries().worker("message-writer")] {
        for (arguments, log, code, expected) in [
            (&["--bogus"][..], "info", 2, "unexpected argument '--bogus' found; usage: "),
            (&["--backend", "paper"], "info", 2, "[possible values: embedded, aws]; see --help"),
            (&[], "loud", 2, "ANNALIST_LOG cannot be used: "),
            (&["--data", file], "off", 1, "; name another folder with --data\n"),
        ] {
            let mut command = Command::new(&program);
            command.args(arguments).env("ANNALIST_LOG", log).env("SLACK_SIGNING_SECRET", SIGNING_SECRET);
            let ended = command.args(["--metrics-listen", "127.0.0.1:0"]).output().await.unwrap();
            let stderr = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(code), "{program:?} {arguments:?}: {stderr}");
            assert!(
                stderr.contains(expected) && stderr.lines().count() == 1,
                "{program:?} {arguments:?}: {stderr}"
            );
        }
    }
}
