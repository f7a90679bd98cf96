//! Runs parts of the fleet on AWS and counts their AWS requests: by their own metric, compared with the count
//! of a proxy.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinSet;

use super::client::{EventClient, RetryDelays};
use super::environment::AwsInstallation;
use super::process::{self, Process};
use super::scrape::aws_requests;
use super::stack::Stack;
use crate::harness::proxy::Proxy;

const DRAIN_DEADLINE: Duration = Duration::from_secs(300);

/// Operations that put messages on a queue.
pub const SENDS: [&str; 2] = ["SendMessage", "SendMessageBatch"];
/// Operations that read rows.
pub const READS: [&str; 5] = ["GetItem", "BatchGetItem", "Query", "Scan", "TransactGetItems"];
/// Operations that write rows.
pub const WRITES: [&str; 5] = ["UpdateItem", "PutItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"];

/// The number of requests of each operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests(pub BTreeMap<String, u64>);

impl Requests {
    /// The number of requests of these operations.
    pub fn sum(&self, operations: &[&str]) -> u64 {
        operations.iter().filter_map(|operation| self.0.get(*operation)).sum()
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for (operation, count) in &other.0 {
            *self.0.entry(operation.clone()).or_default() += count;
        }
        self
    }
}

/// Sends signed events through an ingest process, over `connections` connections; returns the requests of ingest.
///
/// # Panics
/// If one is not acked.
pub async fn send_through_ingest(
    installation: &AwsInstallation,
    bodies: Vec<String>,
    connections: usize,
) -> Requests {
    let proxy = Proxy::in_front_of(Stack::shared().endpoint(), 0).await;
    let ingest = process::ingest(&installation.with_endpoint(&proxy.endpoint)).await;
    let mut senders = JoinSet::new();
    for bodies in bodies.chunks(bodies.len().div_ceil(connections).max(1)) {
        let mut slack = EventClient::for_address(ingest.address, RetryDelays::none());
        let bodies = bodies.to_vec();
        senders.spawn(async move {
            for body in bodies {
                assert_eq!(slack.deliver(&body).await, Ok(1));
            }
        });
    }
    while let Some(sender) = senders.join_next().await {
        sender.expect("every event is acked");
    }
    counted_requests(&proxy, &ingest.process).await
}

/// Drains the events queue with one message-writer, and returns its requests.
///
/// # Panics
/// If the queue is not drained in time.
pub async fn drain_with_writer(installation: &AwsInstallation) -> Requests {
    let proxy = Proxy::in_front_of(Stack::shared().endpoint(), 0).await;
    let writer = process::message_writer(&installation.with_endpoint(&proxy.endpoint)).await;
    installation.wait_until_empty(&[ports::queue::QueueName::Events], DRAIN_DEADLINE).await;
    counted_requests(&proxy, &writer).await
}

/// The process's own count of its requests, which must match the proxy's.
///
/// # Panics
/// If it does not.
pub async fn counted_requests(proxy: &Proxy, process: &Process) -> Requests {
    // Long polls and gauges continue while both are read, so the metric's value lies between the proxy's two
    // values.
    let before = proxy.requests();
    let counted = aws_requests(process).await;
    let after = proxy.requests();
    // S3's operations have no names on the wire.
    for (operation, count) in counted.iter().filter(|(operation, _)| before.contains_key(*operation)) {
        let of = |requests: &BTreeMap<String, usize>| requests[operation] as u64;
        // A counted request may not have reached the proxy yet.
        assert!(
            (of(&before)..=of(&after) + 1).contains(count),
            "{operation}: the metric says {count}, the proxy {} to {}",
            of(&before),
            of(&after)
        );
    }
    Requests(counted)
}
