//! The metrics that are reported to CloudWatch by default: it bills each combination of name and dimensions
//! by the hour.

use ports::metrics::{DEAD_LETTERS, Metric, MetricKind, WAITING_OLDEST};

/// The CloudWatch namespace of the metrics.
pub const NAMESPACE: &str = "Annalist";

/// The only dimension of the summary; its value is the installation's prefix.
pub const INSTALLATION: &str = "installation";

/// The age of the oldest job.
pub const OLDEST_AGE: &str = "annalist_oldest_age_seconds";
/// Jobs that are done.
pub const ACKS: &str = "annalist_acks_total";
/// Failures that will be retried.
pub const FAILURES: &str = "annalist_failures_total";
/// Jobs in quarantine.
pub const QUARANTINED: &str = "annalist_quarantined_total";

/// The metrics that are reported to CloudWatch by default. A zero is not reported and costs nothing.
pub const SUMMARY: [Metric; 6] = [
    metric(
        OLDEST_AGE,
        MetricKind::Gauge,
        "Age of the oldest job of a batch when a worker received it, in seconds.",
    ),
    metric(ACKS, MetricKind::Counter, "Jobs that workers have completed."),
    metric(
        FAILURES,
        MetricKind::Counter,
        "Jobs that failed and will be retried, and requests of Slack that ingest could not put on the queue.",
    ),
    metric(QUARANTINED, MetricKind::Counter, "Jobs that were quarantined, including dead letters."),
    metric(DEAD_LETTERS, MetricKind::Counter, "Dead letters that were quarantined."),
    metric(WAITING_OLDEST, MetricKind::Gauge, "Age of the oldest job that is set aside, in seconds."),
];

/// A metric that appears in CloudWatch but on none of our dashboards.
const fn metric(name: &'static str, kind: MetricKind, help: &'static str) -> Metric {
    Metric { name, kind, labels: INSTALLATION, help, section: "", alerts: &[] }
}
