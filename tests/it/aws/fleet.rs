//! Separate processes on AWS, three of each worker, from signed requests to rows and files.

use std::time::Duration;

use aws::Aws;
use bytes::Bytes;
use ports::workers::WORKERS;
use serde_json::{Value, json};
use testkit::corpus::{TEAM, channel_id, event};
use testkit::fake_files;
use tests::harness::client::{EventClient, RetryDelays};
use tests::harness::command::{annalist_at, json_lines};
use tests::harness::environment::AwsInstallation;
use tests::harness::load::{AckedLoad, RunningLoad};
use tests::harness::process::{self, Process, ServerProcess};
use tests::harness::verify::assert_messages;
use wiremock::MockServer;

pub(super) const SENDERS: usize = 4;
const EVENTS: usize = 400;
/// The duration that stands for one of Slack's minutes.
pub(super) const MINUTE: Duration = Duration::from_millis(50);
pub(super) const TOKEN: &str = "xoxb-test";
const EACH: usize = 3;
/// An emulator in Python serves a few hundred requests per second in total.
pub(super) const DRAIN_DEADLINE: Duration = Duration::from_secs(120);

/// The worker processes.
pub(super) struct Workers(Vec<Process>);

/// `each` processes of each worker.
pub(super) async fn workers(installation: &AwsInstallation, each: usize) -> Workers {
    // The workers that answer questions run only with this setting.
    let installation = installation.with_variable("ANNALIST_RESPONDER", Some("on"));
    let mut started = Vec::new();
    for worker in &WORKERS {
        for _ in 0..each {
            started.push(process::worker_process(worker.name, &installation).await);
        }
    }
    Workers(started)
}

impl Workers {
    /// Ends all of them with SIGTERM, which must succeed.
    pub(super) async fn end(self) {
        for process in self.0 {
            process.stop().await;
        }
    }
}

fn sharing(slack: &MockServer, number: usize) -> String {
    let ts = testkit::corpus::ts(1_700_000_000_000_000 + i64::try_from(number).unwrap());
    let message = fake_files::message_with_file(slack, &format!("F{number:04}"), &ts);
    event::envelope(TEAM, &format!("EvFile{number}"), &event::posted(&channel_id(900), &message))
}

async fn deliver(ingest: &ServerProcess, bodies: &[String]) {
    let mut slack = EventClient::for_address(ingest.address, RetryDelays::slack(MINUTE));
    for body in bodies {
        slack.deliver(body).await.unwrap();
    }
}

/// Loads ingest with `events` events; returns the acked events.
pub(super) async fn load(ingest: &ServerProcess, events: usize, seed: u64) -> AckedLoad {
    let mut load = RunningLoad::start(ingest.address, SENDERS, seed, &RetryDelays::slack(MINUTE));
    load.wait_for_acks(events).await;
    load.stop().await
}

/// The quarantine is empty.
pub(super) async fn assert_no_quarantine(installation: &AwsInstallation) {
    assert_eq!(json_lines(installation, &["quarantine", "list"]).await, [] as [Value; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_of_each_worker_turn_signed_events_into_rows_and_files() {
    let installation = AwsInstallation::new().await;
    let slack = fake_files::slack().await;
    let ingest = process::ingest(&installation).await;
    // Checking hundreds of invented people at Slack's rate takes minutes; `permissions` tests the check on
    // AWS.
    let with_slack = installation
        .with_slack(&format!("{}/api/", slack.uri()), TOKEN)
        .with_variable("ANNALIST_EXISTENCE_CHECK", Some("off"));
    let workers = workers(&with_slack, EACH).await;
    let sharing: Vec<String> = (0..20).map(|number| sharing(&slack, number)).collect();
    let (sent, ()) = tokio::join!(load(&ingest, EVENTS, 1), deliver(&ingest, &sharing));
    installation.wait_until_drained(DRAIN_DEADLINE).await;

    assert_messages(&installation, &sent.model).await;
    assert_no_quarantine(&installation).await;
    let files = json_lines(&installation, &["files", &channel_id(900)]).await;
    assert_eq!(files.len(), sharing.len());
    assert!(files.iter().all(|file| file["state"] == "held"), "{files:?}");
    let claims = super::claims::statuses(&installation.aws).await;
    assert_eq!(claims, [("completed".to_owned(), sharing.len())].into(), "each was claimed and completed");
    for file in &files {
        let uri = file["uri"].as_str().unwrap_or_else(|| panic!("no uri in {file}"));
        let key = uri.strip_prefix(&format!("s3://{}/", installation.aws.names().bucket())).unwrap();
        assert_eq!(
            read(&installation.aws, key).await,
            fake_files::content(file["file_id"].as_str().unwrap())
        );
    }
    workers.end().await;
    ingest.process.stop().await;
}

async fn read(aws: &Aws, key: &str) -> Bytes {
    use ports::files::FileKey;
    use slack::ids::{ChannelId, FileId, TeamId, Ts};
    let parts: Vec<&str> = key.split('/').collect();
    let [_, team, channel, ts, file] = parts[..] else { panic!("{key} is no file of a message") };
    let key = FileKey::shared(
        &TeamId::parse(team).unwrap(),
        &ChannelId::parse(channel).unwrap(),
        &Ts::parse(ts).unwrap(),
        &FileId::parse(file).unwrap(),
    );
    super::files::read(aws, &key).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_runs_all_parts_in_one_process() {
    let installation = AwsInstallation::new().await;
    let up = process::up(&installation).await;
    let sent = load(&up, EVENTS / 4, 3).await;
    installation.wait_until_drained(DRAIN_DEADLINE).await;
    assert_messages(&installation, &sent.model).await;
    up.process.stop().await;
    // `status` reports idle only after the time by which SQS's counts may lag.
    let status = annalist_at(&installation, &["status", "--json"]).await.succeeded();
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!((&status["idle"], &status["queues"][0]["oldest_age_s"]), (&json!(true), &Value::Null));
}
