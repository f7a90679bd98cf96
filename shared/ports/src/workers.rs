//! The table of workers: the queue that each consumes, the resources it may use, and the size of its Lambda
//! function.
//!
//! Queues, `annalist up`, permissions, the CloudFormation template, `status` and the tables in the documents
//! are generated from it. `workers/fleet/src/lib.rs` builds the workers; each has a binary, and a test checks both
//! against this table.

use std::time::Duration;

/// The queues of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueName {
    /// Slack's events.
    Events,
    /// Events that change a channel's row, and gaps.
    Channels,
    /// Files to download.
    Files,
    /// Days to count again.
    Stats,
    /// Questions to the responder.
    Questions,
    /// Answers to post.
    Replies,
    /// Spans of Slack's history to read.
    Backfill,
    /// The work of a night.
    Nightly,
    /// Directories of workspaces to sync.
    Directory,
}

/// The kind of work on a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueRole {
    /// Events that Slack has just sent: the archive is up to date once they are handled.
    Live,
    /// Work that may take hours and waits behind live work. `idle` ignores it; `busy` lists it.
    Background,
}

/// A queue, as defined in the row of its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSpec {
    pub name: QueueName,
    /// Its name on every backend, after the prefix.
    pub label: &'static str,
    /// The kind of work on it.
    pub role: QueueRole,
    /// The parts of its message groups, for the documentation.
    pub group: &'static str,
    /// The parts of its deduplication ids, for the documentation.
    pub dedup: &'static str,
    /// The delay of every message. SQS FIFO has no delay per message.
    pub delay: Duration,
}

impl QueueSpec {
    /// The default visibility timeout, for a receive that does not set one. Only Lambda's poller does not set
    /// one: AWS recommends six times the function's timeout.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>
    pub fn visibility_timeout(&self) -> Duration {
        6 * WorkerSpec::for_queue(self.name).timeout
    }
}

/// A resource that a worker uses in addition to its queue, its dead letters and the archive's rows, which
/// every worker uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uses {
    /// The table of the existence check.
    Existence,
    /// The table of claims.
    Claims,
    /// The file store.
    Files,
    /// The archive's index of threads.
    Threads,
    /// Slack's Web API, with the bot token.
    SlackApi,
    /// The processor that answers questions, with its key.
    Processor,
    /// The stored parts of rows, to delete them.
    Erasure,
}

/// A feature that a person turns on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Answering questions.
    Responder,
}

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct WorkerSpec {
    /// The name of its binary and its function, and its label in metrics.
    pub name: &'static str,
    /// A description for users.
    pub description: &'static str,
    /// The queue it consumes. No other worker consumes it.
    pub queue: QueueSpec,
    /// The other queues it sends to: every worker also sends to its own, jobs that it had set aside.
    pub sends_to: &'static [QueueName],
    /// The other resources it uses.
    pub uses: &'static [Uses],
    /// The feature without which it has no work, and does not run.
    pub requires: Option<Feature>,
    /// The memory of its function, which also sets its share of CPU time: 1769 MB correspond to one vCPU.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html>
    pub memory_mb: u32,
    /// The maximum duration of one invocation of its function.
    pub timeout: Duration,
    /// The maximum number of concurrent invocations, unless a template parameter overrides it. Without a
    /// limit Lambda polls an empty queue less often, and each poll is billed.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html>
    pub concurrency: Option<u32>,
    /// The maximum number of messages of one invocation of its function.
    pub invocation_batch: u32,
    /// How often its function takes its dead letters, and looks for work that no message brings.
    pub schedule: Duration,
}

/// A batch takes a fraction of a second. If a throttled table delays it for longer, the messages had better
/// wait on the queue; and after a crash, the messages of a function stay invisible for six times its timeout.
const SHORT: Duration = Duration::from_secs(30);

/// Lambda's maximum.
/// <https://docs.aws.amazon.com/lambda/latest/dg/configuration-timeout.html>
const LONG: Duration = Duration::from_secs(15 * 60);

const HOUR: Duration = Duration::from_secs(3_600);

/// Maximum batch size of a FIFO queue.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-parameters.html>
const FIFO_BATCH: u32 = 10;

