//! Everything that is set up: queues with their groups, delays and leases, from the rows of [`crate::workers`]; tables.
//!
//! Routing and the embedded backend read it, `annalist provision` makes AWS follow it, and the table of docs/queues.md is tested
//! against it.

use std::fmt;
use std::time::Duration;

use crate::workers::{QueueName, WORKERS, WorkerSpec};

/// What kind of work a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueRole {
    /// What Slack has just sent: the archive is up to date once it is done.
    Live,
    /// What may take hours, and waits behind what is live. `idle` does not count it; `busy` names it.
    Background,
}

/// A queue, as the row of the worker that consumes it has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSpec {
    /// Which queue.
    pub name: QueueName,
    /// Its name on every backend, behind the prefix.
    pub label: &'static str,
    /// What kind of work it holds.
    pub role: QueueRole,
    /// What a message group is.
    pub group: &'static str,
    /// What the deduplication id is made of.
    pub dedup: &'static str,
    /// How long every message is held back. SQS FIFO has no delay per message.
    pub delay: Duration,
}

/// After this number of receives a message becomes a dead letter. It counts every receive, also those of a message that only
/// waited behind another, so it is a far backstop: poison is found by the runtime long before.
pub const MAX_RECEIVE_COUNT: u32 = 1000;

/// Everything on a queue is kept this long: SQS's maximum.
pub const RETENTION: Duration = Duration::from_secs(14 * 24 * 3600);

/// The queues, in the order of the flow.
pub const QUEUES: [QueueSpec; WORKERS.len()] = {
    let mut queues = [WORKERS[0].queue; WORKERS.len()];
    let mut index = 0;
    while index < queues.len() {
        queues[index] = WORKERS[index].queue;
        index += 1;
    }
    queues
};

impl QueueSpec {
    /// How long a received message stays invisible to others if the receive does not say. Only Lambda's poller does not say:
    /// AWS asks for six times the function's timeout there.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>
    pub fn visibility_timeout(&self) -> Duration {
        6 * WorkerSpec::of(self.name).timeout
    }
}

/// What a table is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableRole {
    /// Everything that is kept.
    Archive,
    /// Who and what Slack confirmed to exist, for a while.
    Existence,
    /// Who works on what, for a while.
    Claims,
}

/// A table where tables are made one by one. The embedded backend has one file instead.
#[derive(Debug, Clone, Copy)]
pub struct TableSpec {
    /// What it is for.
    pub role: TableRole,
    /// Its name unless set: the seed's.
    pub default_name: &'static str,
    /// The attribute that picks a partition.
    pub partition_key: &'static str,
    /// The attribute that orders a partition.
    pub sort_key: Option<&'static str>,
    /// Sparse indexes: the attribute that picks a partition of it, and the one that orders it.
    pub index: Option<IndexSpec>,
    /// The attribute that holds the second at which a row may go.
    pub ttl: Option<&'static str>,
    /// Whether every second of the last 35 days can be restored.
    pub point_in_time_recovery: bool,
}

/// An index that holds the items that have its key, and of them only the keys.
#[derive(Debug, Clone, Copy)]
pub struct IndexSpec {
    /// Its name.
    pub name: &'static str,
    /// The attribute that picks a partition.
    pub partition_key: &'static str,
    /// The attribute that orders a partition.
    pub sort_key: &'static str,
}

/// The archive's table.
pub const ARCHIVE_TABLE: TableSpec = TableSpec {
    role: TableRole::Archive,
    default_name: "SlackArchive",
    partition_key: "itemId",
    sort_key: Some("timestamp"),
    index: Some(IndexSpec { name: "parent-index", partition_key: "parent", sort_key: "timestamp" }),
    ttl: None,
    point_in_time_recovery: true,
};

/// The table of the existence check.
pub const EXISTENCE_TABLE: TableSpec = TableSpec {
    role: TableRole::Existence,
    default_name: "slack-existence-check-cache",
    partition_key: "cache_key",
    sort_key: None,
    index: None,
    ttl: Some("ttl"),
    point_in_time_recovery: false,
};

/// The table of claims.
pub const CLAIMS_TABLE: TableSpec = TableSpec {
    role: TableRole::Claims,
    default_name: "slack-processed-events",
    partition_key: "event_key",
    sort_key: None,
    index: None,
    ttl: Some("ttl"),
    point_in_time_recovery: false,
};

/// The tables.
pub const TABLES: [TableSpec; 3] = [ARCHIVE_TABLE, EXISTENCE_TABLE, CLAIMS_TABLE];

impl QueueName {
    /// This queue's row of the topology.
    #[must_use]
    pub fn spec(self) -> &'static QueueSpec {
        // The table lists the queues in the order of the enum; a test holds both together.
        &QUEUES[self as usize]
    }

    /// The queue of this label.
    pub fn from_label(label: &str) -> Option<Self> {
        QUEUES.iter().find(|spec| spec.label == label).map(|spec| spec.name)
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spec().label)
    }
}

/// The topology as docs/queues.md shows it.
pub fn markdown_table() -> String {
    let mut table = String::from(
        "| queue | message group | deduplication id | delay | worker |\n|---|---|---|---|---|\n",
    );
    for spec in &QUEUES {
        let delay = if spec.delay.is_zero() { String::new() } else { format!("{} s", spec.delay.as_secs()) };
        table.push_str(&format!(
            "| `{}` | {} | {} | {delay} | `{}` |\n",
            spec.label,
            spec.group,
            spec.dedup,
            WorkerSpec::of(spec.name).name
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_finds_its_own_row() {
        for spec in &QUEUES {
            assert_eq!(spec.name.spec().name, spec.name);
            assert_eq!(QueueName::from_label(spec.label), Some(spec.name));
        }
    }
}
