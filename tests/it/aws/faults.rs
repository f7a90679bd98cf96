//! Every call to AWS broken in every way: while separate processes work, and one port after the other.

use std::time::Duration;

use aws::Aws;
use bytes::Bytes;
use ports::archive::{ArchiveExt, Guard, ItemKey, Query, Update, WriteOutcome};
use ports::files::{FileKey, FilesError};
use ports::queue::{DedupId, GroupId, Outgoing, QueueError, QueueName, QueueRef, ReceiveRequest};
use serde_json::json;
use slack::ids::TeamId;
use tests::harness::client::RetryDelays;
use tests::harness::load::RunningLoad;
use tests::harness::place::AwsInstallation;
use tests::harness::process;
use tests::harness::proxy::{FAULTS, Proxy, ProxyFault};
use tests::harness::stack::Stack;
use tests::harness::verify::assert_messages;
use tokio::time::Instant;

use super::fleet::{MINUTE, SENDERS, assert_no_quarantine, workers};

const EVENTS: usize = 300;
const DRAIN_DEADLINE: Duration = Duration::from_secs(120);

/// What the way from a signed event to a row asks of AWS.
const OPERATIONS: [&str; 4] = ["SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch", "UpdateItem"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_call_is_broken_in_whatever_way_nothing_is_lost_or_doubled() {
    let installation = AwsInstallation::new().await;
    // First whole: what starts up wants to find everything in order.
    let proxy = Proxy::before(Stack::shared().endpoint(), 2).await;
    let broken = installation.through(&proxy.endpoint);
    proxy.mend();
    let ingest = process::ingest(&broken).await;
    let workers = workers(&broken, 2, None).await;
    proxy.break_again();
    let mut load = RunningLoad::start(ingest.address, SENDERS, 4, &RetryDelays::slack(MINUTE));
    load.acked(EVENTS).await;
    // The number of batches that the workers make of them varies: there are more until every call has met every fault.
    let until = Instant::now() + DRAIN_DEADLINE;
    while !unbroken(&proxy, &OPERATIONS).is_empty() && Instant::now() < until {
        load.acked(SENDERS).await;
    }
    proxy.mend();
    let sent = load.stop().await;
    installation.drained(DRAIN_DEADLINE).await;
    assert_messages(&installation, &sent.model).await;
    assert_no_quarantine(&installation).await;
    workers.end().await;
    assert_broken(&proxy, &OPERATIONS);
}

/// What has not happened yet.
fn unbroken<'a>(proxy: &Proxy, operations: &[&'a str]) -> Vec<(&'a str, ProxyFault)> {
    let broken = proxy.broken();
    let all = operations.iter().flat_map(|operation| FAULTS.map(|fault| (*operation, fault)));
    all.filter(|(operation, fault)| !broken.contains(&((*operation).to_owned(), *fault))).collect()
}

fn assert_broken(proxy: &Proxy, operations: &[&str]) {
    assert_eq!(unbroken(proxy, operations), []);
}

/// So often that each operation meets each fault, with the retries in between.
const ROUNDS: usize = 12;
/// What a caller does who hears that a port is unavailable.
const TRIES: usize = 10;

/// Does something until it succeeds, which it must soon.
async fn insist<T, E: std::fmt::Debug>(what: impl AsyncFn() -> Result<T, E>) -> T {
    let mut failures = Vec::new();
    for _ in 0..TRIES {
        match what().await {
            Ok(done) => return done,
            Err(failure) => failures.push(failure),
        }
    }
    panic!("it never succeeds: {failures:?}")
}

/// An account behind a proxy that breaks, and the same without.
async fn account() -> (Proxy, Aws, Aws) {
    let installation = AwsInstallation::new().await;
    let proxy = Proxy::before(Stack::shared().endpoint(), 1).await;
    let broken = Stack::shared().aws_at(&proxy.endpoint, installation.aws.names().clone()).await;
    (proxy, broken, installation.aws)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_whole_whatever_call_of_the_archive_is_broken() {
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
        // That it was deleted by an earlier try of this call looks like another client's delete.
        insist(async || archive.delete_unchanged(&item).await).await;
        assert_eq!(whole.archive().get(&gone).await.unwrap(), None);
    }
    let rows = whole.archive().query(&partition()).await.unwrap().items;
    let values: Vec<&serde_json::Value> = rows.iter().map(|row| &row.attributes["value"]).collect();
    assert_eq!(values, (0..ROUNDS).collect::<Vec<_>>());
    assert_broken(&proxy, &["UpdateItem", "GetItem", "BatchGetItem", "Query", "DeleteItem"]);
}

/// A write that is done again after it was heard to be unavailable may find itself.
fn applied_or_there(outcome: &WriteOutcome, version: &str) -> bool {
    match outcome {
        WriteOutcome::Applied => true,
        WriteOutcome::Rejected(item) => item.text("v") == Some(version),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_whole_whatever_call_of_the_files_is_broken() {
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
            let read = insist(async || {
                let mut reader = files.open(&key).await?.expect("it was published");
                let mut read = Vec::new();
                while let Some(chunk) = reader.next().await? {
                    read.extend_from_slice(&chunk);
                }
                Ok::<_, FilesError>(read)
            })
            .await;
            assert!(read == content, "{size_bytes} bytes changed on their way");
        }
    }
    whole.files().ready().await.unwrap();
    let nameless = ["S3 HEAD", "S3 POST uploads", "S3 POST uploadId"];
    assert_broken(&proxy, &["PutObject", "GetObject", "UploadPart"]);
    assert_broken(&proxy, &nameless);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_arrive_once_and_in_order_whatever_call_of_the_queue_is_broken() {
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
        let body = round.to_string();
        let sent = Outgoing {
            queue: QueueName::Events,
            group: GroupId::of(&["g"]),
            dedup: DedupId::of(&[body.as_bytes()]),
            body,
        };
        insist(async || queue.ready().await).await;
        insist(async || queue.send(vec![sent.clone()]).await.remove(0)).await;
        // What an answer that was lost had leased comes back when that lease ends.
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
                // An earlier try of this ack did it.
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
