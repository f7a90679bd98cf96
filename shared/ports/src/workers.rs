//! The table of workers: the queue that each consumes, what it may use, and how large its function is on Lambda.
//!
//! Queues, `annalist up`, permissions, the CloudFormation template, `status` and the tables in the documents are made from it. How a
//! worker is built is in `workers/src/lib.rs`; each has a binary, and a test holds both to this table.

use std::time::Duration;

use crate::queue::topology::{QueueRole, QueueSpec};

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
    /// Spans of Slack's history to be read.
    Backfill,
}

/// What a worker uses besides its queue, its dead letters and the archive's rows, which every worker uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uses {
    /// The table of the existence check.
    Existence,
    /// The table of claims.
    Claims,
    /// The store of files.
    Files,
    /// The archive's index of threads.
    Threads,
    /// Slack's Web API, with the bot token.
    SlackApi,
    /// What answers questions, with its key.
    Processor,
}

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct WorkerSpec {
    /// The name of its binary, of its function, and of its label in metrics.
    pub name: &'static str,
    /// What it does, for people.
    pub what: &'static str,
    /// The queue it consumes; no other worker does.
    pub queue: QueueSpec,
    /// The queues it sends to.
    pub sends_to: &'static [QueueName],
    /// What else it uses.
    pub uses: &'static [Uses],
    /// The memory of its function, and with it a share of the processor: 1769 MB are one.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html>
    pub memory_mb: u32,
    /// How long one invocation of its function may take.
    pub timeout: Duration,
    /// How many of its functions run at once, unless a parameter of the template says otherwise. Without a bound Lambda
    /// polls an empty queue less often, and each poll is on the bill.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html>
    pub concurrency: Option<u32>,
    /// What runs beside it in its process every hour, and as a function of its own on Lambda.
    pub hourly: Option<&'static HourlySpec>,
}

/// Work that no queue brings: it is done every hour, beside a worker.
#[derive(Debug, PartialEq, Eq)]
pub struct HourlySpec {
    /// The name of its function.
    pub name: &'static str,
    /// What it does, for people.
    pub what: &'static str,
    /// The queues it sends to.
    pub sends_to: &'static [QueueName],
    /// What else it uses besides the archive's rows.
    pub uses: &'static [Uses],
    /// The memory of its function.
    pub memory_mb: u32,
    /// How long one invocation of its function may take.
    pub timeout: Duration,
}

/// A batch takes a fraction of a second. What a throttled table makes it wait for longer waits better on the queue; and a
/// function that crashed holds its messages for six times as long.
const SHORT: Duration = Duration::from_secs(30);

/// Lambda's maximum.
/// <https://docs.aws.amazon.com/lambda/latest/dg/configuration-timeout.html>
const LONG: Duration = Duration::from_secs(15 * 60);

