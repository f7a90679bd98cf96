//! Faults of the machine: a full disk, a database that another process has locked.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use hyper::StatusCode;
use serde_json::Value;
use testkit::corpus::{TEAM, channel_id, event, ts};
use tests::harness::binaries::binaries;
use tests::harness::client::{EventClient, RetryDelays};
use tests::harness::command::{json_lines, status, wait_until_idle};
use tests::harness::process::{self, Process};
use tests::harness::verify::assert_nothing_quarantined;
use tokio::process::Command;

const DEADLINE: Duration = Duration::from_secs(60);
/// Maximum size of a file in blocks of 512 bytes: a new database and some hundred messages fit.
const BLOCKS: &str = "1200";
/// Long enough that the limit is reached soon.
const TEXT_BYTES: usize = 20_000;

fn event_body(number: usize) -> String {
    let ts = ts(1_700_000_000_000_000 + i64::try_from(number).unwrap());
    let message = event::message(&ts, "U01", &"x".repeat(TEXT_BYTES));
    event::envelope(TEAM, &format!("Ev{number}"), &event::posted(&channel_id(1), &message))
}

async fn archived(data: &Path) -> Vec<String> {
    let rows = json_lines(data, &["messages", &channel_id(1)]).await;
    rows.iter().map(|row| row["ts"].as_str().unwrap().to_owned()).collect()
}

fn sent(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    let ts_of = |number| ts(1_700_000_000_000_000 + i64::try_from(number).unwrap());
    numbers.map(ts_of).collect()
}

/// Removes the limit on the file size of a running process.
async fn lift_limit(pid: u32) {
    let lifted =
        Command::new("prlimit").args(["--pid", &pid.to_string(), "--fsize=unlimited"]).status().await;
    assert!(lifted.unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_answered_503_and_no_acked_event_is_lost() {
    let data = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    // If the signal is ignored, a write beyond the limit fails as on a full disk.
    command.args(["-c", r#"trap '' XFSZ; ulimit -S -f "$1"; shift; exec "$@""#, "sh", BLOCKS]);
    command.arg(&binaries().annalist).args(["up", "--listen", "127.0.0.1:0", "--data"]).arg(data.path());
    let server = process::serve(&mut command).await;
    let mut slack = EventClient::for_address(server.address, RetryDelays::none());
    let mut acked = 0;
    let refused = loop {
        let answer = slack.post(&event_body(acked), &[]).await.unwrap();
        if answer.status != StatusCode::OK {
            break answer;
        }
        acked += 1;
        assert!(acked < 10_000, "the limit is never reached");
    };
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(!refused.headers.contains_key("x-slack-no-retry"), "Slack must retry");
    assert!(acked > 0, "no event was acked");

    lift_limit(server.process.pid()).await;
    let mut slack = EventClient::for_address(server.address, RetryDelays::slack(Duration::from_millis(50)));
    slack.deliver(&event_body(acked)).await.unwrap();
    assert_nothing_quarantined(&wait_until_idle(data.path(), DEADLINE).await);
    assert_eq!(archived(data.path()).await, sent(0..=acked));
    server.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_that_read_need_no_room_on_the_disk() {
    let data = tempfile::tempdir().unwrap();
    let server = process::up(data.path()).await;
    let mut slack = EventClient::for_address(server.address, RetryDelays::slack(Duration::from_millis(50)));
    slack.deliver(&event_body(0)).await.unwrap();
    wait_until_idle(data.path(), DEADLINE).await;
    let channel = channel_id(1);
    for args in [
        &["status"][..],
        &["channels"],
        &["messages", &channel],
        &["search", "nothing"],
        &["gaps"],
        &["erase", "--user", "U01"],
    ] {
        let mut command = Command::new("sh");
        command.args(["-c", r#"trap '' XFSZ; ulimit -S -f "$1"; shift; exec "$@""#, "sh", "0"]);
        let output = command.arg(&binaries().annalist).args(args).arg("--data").arg(data.path());
        let output = output.env_clear().output().await.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {stderr}");
    }
    server.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_cannot_be_written_stops_nothing() {
    let data = tempfile::tempdir().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec "$@" 2>/dev/full"#, "sh"]);
    command.arg(&binaries().annalist).args(["up", "--listen", &address.to_string(), "--data"]);
    let server = Process::start(command.arg(data.path()));

    let mut slack = EventClient::for_address(address, RetryDelays::slack(Duration::from_millis(50)));
    slack.deliver(&event_body(0)).await.unwrap();
    assert_nothing_quarantined(&wait_until_idle(data.path(), DEADLINE).await);
    assert_eq!(archived(data.path()).await, sent(0..1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_database_is_waited_for_and_no_acked_event_is_lost() {
    let data = tempfile::tempdir().unwrap();
    let server = process::up(data.path()).await;
    let mut slack = EventClient::for_address(server.address, RetryDelays::none());
    assert_eq!(slack.post(&event_body(0), &[]).await.unwrap().status, StatusCode::OK);

    let other = rusqlite::Connection::open(data.path().join("annalist.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = slack.post(&event_body(1), &[]).await.unwrap();
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(!refused.headers.contains_key("x-slack-no-retry"), "Slack must retry");
    // A reader does not have to wait.
    assert!(status(data.path()).await["queues"].is_array());
    other.execute_batch("ROLLBACK").unwrap();

    let mut slack = EventClient::for_address(server.address, RetryDelays::slack(Duration::from_millis(50)));
    slack.deliver(&event_body(1)).await.unwrap();
    assert_nothing_quarantined(&wait_until_idle(data.path(), DEADLINE).await);
    assert_eq!(archived(data.path()).await, sent(0..2));
    let quarantined: Vec<Value> = json_lines(data.path(), &["quarantine", "list"]).await;
    assert_eq!(quarantined, [] as [Value; 0]);
}
