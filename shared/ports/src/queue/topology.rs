//! The topology: queues with their groups, delays and leases, from the rows of [`crate::workers`], and
//! tables.
//!
//! Routing and the embedded backend read it, `annalist provision` applies it to AWS, and the table of
//! docs/queues.md is tested against it.

use std::fmt;
use std::time::Duration;

use crate::workers::{QueueName, WORKERS, WorkerSpec};
pub use crate::workers::{QueueRole, QueueSpec};

/// The receive count after which a message becomes a dead letter. It includes receives of a message that only
/// waited behind another, so it is a last resort: the runtime detects poison messages long before.
pub const MAX_RECEIVE_COUNT: u32 = 1000;

/// How long a queue keeps messages: SQS's maximum.
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

/// The purpose of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableRole {
    /// The archive itself.
    Archive,
    /// Users and channels that Slack recently confirmed to exist.
    Existence,
    /// Current and recent claims.
    Claims,
}

/// A table, for backends with separate tables. The embedded backend has one file instead.
#[derive(Debug, Clone, Copy)]
pub struct TableSpec {
    /// Its purpose.
    pub role: TableRole,
    /// Its default name; a setting can override it.
    pub default_name: &'static str,
    /// The partition key attribute.
    pub partition_key: &'static str,
    /// The sort key attribute.
    pub sort_key: Option<&'static str>,
    /// Its sparse index, if it has one.
    pub index: Option<IndexSpec>,
    /// The attribute with the second from which a row may be deleted.
    pub ttl: Option<&'static str>,
    /// Whether the table can be restored to any second of the last 35 days.
    pub point_in_time_recovery: bool,
}

/// A sparse index: it contains the items that have its key, and only their keys.
#[derive(Debug, Clone, Copy)]
pub struct IndexSpec {
    pub name: &'static str,
    /// The partition key attribute.
    pub partition_key: &'static str,
    /// The sort key attribute.
    pub sort_key: &'static str,
}

pub const ARCHIVE_TABLE: TableSpec = TableSpec {
    role: TableRole::Archive,
    default_name: "SlackArchive",
    partition_key: "itemId",
    sort_key: Some("timestamp"),
    index: Some(IndexSpec { name: "parent-index", partition_key: "parent", sort_key: "timestamp" }),
    // Which kinds of rows have it: `rows::expires_after`. No attribute of an item has such a name in the table.
    ttl: Some("#expires"),
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

pub const CLAIMS_TABLE: TableSpec = TableSpec {
    role: TableRole::Claims,
    default_name: "slack-processed-events",
    partition_key: "event_key",
    sort_key: None,
    index: None,
    ttl: Some("ttl"),
    point_in_time_recovery: false,
};

pub const TABLES: [TableSpec; 3] = [ARCHIVE_TABLE, EXISTENCE_TABLE, CLAIMS_TABLE];

impl QueueName {
    /// This queue's row in the topology.
    #[must_use]
    pub fn spec(self) -> &'static QueueSpec {
        // The table lists the queues in the order of the enum; a test checks it.
        &QUEUES[self as usize]
    }

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
            WorkerSpec::for_queue(spec.name).name
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_has_its_own_row() {
        for spec in &QUEUES {
            assert_eq!(spec.name.spec().name, spec.name);
            assert_eq!(QueueName::from_label(spec.label), Some(spec.name));
        }
    }
}
