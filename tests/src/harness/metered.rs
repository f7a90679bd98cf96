//! Runs parts of the fleet on AWS and counts their requests to it: by their own metric, compared with a proxy that counts
//! too.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinSet;

use super::client::{EventClient, RetryDelays};
use super::place::AwsInstallation;
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

/// How many requests of each operation were sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests(pub BTreeMap<String, u64>);

impl Requests {
    /// How many of these operations.
    pub fn sum(&self, operations: &[&str]) -> u64 {
        operations.iter().filter_map(|operation| self.0.get(*operation)).sum()
    }

    /// All of both.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
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
pub async fn send(installation: &AwsInstallation, bodies: Vec<String>, connections: usize) -> Requests {
    let proxy = Proxy::before(Stack::shared().endpoint(), 0).await;
    let ingest = process::ingest(&installation.through(&proxy.endpoint)).await;
    let mut senders = JoinSet::new();
    for bodies in bodies.chunks(bodies.len().div_ceil(connections).max(1)) {
        let mut slack = EventClient::to(ingest.address, RetryDelays::none());
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
    counted(&proxy, &ingest.process).await
}

/// Works the full queue of events off with one message-writer; what it asked for.
///
/// # Panics
/// If it does not.
pub async fn write(installation: &AwsInstallation) -> Requests {
    let proxy = Proxy::before(Stack::shared().endpoint(), 0).await;
    let writer = process::message_writer(&installation.through(&proxy.endpoint)).await;
    installation.emptied(&[ports::queue::QueueName::Events], DRAIN_DEADLINE).await;
    counted(&proxy, &writer).await
}

/// What the process says it asked for, which must be what was asked for.
///
/// # Panics
/// If it is not.
pub async fn counted(proxy: &Proxy, process: &Process) -> Requests {
    // Long polls and gauges go on while both are read, so what the metric says lies between.
    let before = proxy.requests();
    let counted = aws_requests(process).await;
    let after = proxy.requests();
    // S3's operations have no names on the wire.
    for (operation, count) in counted.iter().filter(|(operation, _)| before.contains_key(*operation)) {
        let of = |requests: &BTreeMap<String, usize>| requests[operation] as u64;
        // A request that is counted may be on its way to the proxy.
        assert!(
            (of(&before)..=of(&after) + 1).contains(count),
            "{operation}: the metric says {count}, the proxy {} to {}",
            of(&before),
            of(&after)
        );
    }
    Requests(counted)
}
