//! Breaks every call to AWS with every fault: while separate processes run, and one port after the other.

use std::time::Duration;

use aws::Aws;
use bytes::Bytes;
use ports::archive::{ArchiveExt, Guard, ItemKey, Query, Update, WriteOutcome};
use ports::files::FileKey;
use ports::queue::{QueueError, QueueName, QueueRef, ReceiveRequest};
use serde_json::json;
use slack::ids::TeamId;
use tests::harness::client::RetryDelays;
use tests::harness::environment::AwsInstallation;
use tests::harness::load::RunningLoad;
use tests::harness::process;
use tests::harness::proxy::{FAULTS, Proxy, ProxyFault};
use tests::harness::stack::Stack;
use tests::harness::verify::assert_messages;
use tokio::time::Instant;

use super::files::read;
use super::fleet::{MINUTE, SENDERS, assert_no_quarantine, workers};
use super::queue::answers::message;

const EVENTS: usize = 300;
const DRAIN_DEADLINE: Duration = Duration::from_secs(120);

/// The AWS operations between a signed event and its row.
const OPERATIONS: [&str; 4] = ["SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch", "UpdateItem"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_lost_or_duplicated_whichever_call_fails() {
    let installation = AwsInstallation::new().await;
    // No faults at first: processes check their ports at startup.
    let proxy = Proxy::in_front_of(Stack::shared().endpoint(), 2).await;
    let broken = installation.with_endpoint(&proxy.endpoint);
    proxy.stop_faults();
    let ingest = process::ingest(&broken).await;
    let workers = workers(&broken, 2).await;
    proxy.resume_faults();
    let mut load = RunningLoad::start(ingest.address, SENDERS, 4, &RetryDelays::slack(MINUTE));
    load.wait_for_acks(EVENTS).await;
    // The number of batches varies: send more events until every operation has met every fault.
    let until = Instant::now() + DRAIN_DEADLINE;
    while !unbroken(&proxy, &OPERATIONS).is_empty() && Instant::now() < until {
        load.wait_for_acks(SENDERS).await;
    }
    proxy.stop_faults();
    let sent = load.stop().await;
    installation.wait_until_drained(DRAIN_DEADLINE).await;
    assert_messages(&installation, &sent.model).await;
    assert_no_quarantine(&installation).await;
    workers.end().await;
    assert_broken(&proxy, &OPERATIONS);
}

/// The operations and faults that have not met yet.
fn unbroken<'a>(proxy: &Proxy, operations: &[&'a str]) -> Vec<(&'a str, ProxyFault)> {
    let broken = proxy.injected_faults();
    let all = operations.iter().flat_map(|operation| FAULTS.map(|fault| (*operation, fault)));
    all.filter(|(operation, fault)| !broken.contains(&((*operation).to_owned(), *fault))).collect()
}

fn assert_broken(proxy: &Proxy, operations: &[&str]) {
    assert_eq!(unbroken(proxy, operations), []);
}

/// Enough rounds for each operation to meet each fault, with the retries in between.
const ROUNDS: usize = 12;
/// Attempts of a caller to whom a port reports that it is unavailable.
const TRIES: usize = 10;

/// Retries an operation until it succeeds; panics after [`TRIES`] attempts.
async fn insist<T, E: std::fmt::Debug>(operation: impl AsyncFn() -> Result<T, E>) -> T {
    let mut failures = Vec::new();
    for _ in 0..TRIES {
        match operation().await {
            Ok(done) => return done,
            Err(failure) => failures.push(failure),
        }
    }
    panic!("it never succeeds: {failures:?}")
}

