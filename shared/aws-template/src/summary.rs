//! What CloudWatch is told by default: it bills each name with each set of dimensions by the hour.

use ports::metrics::{DEAD_LETTERS, Kind, Metric};

/// The namespace the metrics are found under.
pub const NAMESPACE: &str = "Annalist";

/// The one dimension of the summary; its value is the installation's prefix.
pub const INSTALLATION: &str = "installation";

/// The age of the oldest job.
pub const OLDEST_AGE: &str = "annalist_oldest_age_seconds";
/// Jobs that are done.
pub const ACKS: &str = "annalist_acks_total";
/// What failed, and comes again.
pub const FAILURES: &str = "annalist_failures_total";
/// Jobs in quarantine.
pub const QUARANTINED: &str = "annalist_quarantined_total";

/// What CloudWatch is told by default. What is zero is not told, and costs nothing.
pub const SUMMARY: [Metric; 5] = [
    Metric {
        name: OLDEST_AGE,
        kind: Kind::Gauge,
        labels: INSTALLATION,
        help: "Age of the oldest job of a batch when a worker received it, in seconds.",
    },
    Metric { name: ACKS, kind: Kind::Counter, labels: INSTALLATION, help: "Jobs that workers have done." },
    Metric {
        name: FAILURES,
        kind: Kind::Counter,
        labels: INSTALLATION,
        help: "Jobs that failed and come again, and requests of Slack's that ingest could not put on the queue.",
    },
    Metric {
        name: QUARANTINED,
        kind: Kind::Counter,
        labels: INSTALLATION,
        help: "Jobs that were put in quarantine, dead letters included.",
    },
    Metric {
        name: DEAD_LETTERS,
        kind: Kind::Counter,
        labels: INSTALLATION,
        help: "Dead letters that were put in quarantine.",
    },
];
