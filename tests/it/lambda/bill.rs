//! The requests that one message costs on Lambda if it comes alone: at most those that docs/deploy-aws.md
//! assumes.

use ports::changes::hour_of;
use ports::clock::{Clock, SystemClock};
use ports::queue::QueueName;
use ports::queue::topology::TableRole;
use serde_json::Value;
use testkit::corpus::{TEAM, event};
use testkit::fake_slack::{self, FakeSlack, FakeWorkspace};
use tests::bill::OneMessage;
use tests::harness::binaries::binaries;
use tests::harness::environment::AwsInstallation;
use tests::harness::lambda::RunningFunction;
use tests::harness::lambda::poller::Poller;
use tests::harness::proxy::{ForwardedRequest, Proxy};
use tests::harness::stack::Stack;

use super::{answer, signed};

const TOKEN: &str = "xoxb-test";
const CHANNEL: &str = "C0GENERAL";

/// A function behind a proxy that records its requests.
async fn watched(program: &std::path::Path, installation: &AwsInstallation) -> (RunningFunction, Proxy) {
    let proxy = Proxy::in_front_of(Stack::shared().endpoint(), 0).await;
    proxy.record();
    (RunningFunction::start(program, &installation.with_endpoint(&proxy.endpoint)).await, proxy)
}

/// The number of requests of these operations on this table, and of the keys and rows that they name.
fn rows(passed: &[ForwardedRequest], operations: &[&str], table: &str) -> (u64, u64) {
    let (mut requests, mut named) = (0, 0);
    for passed in passed {
        let operation = passed.target.as_deref().unwrap_or_default().rsplit('.').next().unwrap_or_default();
        let body: Value = serde_json::from_str(&passed.body).unwrap_or_default();
        if !operations.contains(&operation) || !passed.body.contains(&format!("\"{table}\"")) {
            continue;
        }
        requests += 1;
        let items = &body["RequestItems"][table];
        let several = items.as_array().or_else(|| items["Keys"].as_array());
        named += several.map_or(1, |several| several.len() as u64);
    }
    (requests, named)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_message_costs_no_more_than_the_bill_assumes() {
    let installation = AwsInstallation::new().await;
    let slack = FakeSlack::start().await;
    let mut workspace = FakeWorkspace::new(TEAM);
    workspace.channels = vec![fake_slack::channel(CHANNEL, "general")];
    workspace.members = vec![fake_slack::person("U0001", "ada")];
    slack.set_workspace(TOKEN, workspace);
    let names = installation.aws.names();
    let (archive, existence) = (names.table(TableRole::Archive), names.table(TableRole::Existence));
    let poller = Poller::for_queue(&installation, QueueName::Events).await;
    let with_slack = installation.with_slack(&slack.url(), TOKEN);

    // The first message needs a request to Slack; both get new function instances.
    for (number, ts) in ["1700000000.000100", "1700000001.000100"].into_iter().enumerate() {
        let hour = hour_of(SystemClock.now());
        let (ingest, ingests) = watched(&binaries().ingest, &installation).await;
        let (writer, writes) = watched(&binaries().worker("message-writer"), &with_slack).await;
        let message = event::posted(CHANNEL, &event::message(ts, "U0001", "hello"));
        let body = event::envelope(TEAM, &format!("Ev{number}"), &message);
        assert_eq!(answer(&ingest, &signed(&body)).await.status, 200);
        let handled = poller.poll_once(&writer).await;
        assert_eq!((handled.received, handled.failed.len()), (1, 0));

        // Lambda's poller receives and deletes once per batch; a new function also looks up the URLs of its
        // queues.
        let sends = ingests.requests();
        let sends = ["SendMessage", "SendMessageBatch"].iter().filter_map(|operation| sends.get(*operation));
        assert_eq!(sends.sum::<usize>() as u64 + 2, OneMessage::SQS_REQUESTS);
        let passed = writes.recorded();
        let written = rows(&passed, &["UpdateItem", "PutItem", "DeleteItem"], archive).0;
        let assumed = match number {
            0 => OneMessage::ROW_WRITES + OneMessage::ROW_WRITES_OF_A_NEW_CHANNEL,
            _ if hour == hour_of(SystemClock.now()) => OneMessage::ROW_WRITES_IF_MARKED,
            // The first message was in the hour before.
            _ => OneMessage::ROW_WRITES,
        };
        assert!(written <= assumed, "{number}: {written} writes: {passed:?}");
        let read = rows(&passed, &["GetItem", "BatchGetItem", "Query"], archive).1;
        // The mark of the channel is also read for Slack's answer about it.
        let assumed = OneMessage::ROW_READS + u64::from(number == 0);
        assert!(read <= assumed, "{number}: {read} rows read: {passed:?}");
        let read = rows(&passed, &["BatchGetItem"], existence).1;
        let confirmed = rows(&passed, &["BatchWriteItem"], existence).1;
        assert!(read <= OneMessage::CONFIRMED_READ, "{number}: {read} read: {passed:?}");
        assert!(confirmed <= OneMessage::CONFIRMED_WRITTEN, "{number}: {confirmed} written: {passed:?}");
        if number == 0 {
            assert!(read > 0 && confirmed > 0, "Slack was asked, and its answer was cached: {passed:?}");
        }
    }
}
