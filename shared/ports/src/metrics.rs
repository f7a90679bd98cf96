//! Every metric, in one table. A name that is not in the table is not exported; `docs/metrics.md` is tested against it.

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The exported name.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static str,
    /// What it says.
    pub help: &'static str,
}

macro_rules! metrics_table {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $kind:ident, $labels:literal, $help:literal;)*) => {
        $(#[doc = $help] pub const $constant: &str = $name;)*

        /// The table.
        pub const METRICS: &[Metric] = &[
            $(Metric { name: $name, kind: Kind::$kind, labels: $labels, help: $help },)*
        ];
    };
}

metrics_table! {
    INGEST_REQUESTS = "annalist_ingest_requests_total", Counter, "outcome",
        "Requests from Slack by what became of them.";
    INGEST_REFUSED = "annalist_ingest_refused_total", Counter, "reason",
        "Requests whose signature was refused, by reason.";
    INGEST_RETRIES = "annalist_ingest_retries_total", Counter, "reason",
        "Deliveries that Slack marked as retries, by Slack's reason.";
    INGEST_SECONDS = "annalist_ingest_seconds", Histogram, "",
        "Time from a complete request to its answer, in seconds.";
    INGEST_CONNECTIONS = "annalist_ingest_connections", Gauge, "",
        "Open connections of ingest. From 576 on each is closed with its next answer, 768 are all there are.";
    INGEST_FULL = "annalist_ingest_full_total", Counter, "",
        "Times that ingest had no place for another connection.";
    QUEUE_DUPLICATES = "annalist_queue_duplicates_total", Counter, "queue",
        "Sends whose deduplication id was already known.";
    QUEUE_WAITING = "annalist_queue_waiting", Gauge, "queue",
        "Messages that wait to be received, the delayed ones included.";
    QUEUE_IN_FLIGHT = "annalist_queue_in_flight", Gauge, "queue",
        "Messages that are received and not acked, or backing off.";
    QUEUE_OLDEST_AGE = "annalist_queue_oldest_age_seconds", Gauge, "queue",
        "Age of the oldest message.";
    QUEUE_DEAD = "annalist_queue_dead", Gauge, "queue",
        "Messages on the dead-letter queue.";
    AWS_REQUESTS = "annalist_aws_requests_total", Counter, "service, operation",
        "Requests sent to AWS, retries included.";
    WORKER_JOBS = "annalist_worker_jobs_total", Counter, "worker, outcome",
        "Jobs by outcome: done, retry, quarantined, lease_lost, panicked.";
    WORKER_RECEIVES = "annalist_worker_receive_count", Histogram, "worker",
        "How often a job had been received when it was handled.";
    WORKER_BATCH_SECONDS = "annalist_worker_batch_seconds", Histogram, "worker",
        "Time a received batch took, in seconds.";
    WORKER_AGE = "annalist_worker_age_seconds", Histogram, "worker",
        "Age of the oldest job of a batch when it was received, in seconds.";
    WORKER_BLOCKED_GROUPS = "annalist_worker_blocked_groups", Gauge, "worker",
        "Message groups whose head is backing off after a failure in this process.";
    WORKER_HEARTBEAT_FAILURES = "annalist_worker_heartbeat_failures_total", Counter, "worker",
        "Leases that could not be renewed.";
    DEAD_LETTERS = "annalist_dead_letters_total", Counter, "queue",
        "Dead letters that were put in quarantine.";
    EVENTS_DROPPED = "annalist_events_dropped_total", Counter, "reason",
        "Events that are not stored by design: private channels never seen in public, direct messages, deletions of unknown files.";
    EVENTS_UNKNOWN = "annalist_events_unknown_total", Counter, "",
        "Events of a type that Annalist does not know.";
    WEB_API_CALLS = "annalist_web_api_calls_total", Counter, "method, outcome",
        "Calls of Slack's Web API by outcome: ok, refused, rate_limited, unreachable, garbled.";
    DIRECTORY_SYNCS = "annalist_directory_syncs_total", Counter, "outcome",
        "Syncs of a workspace's directory by outcome: ok, failed.";
    DIRECTORY_SKIPPED = "annalist_directory_skipped_total", Counter, "kind",
        "Listed channels, people and emoji that were passed over because something in them is missing or odd.";
    DIRECTORY_JOINS = "annalist_directory_joins_total", Counter, "outcome",
        "Public channels to be joined by outcome: joined, failed.";
    EXISTENCE_CHECKS = "annalist_existence_checks_total", Counter, "mode, outcome",
        "Events judged by the existence check by outcome: exists, unknown, waits. Mode observe stores them all the same.";
    EXISTENCE_LOOKUPS = "annalist_existence_lookups_total", Counter, "layer",
        "Events whose existence check was answered by: process, table, slack. And table_failed: the cache gave no answer.";
    EXISTENCE_BREAKERS = "annalist_existence_breakers_open", Gauge, "",
        "Workspaces, or methods of one, for which the existence check waits because Slack does not answer.";
    FILES = "annalist_files_total", Counter, "outcome",
        "File jobs by outcome: stored, already_held, retry, failed, or the verdict that says why nothing is fetched.";
    FILE_BYTES = "annalist_file_bytes_total", Counter, "",
        "Bytes of files and pictures that were downloaded whole.";
    FILE_PAUSES = "annalist_file_pauses_total", Counter, "",
        "Times Slack asked for a pause between downloads.";
    FILES_SKIPPED = "annalist_files_skipped_total", Counter, "",
        "Files in messages that have no valid id, or are more than one message can have.";
    IMAGES = "annalist_images_total", Counter, "outcome",
        "Avatars and emoji by outcome: stored, already_held, given_up.";
    CLAIMS = "annalist_claims_total", Counter, "result",
        "Claims by result: new, duplicate (it was done before), held (another process is working on it), unavailable (nothing is done without the table).";
    CLAIM_SECONDS = "annalist_claim_seconds", Histogram, "",
        "Time until a claim was answered, in seconds.";
    CLAIM_STORE_ERRORS = "annalist_claim_store_errors_total", Counter, "operation",
        "Calls that the table of claims did not answer, by operation: claim, renew, complete, release.";
    CLAIM_FALLBACKS = "annalist_claim_fallbacks_total", Counter, "",
        "Times the table of claims was unavailable and claims carried on in memory.";
    CLAIM_FALLBACK = "annalist_claim_fallback", Gauge, "",
        "1 while claims carry on in memory, else 0.";
    ARCHIVE_DUPLICATES = "annalist_archive_duplicates_total", Counter, "",
        "Events that changed nothing because the archive already had them or something newer.";
}

/// A table of metrics as the documentation shows it.
#[must_use]
pub fn markdown_table(metrics: &[Metric]) -> String {
    let mut table = String::from("| metric | kind | labels | what it says |\n|---|---|---|---|\n");
    for metric in metrics {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        table.push_str(&format!("| `{}` | {kind} | {} | {} |\n", metric.name, metric.labels, metric.help));
    }
    table
}
