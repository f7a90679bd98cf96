//! The one table of everything that is set up: queues with their groups, delays, leases and consumers; tables; the
//! bucket.
//!
//! Routing and the embedded backend read it, `annalist provision` makes AWS follow it, and the table of docs/queues.md is tested
//! against it.

use std::fmt;
use std::time::Duration;

/// The queues of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueName {
    /// Slack's events.
    Events,
    /// What changes a channel's row, and gaps.
    Channels,
    /// Files to be downloaded.
    Files,
    /// Days to be counted again.
    Stats,
    /// Questions to the responder.
    Questions,
    /// Answers to be posted.
    Replies,
    /// Messages from Slack's history.
    Backfill,
}

/// One row of the topology.
#[derive(Debug, Clone, Copy)]
pub struct QueueSpec {
    /// Which queue.
    pub name: QueueName,
    /// Its name on every backend, behind the prefix.
    pub label: &'static str,
    /// What a message group is.
    pub group: &'static str,
    /// What the deduplication id is made of.
    pub dedup: &'static str,
    /// How long every message is held back. SQS FIFO has no delay per message.
    pub delay: Duration,
    /// How long the worker may take where it runs as a Lambda function.
    pub function_timeout: Duration,
    /// How long a received message stays invisible to others where the receive does not say. Only Lambda's poller does
    /// not: AWS asks for six times the function's timeout there.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>
    pub visibility_timeout: Duration,
    /// After so many receives a message becomes a dead letter. It counts every receive, also those of a message that
    /// only waited behind another, so it is a far backstop: poison is found by the runtime long before.
    pub max_receive_count: u32,
    /// The worker that empties it. Without one the queue is kept, shown, and ignored by `idle`.
    pub consumer: Option<&'static str>,
}

/// Everything on a queue is kept this long: SQS's maximum.
pub const RETENTION: Duration = Duration::from_secs(14 * 24 * 3600);

const fn spec(name: QueueName, label: &'static str, group: &'static str, dedup: &'static str) -> QueueSpec {
    QueueSpec {
        name,
        label,
        group,
        dedup,
        delay: Duration::ZERO,
        // A batch takes a fraction of a second. What a throttled table makes it wait for longer waits better on the
        // queue; and a function that crashed holds its messages for six times as long.
        function_timeout: Duration::from_secs(30),
        visibility_timeout: Duration::from_secs(6 * 30),
        max_receive_count: 1000,
        consumer: None,
    }
}

/// The topology, in the order of the flow.
pub const QUEUES: [QueueSpec; 7] = [
    QueueSpec {
        consumer: Some("message-writer"),
        ..spec(
            QueueName::Events,
            "events",
            "`team#channel`; of a person `team#user`; of neither `team`; with malformed ids `invalid`",
            "team, event_id, body",
        )
    },
    QueueSpec {
        consumer: Some("channel-indexer"),
        ..spec(QueueName::Channels, "channels", "`team`", "team, event_id, kind, body")
    },
    QueueSpec {
        consumer: Some("file-downloader"),
        // Lambda's maximum: a file may have a gigabyte.
        function_timeout: Duration::from_secs(15 * 60),
        visibility_timeout: Duration::from_secs(6 * 15 * 60),
        ..spec(QueueName::Files, "files", "`team#file`", "kind, team, channel, ts, file, object")
    },
    QueueSpec {
        // Longer than the bucket of the deduplication id, so that the last change of a bucket is counted.
        delay: Duration::from_secs(90),
        ..spec(QueueName::Stats, "stats", "`team#channel#day`", "channel, day, minute")
    },
    spec(QueueName::Questions, "questions", "`team#channel`", "question"),
    spec(QueueName::Replies, "replies", "`channel`", "question, part"),
    spec(QueueName::Backfill, "backfill", "`team#channel`", "channel, ts, version"),
];

/// What a table is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableRole {
    /// Everything that is kept (seed 000).
    Archive,
    /// Who and what Slack confirmed to exist, for a while (seed 001).
    Existence,
    /// Who works on what, for a while (seed 004).
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
    #[must_use]
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
#[must_use]
pub fn markdown_table() -> String {
    let mut table = String::from(
        "| queue | message group | deduplication id | delay | worker |\n|---|---|---|---|---|\n",
    );
    for spec in &QUEUES {
        let delay = if spec.delay.is_zero() { String::new() } else { format!("{} s", spec.delay.as_secs()) };
        let consumer = spec.consumer.map_or_else(String::new, |worker| format!("`{worker}`"));
        table.push_str(&format!(
            "| `{}` | {} | {} | {delay} | {consumer} |\n",
            spec.label, spec.group, spec.dedup
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

    #[test]
    fn a_message_outlives_six_timeouts_of_its_function() {
        for spec in &QUEUES {
            assert!(spec.visibility_timeout >= 6 * spec.function_timeout, "{}", spec.label);
        }
    }
}