/// The workers, in the order of the flow.
pub const WORKERS: [WorkerSpec; 9] = [
    WorkerSpec {
        name: "message-writer",
        description: "Turns events into rows",
        queue: QueueSpec {
            name: QueueName::Events,
            label: "events",
            role: QueueRole::Live,
            group: "`team#channel`; of a person `team#user`; of neither `team`; with malformed ids `invalid`",
            dedup: "team, event_id, body",
            delay: Duration::ZERO,
        },
        sends_to: &[QueueName::Channels, QueueName::Files, QueueName::Questions],
        uses: &[Uses::Existence, Uses::SlackApi],
        requires: None,
        // Ten events of up to a megabyte, read and written.
        memory_mb: 256,
        timeout: SHORT,
        concurrency: Some(10),
        invocation_batch: FIFO_BATCH,
        schedule: HOUR,
    },
    WorkerSpec {
        name: "channel-indexer",
        description: "Keeps the rows of channels",
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
        requires: None,
        memory_mb: 256,
        timeout: SHORT,
        // One workspace is one message group, so only one function runs at a time.
        concurrency: None,
        invocation_batch: FIFO_BATCH,
        schedule: HOUR,
    },
    WorkerSpec {
        name: "file-downloader",
        description: "Downloads files and pictures",
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
        requires: None,
        // Ten files, with up to two parts of 8 MiB each.
        memory_mb: 512,
        // A file may be as large as a gigabyte.
        timeout: LONG,
        // Each function keeps its own count of downloads per minute.
        concurrency: Some(2),
        invocation_batch: FIFO_BATCH,
        schedule: HOUR,
    },
    WorkerSpec {
        name: "statistician",
        description: "Counts each channel's days",
        queue: QueueSpec {
            name: QueueName::Stats,
            label: "stats",
            role: QueueRole::Background,
            group: "`team#channel#day`",
            dedup: "team, channel, day, minute of sending",
            // Longer than the bucket of the deduplication id plus clock skew, so that the last change of a
            // bucket is counted. The minute is that of the send time, not that of the event.
            delay: Duration::from_secs(90),
        },
        sends_to: &[],
        uses: &[],
        requires: None,
        // A page of a day's messages, up to a megabyte, and their counts.
        memory_mb: 256,
        // A day may have many messages.
        timeout: LONG,
        // Live work comes first.
        concurrency: Some(2),
        invocation_batch: FIFO_BATCH,
        schedule: HOUR,
    },
    WorkerSpec {
        name: "responder",
        description: "Answers questions, if it is turned on",
        queue: QueueSpec {
            name: QueueName::Questions,
            label: "questions",
            role: QueueRole::Background,
            // One slow answer blocks its own thread only.
            group: "`team#channel#thread_ts`",
            dedup: "team, channel, ts, attempt",
            delay: Duration::ZERO,
        },
        sends_to: &[QueueName::Replies],
        uses: &[Uses::Claims, Uses::Threads, Uses::Processor],
        requires: Some(Feature::Responder),
        memory_mb: 256,
        // A model takes a minute, and may take more.
        timeout: LONG,
        // Each question to the processor costs money.
        concurrency: Some(4),
        invocation_batch: FIFO_BATCH,
        schedule: HOUR,
    },
    WorkerSpec {
        name: "poster",
        description: "Posts answers, if the responder is turned on",
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
        requires: Some(Feature::Responder),
        memory_mb: 256,
        // An answer has up to eight parts, posted a second apart, and a repeated post may first require a
        // lookup in Slack.
        timeout: SHORT,
        concurrency: Some(2),
        invocation_batch: FIFO_BATCH,
        schedule: HOUR,
    },
    WorkerSpec {
        name: "historian",
        description: "Reads Slack's history where events were missed",
        queue: QueueSpec {
            name: QueueName::Backfill,
            label: "backfill",
            role: QueueRole::Background,
            // Slack's limits for its history are per method and workspace.
            group: "`team`",
            dedup: "team, turn, time of sending",
            delay: Duration::ZERO,
        },
        sends_to: &[QueueName::Files],
        uses: &[Uses::Threads, Uses::SlackApi],
        requires: None,
        // Two pages of up to 16 MiB, as responses and as rows.
        memory_mb: 512,
        timeout: LONG,
        // One workspace is one message group, so only one function runs at a time.
        concurrency: None,
        invocation_batch: FIFO_BATCH,
        schedule: HOUR,
    },
    WorkerSpec {
        name: "keeper",
        description: "Compares with Slack every night, and removes what has expired",
        queue: QueueSpec {
            name: QueueName::Nightly,
            label: "nightly",
            role: QueueRole::Background,
            // Slack's limits for its history are per method and workspace.
            group: "`team`",
            dedup: "team, night, time of sending, turn",
            delay: Duration::ZERO,
        },
        sends_to: &[QueueName::Files],
        uses: &[Uses::Claims, Uses::Files, Uses::Threads, Uses::SlackApi, Uses::Erasure],
        requires: None,
        // A page of up to 16 MiB, as a response and as rows.
        memory_mb: 512,
        timeout: LONG,
        // One workspace is one message group, so only one function runs at a time.
        concurrency: None,
        invocation_batch: FIFO_BATCH,
        schedule: HOUR,
    },
    WorkerSpec {
        name: "directory",
        description: "Reads Slack's directory every hour and joins public channels",
        queue: QueueSpec {
            name: QueueName::Directory,
            label: "directory",
            role: QueueRole::Background,
            // Slack's limits are per method and workspace.
            group: "`team`",
            dedup: "team, due time",
            delay: Duration::ZERO,
        },
        // Avatars and emoji.
        sends_to: &[QueueName::Files],
        uses: &[Uses::SlackApi],
        requires: None,
        // A whole workspace's channels and people.
        memory_mb: 512,
        // A large workspace takes minutes at the pace of Slack's limits.
        timeout: LONG,
        concurrency: Some(5),
        // One workspace has the memory and the time of a function.
        invocation_batch: 1,
        // A workspace with a new token, or after a failure, is due in between.
        schedule: Duration::from_secs(300),
    },
];

impl WorkerSpec {
    pub fn by_name(name: &str) -> Option<&'static Self> {
        WORKERS.iter().find(|spec| spec.name == name)
    }

    /// The worker that consumes this queue.
    ///
    /// # Panics
    /// If the queue has no worker, which a test rules out.
    pub fn for_queue(queue: QueueName) -> &'static Self {
        WORKERS.iter().find(|spec| spec.queue.name == queue).expect("every queue has a worker")
    }

    pub fn may_use(&self, resource: Uses) -> bool {
        self.uses.contains(&resource)
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
            assert_eq!(WorkerSpec::by_name(spec.name), Some(WorkerSpec::for_queue(spec.queue.name)));
        }
    }
}
