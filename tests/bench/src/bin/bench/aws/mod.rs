//! Annalist's requests to AWS, their cost, and throughput with several writers, on the stack that the harness
//! finds.

mod cost;
mod rows;
mod writers;

use std::time::Duration;

use ports::queue::QueueName;
use serde_json::Value;
use testkit::corpus::{TEAM, channel_id, event, text, ts};
use testkit::fake_files;
use tests::harness::binaries::binaries;
use tests::harness::environment::{AwsInstallation, ProgramEnvironment};
use tests::harness::metered::{self, READS, Requests, SENDS, WRITES};
use tests::harness::process;
use tests::harness::proxy::Proxy;
use tests::harness::stack::Stack;
use tokio::process::Command;

use crate::Settings;
use crate::progress;
use crate::report::{BenchSection, Goal};

use cost::Bill;

const EVENTS: usize = 1000;
const FILES: usize = 200;
const CHANNELS: usize = 8;
/// One message in this number is a reply, as in the other benches.
const REPLIES: usize = 5;
const DEADLINE: Duration = Duration::from_secs(300);

/// The requests for one kind of event.
struct Phase {
    what: &'static str,
    events: usize,
    requests: Requests,
    /// The write units that DynamoDB charges.
    write_units: u64,
    puts: u64,
}

/// Measures the counts, the bill and the writers.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<Vec<BenchSection>> {
    let installation = AwsInstallation::new().await;
    progress("aws: messages");
    let messages = messages(&installation, settings.connections()).await?;
    progress("aws: edits");
    let edits = edits(&installation, settings.connections()).await?;
    progress("aws: files");
    let files = files(&installation, settings.connections()).await?;
    let mut sections = counts(&[messages, edits, files]);
    progress("aws: writers");
    sections.push(writers::measure().await?);
    Ok(sections)
}

fn posted(number: usize) -> (String, Value) {
    let mut random = fastrand::Rng::with_seed(number as u64);
    let length_bytes = text::length_bytes(&mut random);
    let words = text::text(&mut random, length_bytes);
    let at = |number: usize| ts(1_700_000_000_000_000 + i64::try_from(number).unwrap_or_default());
    let message = if number.is_multiple_of(REPLIES) && number >= CHANNELS {
        // A reply to an earlier message of the same channel.
        event::reply(&at(number), &at(number - CHANNELS), "U01", &words)
    } else {
        event::message(&at(number), "U01", &words)
    };
    (channel_id(number % CHANNELS), message)
}

async fn messages(installation: &AwsInstallation, connections: usize) -> anyhow::Result<Phase> {
    let bodies = (0..EVENTS).map(|number| {
        let (channel, message) = posted(number);
        event::envelope(TEAM, &format!("Ev{number}"), &event::posted(&channel, &message))
    });
    let sent = metered::send_through_ingest(installation, bodies.collect(), connections).await;
    let requests = metered::drain_with_writer(installation).await.plus(&sent);
    let rows = rows::read(installation).await?;
    let others = requests.sum(&WRITES).saturating_sub(rows.messages.len() as u64);
    let write_units = rows::write_units_of(&rows.messages) + rows.in_threads + others;
    Ok(Phase { what: "messages", events: EVENTS, requests, write_units, puts: 0 })
}

async fn edits(installation: &AwsInstallation, connections: usize) -> anyhow::Result<Phase> {
    let bodies = (0..EVENTS).map(|number| {
        let (channel, before) = posted(number);
        let edited_at = ts(1_700_000_100_000_000 + i64::try_from(number).unwrap_or_default());
        let after = event::edited(&before, &edited_at, &format!("edit {number}"));
        event::envelope(
            TEAM,
            &format!("EvEdit{number}"),
            &event::changed(&channel, &before, &after, &edited_at),
        )
    });
    let before = rows::read(installation).await?;
    let sent = metered::send_through_ingest(installation, bodies.collect(), connections).await;
    let requests = metered::drain_with_writer(installation).await.plus(&sent);
    let after = rows::read(installation).await?;
    let known = after.messages.len() + after.revisions.len();
    let others = requests.sum(&WRITES).saturating_sub(known as u64);
    // DynamoDB charges a write by the larger of the old and the new item.
    let larger = rows::write_units_of(&before.messages).max(rows::write_units_of(&after.messages));
    let write_units = larger + rows::write_units_of(&after.revisions) + others;
    Ok(Phase { what: "edits", events: EVENTS, requests, write_units, puts: 0 })
}

