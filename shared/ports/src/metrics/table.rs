//! The rows: `NAME = "exported name", kind, "labels", "what it measures"`, then the metric's alerts. A line
//! in brackets starts a section of the dashboard.

use super::AlertCondition::{Above, Absent, Grew, Grows};
use super::Severity::{Critical, Warning};
use super::{Alert, Metric, MetricKind};

macro_rules! metrics_table {
    ($([$section:literal] $(
        $constant:ident = $name:literal, $kind:ident, $labels:literal, $help:literal $(, $alert:expr)*;
    )*)*) => {
        $($(#[doc = $help] pub const $constant: &str = $name;)*)*

        /// The table.
        pub const METRICS: &[Metric] = &[
            $($(Metric {
                name: $name,
                kind: MetricKind::$kind,
                labels: $labels,
                help: $help,
                section: $section,
                alerts: &[$($alert),*],
            },)*)*
        ];
    };
}

metrics_table! {
    ["Ingest"]
    INGEST_REQUESTS = "annalist_ingest_requests_total", Counter, "outcome",
        "Requests from Slack by outcome.",
        Alert {
            name: "AnnalistEventsNotKept",
            when: Grew { selector: "outcome=~\"queue_failed|queue_slow|shed\"", by: "outcome", within: "5m" },
            lasts: "2m",
            severity: Critical,
            summary: "Ingest answers 5xx: events could not be put on the queue ({{ $labels.outcome }})",
            next: "Look into the log of ingest: the disk may be full, or the queue out of reach. Slack retries three times.",
        },
        Alert {
            name: "AnnalistEventsHeldBack",
            when: Grew { selector: "outcome=\"rate_limited\"", by: "", within: "15m" },
            lasts: "0m",
            severity: Warning,
            summary: "Slack dropped the events of a minute: there were more than 30,000 in an hour",
            next: "annalist gaps lists the minutes.",
        };
    INGEST_REFUSED = "annalist_ingest_refused_total", Counter, "reason",
        "Requests whose signature was refused, by reason.",
        Alert {
            name: "AnnalistSignaturesRefused",
            when: Grows { selector: "", by: "reason" },
            lasts: "15m",
            severity: Warning,
            summary: "Requests that are not signed by Slack keep coming ({{ $labels.reason }})",
            next: "If Slack's own are refused, the signing secret or the clock is wrong: annalist doctor. Otherwise a client is guessing.",
        };
    INGEST_RETRIES = "annalist_ingest_retries_total", Counter, "reason",
        "Deliveries that Slack marked as retries, by Slack's reason.",
        Alert {
            name: "AnnalistSlackRetries",
            when: Grows { selector: "", by: "reason" },
            lasts: "15m",
            severity: Warning,
            summary: "Slack delivers again and again: it did not get an answer in time ({{ $labels.reason }})",
            next: "Check what is between Slack and ingest: the proxy, the tunnel, the certificate.",
        };
    INGEST_SECONDS = "annalist_ingest_seconds", Histogram, "",
        "Time from a complete request to its answer, in seconds.",
        Alert {
            name: "AnnalistIngestSlow",
            when: Above { selector: "quantile=\"0.99\"", by: "instance", bound: 2 },
            lasts: "5m",
            severity: Warning,
            summary: "One answer in a hundred takes more than 2 s",
            next: "Slack waits for 3 s: reduce the load on the disk or the queue.",
        };
    INGEST_CONNECTIONS = "annalist_ingest_connections", Gauge, "",
        "Open connections of ingest. From 576 on, each connection is closed after its next response; the maximum is 768.";
    INGEST_FULL = "annalist_ingest_full_total", Counter, "",
        "Times that ingest had no room for another connection.";

    ["Socket Mode"]
    SOCKET_CONNECTIONS = "annalist_socket_connections", Gauge, "",
        "Connections to Slack that are ready, in Socket Mode.";
    SOCKET_ENVELOPES = "annalist_socket_envelopes_total", Counter, "outcome",
        "Envelopes from Slack's socket by outcome: those of requests; ignored, which are no events; unreadable.";
    SOCKET_DISCONNECTS = "annalist_socket_disconnects_total", Counter, "reason",
        "Connections to Slack that ended or could not be opened, by reason: warning, refresh_requested, other, link_disabled, too_many_websockets, silent, closed, broken, not_opened.",
        Alert {
            name: "AnnalistSocketFails",
            when: Grows { selector: "reason!~\"warning|refresh_requested|other\"", by: "reason" },
            lasts: "15m",
            severity: Critical,
            summary: "No lasting connection to Slack ({{ $labels.reason }}): events may be missing",
            next: "The log of ingest says why; annalist doctor asks Slack.",
        };

    ["Queues"]
    QUEUE_DUPLICATES = "annalist_queue_duplicates_total", Counter, "queue",
        "Sends whose deduplication id was already known.";
    QUEUE_WAITING = "annalist_queue_waiting", Gauge, "queue",
        "Messages that wait to be received, the delayed ones included.",
        Alert {
            name: "AnnalistSilent",
            when: Absent,
            lasts: "5m",
            severity: Critical,
            summary: "No part of Annalist exports metrics",
            next: "See whether it runs, and whether Prometheus reaches its --metrics-listen address.",
        };
    QUEUE_IN_FLIGHT = "annalist_queue_in_flight", Gauge, "queue",
        "Messages that are received and not acked, or backing off.";
    QUEUE_OLDEST_AGE = "annalist_queue_oldest_age_seconds", Gauge, "queue",
        "Age of the oldest message.",
        Alert {
            name: "AnnalistQueueOld",
            when: Above { selector: "queue=~\"events|channels\"", by: "queue", bound: 600 },
            lasts: "5m",
            severity: Critical,
            summary: "A job has waited on {{ $labels.queue }} for more than ten minutes",
            next: "annalist status; the log of the queue's worker says what it retries, and why.",
        },
        Alert {
            name: "AnnalistFilesOld",
            when: Above { selector: "queue=\"files\"", by: "queue", bound: 21_600 },
            lasts: "15m",
            severity: Warning,
            summary: "A file has waited for more than six hours",
            next: "The log of the file-downloader says why; Slack hides files after a while.",
        };
    QUEUE_DEAD = "annalist_queue_dead", Gauge, "queue",
        "Messages on the dead-letter queue.",
        Alert {
            name: "AnnalistDeadLetters",
            when: Above { selector: "", by: "queue", bound: 0 },
            lasts: "15m",
            severity: Warning,
            summary: "Dead letters of {{ $labels.queue }} stay where they are",
            next: "They move to quarantine while the worker of that queue runs; its log says why they do not.",
        };

    ["AWS"]
    AWS_REQUESTS = "annalist_aws_requests_total", Counter, "service, operation",
        "Requests sent to AWS, retries included.";

    ["Workers"]
    WORKER_JOBS = "annalist_worker_jobs_total", Counter, "worker, outcome",
        "Jobs by outcome: done, retry, quarantined, lease_lost, panicked.",
        Alert {
            name: "AnnalistJobsRetrying",
            when: Grows { selector: "outcome=\"retry\"", by: "worker" },
            lasts: "30m",
            severity: Warning,
            summary: "The {{ $labels.worker }} has been trying jobs again for half an hour",
            next: "Its log says why: each line names the reason.",
        },
        Alert {
            name: "AnnalistWorkerPanicked",
            when: Grew { selector: "outcome=\"panicked\"", by: "worker", within: "1h" },
            lasts: "0m",
            severity: Warning,
            summary: "A job crashed the {{ $labels.worker }}",
            next: "After three crashes the job is quarantined. Please report what the log says.",
        },
        Alert {
            name: "AnnalistJobQuarantined",
            when: Grew { selector: "outcome=\"quarantined\"", by: "worker", within: "1h" },
            lasts: "0m",
            severity: Warning,
            summary: "The {{ $labels.worker }} quarantined a job that it could not store",
            next: "annalist quarantine list says why; replay or drop it.",
        };
    WORKER_RECEIVES = "annalist_worker_receive_count", Histogram, "worker",
        "How often a job had been received when it was handled.";
    WORKER_BATCH_SECONDS = "annalist_worker_batch_seconds", Histogram, "worker",
        "Time a received batch took, in seconds.";
    WORKER_AGE = "annalist_worker_age_seconds", Histogram, "worker",
        "Age of the oldest job of a batch when it was received, in seconds.";
    WORKER_BLOCKED_GROUPS = "annalist_worker_blocked_groups", Gauge, "worker",
        "Message groups whose head is backing off after a failure in this process.",
        Alert {
            name: "AnnalistGroupsBlocked",
            when: Above { selector: "", by: "worker", bound: 0 },
            lasts: "30m",
            severity: Warning,
            summary: "Message groups of the {{ $labels.worker }} wait behind a job that fails",
            next: "Its log names the group and the reason.",
        };
    WORKER_HEARTBEAT_FAILURES = "annalist_worker_heartbeat_failures_total", Counter, "worker",
        "Leases that could not be renewed.",
        Alert {
            name: "AnnalistLeasesNotRenewed",
            when: Grew { selector: "", by: "worker", within: "15m" },
            lasts: "0m",
            severity: Warning,
            summary: "The {{ $labels.worker }} could not renew its leases",
            next: "Nothing is lost, but work is done twice: the queue is out of reach, or the machine has too much to do.",
        };
    DEAD_LETTERS = "annalist_dead_letters_total", Counter, "queue",
        "Dead letters that were set aside, or quarantined after the fourth time.";

    ["Waiting jobs"]
    WAITING_JOBS = "annalist_waiting_jobs", Gauge, "queue, cause",
        "Jobs that are set aside until something outside Annalist is in order, by cause: token, no_token, scope, slack, order, redelivered, bulk.";
    WAITING_OLDEST = "annalist_waiting_oldest_seconds", Gauge, "queue",
        "Age of the oldest job that is set aside.",
        Alert {
            name: "AnnalistJobsWait",
            when: Above { selector: "", by: "queue", bound: 21_600 },
            lasts: "15m",
            severity: Warning,
            summary: "Jobs of {{ $labels.queue }} have been set aside for more than six hours",
            next: "annalist status says what they wait for. They go on by themselves once it is in order.",
        };
    JOBS_SET_ASIDE = "annalist_jobs_set_aside_total", Counter, "queue, cause",
        "Times that a job was set aside, by cause.";
    JOBS_RELEASED = "annalist_jobs_released_total", Counter, "queue",
        "Jobs that were set aside and are back on their queue.";

    ["Events"]
    EVENTS_DROPPED = "annalist_events_dropped_total", Counter, "reason",
        "Events that are not stored by design: private channels never seen in public, direct messages, deletions of unknown files.";
    EVENTS_UNKNOWN = "annalist_events_unknown_total", Counter, "",
        "Events of a type that Annalist does not know.";

    ["Slack's Web API"]
    WEB_API_CALLS = "annalist_web_api_calls_total", Counter, "method, outcome",
        "Calls of Slack's Web API by outcome: ok, refused, rate_limited, unreachable, garbled.",
        Alert {
            name: "AnnalistSlackApiFailing",
            when: Grows { selector: "outcome=~\"refused|unreachable|garbled\"", by: "method, outcome" },
            lasts: "30m",
            severity: Warning,
            summary: "Slack's {{ $labels.method }} fails ({{ $labels.outcome }})",
            next: "annalist doctor asks Slack what is wrong with the token.",
        };

    ["Directory"]
    DIRECTORY_SYNCS = "annalist_directory_syncs_total", Counter, "outcome",
        "Syncs of a workspace's directory by outcome: ok, failed.",
        Alert {
            name: "AnnalistDirectoryNotSynced",
            when: Grew { selector: "outcome=\"failed\"", by: "", within: "3h" },
            lasts: "2h",
            severity: Warning,
            summary: "Slack's directory could not be read for hours",
            next: "annalist sync says what is wrong.",
        };
    DIRECTORY_SKIPPED = "annalist_directory_skipped_total", Counter, "kind",
        "Listed channels, people and emoji that were passed over because something in them is missing or odd.";
    DIRECTORY_JOINS = "annalist_directory_joins_total", Counter, "outcome",
        "Public channels to be joined by outcome: joined, failed.";

    ["Nightly proof"]
    PROOF_FOUND = "annalist_proof_found_total", Counter, "kind",
        "Differences that the nightly comparison with Slack found, by kind: missing, changed, extra; and those that were stored: filled.",
        Alert {
            name: "AnnalistMessagesWereMissing",
            when: Grew { selector: "kind=\"missing\"", by: "", within: "1d" },
            lasts: "0m",
            severity: Warning,
            summary: "The nightly comparison with Slack found messages that were not archived",
            next: "They are stored now. If it happens again, events do not arrive: annalist doctor.",
        };
    PROOF_CHANNELS = "annalist_proof_channels_total", Counter, "outcome",
        "Channels that the nightly comparison is done with, by outcome: proven, refused.";

    ["Existence check"]
    EXISTENCE_CHECKS = "annalist_existence_checks_total", Counter, "outcome",
        "Events judged by the existence check by outcome: exists, unknown, waits.";
    EXISTENCE_LOOKUPS = "annalist_existence_lookups_total", Counter, "layer",
        "Events whose existence check was answered by: process, table, slack. And table_failed: the cache gave no answer.";
    EXISTENCE_BREAKERS = "annalist_existence_breakers_open", Gauge, "",
        "Workspaces, or methods of one, for which the existence check waits because Slack does not answer.",
        Alert {
            name: "AnnalistExistenceCheckWaits",
            when: Above { selector: "", by: "instance", bound: 0 },
            lasts: "5m",
            severity: Warning,
            summary: "Slack is not answering existence checks; the affected events wait",
            next: "annalist status says why. Nothing is lost meanwhile.",
        };

    ["Files and pictures"]
    FILES = "annalist_files_total", Counter, "outcome",
        "File jobs by outcome: stored, already_held, retry, failed, or the verdict that says why nothing is fetched.",
        Alert {
            name: "AnnalistFilesFailed",
            when: Grew { selector: "outcome=\"failed\"", by: "", within: "1h" },
            lasts: "0m",
            severity: Warning,
            summary: "Files could not be fetched",
            next: "annalist files says why; annalist files retry tries again.",
        };
    FILE_BYTES = "annalist_file_bytes_total", Counter, "",
        "Bytes of files and pictures that were downloaded whole.";
    FILE_PAUSES = "annalist_file_pauses_total", Counter, "",
        "Times Slack asked for a pause between downloads.";
    FILES_SKIPPED = "annalist_files_skipped_total", Counter, "",
        "Files in messages that have no valid id, or are more than one message can have.";
    IMAGES = "annalist_images_total", Counter, "outcome",
        "Avatars and emoji by outcome: stored, already_held, given_up.";

    ["Claims"]
    CLAIMS = "annalist_claims_total", Counter, "result",
        "Claims by result: new, duplicate (it was done before), held (another process is working on it), unavailable (nothing is done without the table).";
    CLAIM_SECONDS = "annalist_claim_seconds", Histogram, "",
        "Time until a claim was answered, in seconds.";
    CLAIM_STORE_ERRORS = "annalist_claim_store_errors_total", Counter, "operation",
        "Calls that the table of claims did not answer, by operation: claim, renew, complete, release.";
    CLAIM_FALLBACKS = "annalist_claim_fallbacks_total", Counter, "",
        "Times the table of claims was unavailable and claims continued in memory.";
    CLAIM_FALLBACK = "annalist_claim_fallback", Gauge, "",
        "1 while claims continue in memory, otherwise 0.",
        Alert {
            name: "AnnalistClaimsInMemory",
            when: Above { selector: "", by: "instance", bound: 0 },
            lasts: "15m",
            severity: Warning,
            summary: "The table of claims is out of reach",
            next: "Files are still fetched, some of them twice. The log of the file-downloader says what fails.",
        };

    ["Questions"]
    QUESTIONS = "annalist_questions_total", Counter, "outcome",
        "Questions by outcome: answered, skipped, over_budget, refused, deleted, retry, error.",
        Alert {
            name: "AnnalistQuestionsFail",
            when: Grew { selector: "outcome=\"error\"", by: "", within: "1h" },
            lasts: "0m",
            severity: Warning,
            summary: "Questions could not be answered",
            next: "annalist questions list --status error says why; annalist questions retry asks again.",
        };
    REPLIES = "annalist_replies_total", Counter, "outcome",
        "Parts of answers by result of posting: posted, found, unknown, rate_limited, stopped, error.",
        Alert {
            name: "AnnalistRepliesFail",
            when: Grew { selector: "outcome=~\"error|stopped\"", by: "outcome", within: "1h" },
            lasts: "0m",
            severity: Warning,
            summary: "Answers could not be posted ({{ $labels.outcome }})",
            next: "annalist questions list says why; annalist doctor says what the token lacks.",
        };
    REPLY_LOOKUPS = "annalist_reply_lookups_total", Counter, "found",
        "Lookups of a reply whose post got no response, by where it was found: archive, slack, nowhere.";
    PROCESSOR_SECONDS = "annalist_processor_seconds", Histogram, "",
        "Time in which the processor answered a question, in seconds.";

    ["Pages"]
    SIGN_INS = "annalist_sign_ins_total", Counter, "outcome",
        "Sign-ins of readers by outcome: signed_in, refused, invalid (they did not belong to a sign-in that began here), failed.";
    LIVE_STREAMS = "annalist_live_streams", Gauge, "",
        "Open pages of channels that wait for new messages. 100 are all there are.";

    ["Archive"]
    ARCHIVE_DUPLICATES = "annalist_archive_duplicates_total", Counter, "",
        "Events that changed nothing because the archive already had them or something newer.";
    COPIES = "annalist_copies_total", Counter, "outcome",
        "Nightly copies of the database by outcome: made, failed.",
        Alert {
            name: "AnnalistCopiesFail",
            when: Grew { selector: "outcome=\"failed\"", by: "", within: "6h" },
            lasts: "0m",
            severity: Warning,
            summary: "The database could not be copied",
            next: "annalist status says why. It is tried again every hour.",
        };
}