/// An account behind a proxy that injects faults, and the same account without the proxy.
async fn account() -> (Proxy, Aws, Aws) {
    let installation = AwsInstallation::new().await;
    let proxy = Proxy::in_front_of(Stack::shared().endpoint(), 1).await;
    let broken = Stack::shared().aws_at(&proxy.endpoint, installation.aws.names().clone()).await;
    (proxy, broken, installation.aws)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_complete_whichever_call_of_the_archive_fails() {
    let (proxy, broken, whole) = account().await;
    let archive = broken.archive();
    let partition = || Query::partition("i");
    for round in 0..ROUNDS {
        let key = ItemKey::new("i", format!("{round:03}"));
        let set = |value: usize| [("value".to_owned(), json!(value))].into_iter().collect();
        let version = |version: &str| Guard::Greater { register: "v".into(), version: version.into() };
        let parent = [("parent".to_owned(), json!("p"))].into_iter().collect();
        let first = Update {
            guard: version("1"),
            set: set(round),
            set_if_absent: parent,
            ..Update::new(key.clone())
        };
        let applied = insist(async || archive.write(&first).await).await;
        assert!(applied_or_there(&applied, "1"), "{applied:?}");
        let item = insist(async || archive.get(&key).await).await.unwrap();
        assert_eq!(item.attributes["value"], round);
        assert_eq!(insist(async || archive.query(&partition()).await).await.items.len(), round + 1);
        assert_eq!(insist(async || archive.query(&Query::parent("p")).await).await.items.len(), round + 1);
        assert_eq!(insist(async || archive.get_all(&[&key]).await).await, [Some(item)]);

        let gone = ItemKey::new("gone", format!("{round:03}"));
        insist(async || archive.write(&Update::mark(gone.clone())).await).await;
        let item = insist(async || archive.get(&gone).await).await.unwrap();
        // A delete by an earlier attempt of this call looks like another client's delete.
        insist(async || archive.delete_unchanged(&item).await).await;
        assert_eq!(whole.archive().get(&gone).await.unwrap(), None);
    }
    let rows = whole.archive().query(&partition()).await.unwrap().items;
    let values: Vec<&serde_json::Value> = rows.iter().map(|row| &row.attributes["value"]).collect();
    assert_eq!(values, (0..ROUNDS).collect::<Vec<_>>());
    assert_broken(&proxy, &["UpdateItem", "GetItem", "BatchGetItem", "Query", "DeleteItem"]);
}

/// Whether a write has taken effect: a retry after `Unavailable` may find the row of an earlier attempt.
fn applied_or_there(outcome: &WriteOutcome, version: &str) -> bool {
    match outcome {
        WriteOutcome::Applied => true,
        WriteOutcome::Rejected(item) => item.text("v") == Some(version),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_complete_whichever_call_of_the_files_fails() {
    let (proxy, broken, whole) = account().await;
    let files = broken.files();
    let team = TeamId::parse("T1").unwrap();
    for round in 0..ROUNDS {
        insist(async || files.ready().await).await;
        // In one piece, and in two.
        for size_bytes in [1000, 9 * 1024 * 1024] {
            let key = FileKey::image(&team, &format!("{round}/{size_bytes}"));
            let content = Bytes::from(vec![u8::try_from(round).unwrap(); size_bytes]);
            insist(async || {
                let mut writer = files.create(&key).await?;
                writer.write(content.clone()).await?;
                writer.publish().await
            })
            .await;
            let read = insist(async || read(&broken, &key).await).await;
            assert!(read.expect("it was published") == content, "{size_bytes} bytes changed in transit");
        }
    }
    whole.files().ready().await.unwrap();
    let nameless = ["S3 HEAD", "S3 POST uploads", "S3 POST uploadId"];
    assert_broken(&proxy, &["PutObject", "GetObject", "UploadPart"]);
    assert_broken(&proxy, &nameless);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_arrive_once_and_in_order_whichever_call_of_the_queue_fails() {
    let (proxy, broken, whole) = account().await;
    let (queue, events) = (broken.queue(), QueueRef::from(QueueName::Events));
    let request = ReceiveRequest {
        queue: events,
        max: 10,
        visibility_timeout: Duration::from_secs(2),
        wait: Duration::from_secs(3),
    };
    let mut arrived = Vec::new();
    for round in 0..ROUNDS {
        let sent = message("g", &round.to_string());
        insist(async || queue.ready().await).await;
        insist(async || queue.send(vec![sent.clone()]).await.remove(0)).await;
        // A message whose receive response was lost becomes visible again when its lease ends.
        let received = loop {
            let received = insist(async || queue.receive(request).await).await;
            if let Some(delivery) = received.into_iter().next() {
                break delivery;
            }
        };
        let kept = [(received.receipt.clone(), Duration::from_secs(30))];
        insist(async || queue.change_visibility(events, &kept).await.remove(0)).await;
        insist(async || queue.depth(events).await).await;
        let acked = insist(async || {
            match queue.ack(events, std::slice::from_ref(&received.receipt)).await.remove(0) {
                // An earlier attempt of this ack succeeded.
                Ok(()) | Err(QueueError::LeaseLost) => Ok(()),
                Err(error) => Err(error),
            }
        });
        acked.await;
        arrived.push(received.body);
    }
    assert_eq!(arrived, (0..ROUNDS).map(|round| round.to_string()).collect::<Vec<_>>());
    assert!(whole.queue().depth(events).await.unwrap().is_empty());
    assert_broken(
        &proxy,
        &[
            "GetQueueUrl",
            "SendMessageBatch",
            "ReceiveMessage",
            "ChangeMessageVisibilityBatch",
            "DeleteMessageBatch",
            "GetQueueAttributes",
        ],
    );
}
