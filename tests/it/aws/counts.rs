//! The number of AWS requests per event, as counted by the metric and compared with a proxy that counts too.

use serde_json::Value;
use testkit::corpus::{TEAM, channel_id, event, ts};
use tests::harness::environment::AwsInstallation;
use tests::harness::metered::{READS, Requests, SENDS, WRITES, drain_with_writer, send_through_ingest};

const CONNECTIONS: usize = 64;
const CHANNELS: usize = 8;
const EVENTS: usize = 1000;
/// Maximum writes about an ingest session: each of the first concurrent batches writes its start and its end;
/// after that, each batch that is too small to count as load writes its end.
const RUN: u64 = 20;
/// Maximum requests that send the events: a tenth of the events if each batch is full. Batches fill while
/// others are in flight, so their number depends on the machine's timing: 115 to 152 were counted.
const SENT: u64 = 200;

/// The change marks of the channels: for the hour in which the test runs, and perhaps the next one.
const MARKS: u64 = 2 * CHANNELS as u64;

fn posted(number: usize) -> (String, Value) {
    let ts = ts(1_700_000_000_000_000 + i64::try_from(number).unwrap());
    (channel_id(number % CHANNELS), event::message(&ts, "U01", &format!("message {number}")))
}

fn plain(number: usize) -> String {
    let (channel, message) = posted(number);
    event::envelope(TEAM, &format!("Ev{number}"), &event::posted(&channel, &message))
}

fn edit(number: usize) -> String {
    let (channel, before) = posted(number);
    let edited_at = ts(1_700_000_100_000_000 + i64::try_from(number).unwrap());
    let after = event::edited(&before, &edited_at, &format!("edit {number}"));
    event::envelope(TEAM, &format!("EvEdit{number}"), &event::changed(&channel, &before, &after, &edited_at))
}

fn at_most(counted: &Requests, operations: &[&str], limit: u64) {
    let sum = counted.sum(operations);
    assert!(sum <= limit, "{operations:?}: {sum} of at most {limit}: {counted:?}");
}

/// Queries for erased entities, in two minutes.
const ERASURES: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_messages_and_a_hundred_edits_take_no_more_requests_than_promised() {
    let installation = AwsInstallation::new().await;
    let sent = send_through_ingest(&installation, (0..EVENTS).map(plain).collect(), CONNECTIONS).await;
    at_most(&sent, &SENDS, SENT);
    let written = drain_with_writer(&installation).await;
    at_most(&written, &["ReceiveMessage"], 110);
    at_most(&written, &["DeleteMessage", "DeleteMessageBatch"], 110);
    // Each message, the channels and the workspace once, and occasionally the time of the ingest session's
    // last event. Each channel is marked as changed once per hour. The first process writes the version of the archive.
    at_most(&written, &WRITES, 1010 + RUN + MARKS + 1);
    // `ready` reads one row that does not exist, and the version is read. What was erased is read every 30 s, and each
    // mark before it is written.
    at_most(&written, &READS, 2 + ERASURES + CHANNELS as u64 + 1 + MARKS);

    let edits = 100;
    send_through_ingest(&installation, (0..edits).map(edit).collect(), CONNECTIONS).await;
    let written = drain_with_writer(&installation).await;
    // A new process writes only the marks of a new hour.
    at_most(&written, &WRITES, 3 * edits as u64 + RUN + CHANNELS as u64);
}
