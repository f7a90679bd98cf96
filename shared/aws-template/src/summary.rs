//! What CloudWatch is told by default: it bills each name with each set of dimensions by the hour.

use ports::metrics::{DEAD_LETTERS, Metric, MetricKind};

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
    metric(
        OLDEST_AGE,
        MetricKind::Gauge,
        "Age of the oldest job of a batch when a worker received it, in seconds.",
    ),
    metric(ACKS, MetricKind::Counter, "Jobs that workers have done."),
    metric(
        FAILURES,
        MetricKind::Counter,
        "Jobs that failed and come again, and requests of Slack's that ingest could not put on the queue.",
    ),
    metric(QUARANTINED, MetricKind::Counter, "Jobs that were put in quarantine, dead letters included."),
    metric(DEAD_LETTERS, MetricKind::Counter, "Dead letters that were put in quarantine."),
];

/// A metric that CloudWatch shows, and no dashboard of ours.
const fn metric(name: &'static str, kind: MetricKind, help: &'static str) -> Metric {
    Metric { name, kind, labels: INSTALLATION, help, section: "", alerts: &[] }
}