/// Sends messages with a file each. The counts include the requests of writer and downloader for the file.
async fn files(installation: &AwsInstallation, connections: usize) -> anyhow::Result<Phase> {
    let slack = fake_files::slack().await;
    let bodies = (0..FILES).map(|number| {
        let at = ts(1_700_000_200_000_000 + i64::try_from(number).unwrap_or_default());
        let message = fake_files::message_with_file(&slack, &format!("F{number:04}"), &at);
        event::envelope(
            TEAM,
            &format!("EvFile{number}"),
            &event::posted(&channel_id(number % CHANNELS), &message),
        )
    });
    let sent = metered::send_through_ingest(installation, bodies.collect(), connections).await;
    let written = metered::drain_with_writer(installation).await;
    let proxy = Proxy::in_front_of(Stack::shared().endpoint(), 0).await;
    let mut command = Command::new(binaries().worker("file-downloader"));
    installation.with_endpoint(&proxy.endpoint).configure(&mut command);
    command
        .env("SLACK_API_URL", format!("{}/api/", slack.uri()))
        .env("SLACK_BOT_TOKEN", "xoxb-bench")
        .env("ANNALIST_FILES_PER_MINUTE", "60000");
    let downloader = process::worker(&mut command).await;
    installation.wait_until_empty(&[QueueName::Files], DEADLINE).await;
    let fetched = metered::counted_requests(&proxy, &downloader).await;
    let puts = fetched.sum(&["PutObject"]);
    let requests = fetched.plus(&written).plus(&sent);
    let write_units = requests.sum(&WRITES);
    Ok(Phase { what: "messages with a file", events: FILES, requests, write_units, puts })
}

fn counts(phases: &[Phase]) -> Vec<BenchSection> {
    let per_thousand =
        |count: u64, phase: &Phase| format!("{:.0}", count as f64 * 1000.0 / phase.events as f64);
    let requests = phases.iter().map(|phase| {
        let of = |operations: &[&str]| per_thousand(phase.requests.sum(operations), phase);
        vec![
            phase.what.to_owned(),
            of(&SENDS),
            of(&["ReceiveMessage"]),
            of(&["DeleteMessage", "DeleteMessageBatch"]),
            of(&WRITES),
            of(&READS),
            per_thousand(phase.write_units, phase),
            per_thousand(phase.puts, phase),
        ]
    });
    let first = &phases[0];
    let of = |operations: &[&str]| first.requests.sum(operations) as f64 * 1000.0 / first.events as f64;
    let counts = BenchSection {
        title: "Requests to AWS",
        method: format!(
            "Per 1,000 events, counted by the SDK interceptor behind `annalist_aws_requests_total` and compared with \
             a counting proxy: {EVENTS} messages of the usual lengths, every fifth a reply, through `ingest` at \
             64 connections, then drained by one `message-writer` that starts with a full queue; then an edit of each; \
             then {FILES} messages with a small file each. Write units are what DynamoDB charges, computed from the \
             sizes of the rows, the index included. The stack was the one the tests use."
        ),
        columns: &["", "sends", "receives", "deletes", "writes", "reads", "write units", "S3 puts"],
        rows: requests.collect(),
        goals: vec![
            Goal::at_most("sends per 1,000 messages", of(&SENDS), 150.0, ""),
            Goal::at_most("receives per 1,000 messages", of(&["ReceiveMessage"]), 110.0, ""),
            Goal::at_most(
                "deletes per 1,000 messages",
                of(&["DeleteMessageBatch", "DeleteMessage"]),
                110.0,
                "",
            ),
            Goal::at_most("DynamoDB writes per 1,000 messages", of(&WRITES), 1010.0, ""),
        ],
    };
    let bills: Vec<(&str, Bill, Bill)> =
        phases.iter().map(|phase| (phase.what, cost::long_running(phase), cost::lambda(phase))).collect();
    let rows = bills.iter().flat_map(|(what, running, lambda)| {
        [running.row(&format!("{what}, long-running")), lambda.row(&format!("{what}, Lambda"))]
    });
    let bill = BenchSection {
        title: "Cost on AWS",
        method: cost::METHOD.to_owned(),
        columns: &["per million", "SQS", "DynamoDB", "S3", "Lambda", "in all"],
        rows: rows.collect(),
        goals: vec![Goal::at_most(
            "dollars per million messages, long-running",
            bills[0].1.total(),
            1.70,
            " $",
        )],
    };
    vec![counts, bill]
}