/// The workers, in the order of the flow.
pub const WORKERS: [WorkerSpec; 7] = [
    WorkerSpec {
        name: "message-writer",
        what: "Turns events into rows",
        queue: QueueSpec {
            name: QueueName::Events,
            label: "events",
            role: QueueRole::Live,
            group: "`team#channel`; of a person `team#user`; of neither `team`; with malformed ids `invalid`",
            dedup: "team, event_id, body",
            delay: Duration::ZERO,
        },
        // An event that waits for its channel to be known waits on its own queue.
        sends_to: &[QueueName::Events, QueueName::Channels, QueueName::Files, QueueName::Questions],
        uses: &[Uses::Existence, Uses::SlackApi],
        // Ten events of up to a megabyte, read and written.
        memory_mb: 256,
        timeout: SHORT,
        concurrency: Some(10),
        hourly: None,
    },
    WorkerSpec {
        name: "channel-indexer",
        what: "Keeps the rows of channels",
        queue: QueueSpec {
            name: QueueName::Channels,
            label: "channels",
            role: QueueRole::Live,
            group: "`team`",
            dedup: "team, event_id, kind, body",
            delay: Duration::ZERO,
        },
        sends_to: &[],
        uses: &[Uses::Existence, Uses::SlackApi],
        memory_mb: 256,
        timeout: SHORT,
        // One workspace is one message group, so one function at a time.
        concurrency: None,
        hourly: Some(&DIRECTORY),
    },
    WorkerSpec {
        name: "file-downloader",
        what: "Downloads files and pictures",
        queue: QueueSpec {
            name: QueueName::Files,
            label: "files",
            role: QueueRole::Live,
            group: "`team#file`",
            dedup: "kind, team, channel, ts, file, object",
            delay: Duration::ZERO,
        },
        sends_to: &[],
        uses: &[Uses::Claims, Uses::Files, Uses::SlackApi],
        // Ten files, of each up to two parts of 8 MiB.
        memory_mb: 512,
        // A file may have a gigabyte.
        timeout: LONG,
        // Each function keeps its own count of downloads per minute.
        concurrency: Some(2),
        hourly: None,
    },
    WorkerSpec {
        name: "statistician",
        what: "Counts each channel's days",
        queue: QueueSpec {
            name: QueueName::Stats,
            label: "stats",
            role: QueueRole::Background,
            group: "`team#channel#day`",
            dedup: "team, channel, day, minute of sending",
            // Longer than the bucket of the deduplication id with the clocks' skew, so that the last change of a bucket is
            // counted. The minute is the clock's at the sending, never the event's.
            delay: Duration::from_secs(90),
        },
        // It finds the days that are to be counted itself.
        sends_to: &[QueueName::Stats],
        uses: &[],
        // A page of a day's messages, of up to a megabyte, and what was counted of them.
        memory_mb: 256,
        // A day may have many messages.
        timeout: LONG,
        // It waits behind what is live.
        concurrency: Some(2),
        hourly: None,
    },
    WorkerSpec {
        name: "responder",
        what: "Answers questions, if it is turned on",
        queue: QueueSpec {
            name: QueueName::Questions,
            label: "questions",
            role: QueueRole::Background,
            // One slow answer blocks its own thread only.
            group: "`team#channel#thread_ts`",
            dedup: "team, channel, ts, attempt",
            delay: Duration::ZERO,
        },
        // A question that was reset is asked again.
        sends_to: &[QueueName::Replies, QueueName::Questions],
        uses: &[Uses::Claims, Uses::Threads, Uses::Processor],
        memory_mb: 256,
        // A model takes a minute, and may take more.
        timeout: LONG,
        // What it asks is paid for by the question.
        concurrency: Some(4),
        hourly: None,
    },
    WorkerSpec {
        name: "poster",
        what: "Posts answers, if the responder is turned on",
        queue: QueueSpec {
            name: QueueName::Replies,
            label: "replies",
            role: QueueRole::Background,
            group: "`team#channel`",
            dedup: "team, channel, ts, attempt",
            delay: Duration::ZERO,
        },
        sends_to: &[],
        uses: &[Uses::Claims, Uses::Threads, Uses::SlackApi],
        memory_mb: 256,
        // An answer has up to eight parts, a second apart; Slack may want a look before one is repeated.
        timeout: SHORT,
        concurrency: Some(2),
        hourly: None,
    },
    WorkerSpec {
        name: "historian",
        what: "Reads Slack's history where events were missed",
        queue: QueueSpec {
            name: QueueName::Backfill,
            label: "backfill",
            role: QueueRole::Background,
            // Slack's limits for its history are per method and workspace.
            group: "`team`",
            dedup: "team, channel, from, to, page",
            delay: Duration::ZERO,
        },
        // A long span goes on in another job, behind those that wait.
        sends_to: &[QueueName::Files, QueueName::Backfill],
        uses: &[Uses::Threads, Uses::SlackApi],
        // Two pages of up to 16 MiB, read and as rows.
        memory_mb: 512,
        timeout: LONG,
        // One workspace is one message group, so one function at a time.
        concurrency: None,
        hourly: None,
    },
];

/// The sync of Slack's directory.
pub const DIRECTORY: HourlySpec = HourlySpec {
    name: "directory",
    what: "Reads Slack's directory every hour and joins public channels",
    // Pictures of people and emoji.
    sends_to: &[QueueName::Files],
    uses: &[Uses::SlackApi],
    // A whole workspace's channels and people.
    memory_mb: 512,
    // A large workspace takes minutes at the pace of Slack's limits.
    timeout: LONG,
};

impl WorkerSpec {
    /// The worker of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        WORKERS.iter().find(|spec| spec.name == name)
    }

    /// The worker that consumes this queue.
    ///
    /// # Panics
    /// If it has none, which a test rules out.
    pub fn of(queue: QueueName) -> &'static Self {
        WORKERS.iter().find(|spec| spec.queue.name == queue).expect("every queue has a worker")
    }

    /// Whether it uses this.
    pub fn may_use(&self, what: Uses) -> bool {
        self.uses.contains(&what)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_worker_has_a_name_and_a_queue_of_its_own() {
        let names: BTreeSet<&str> = WORKERS.iter().map(|spec| spec.name).collect();
        let queues: BTreeSet<QueueName> = WORKERS.iter().map(|spec| spec.queue.name).collect();
        assert_eq!((names.len(), queues.len()), (WORKERS.len(), WORKERS.len()));
        for spec in &WORKERS {
            assert_eq!(WorkerSpec::named(spec.name), Some(WorkerSpec::of(spec.queue.name)));
        }
    }
}
