//! Every metric, in one table: a row also names its dashboard section and its alerts. A name that is not in
//! the table is not exported; `docs/metrics.md` is tested against the table, and `annalist dashboards` prints
//! the dashboard and the alert rules generated from it.

mod table;

pub use table::*;

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only increases.
    Counter,
    /// Increases and decreases.
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
    pub kind: MetricKind,
    pub labels: &'static str,
    /// What it measures.
    pub help: &'static str,
    /// The section of the dashboard that shows it.
    pub section: &'static str,
    pub alerts: &'static [Alert],
}

/// A condition that needs a person, and what to do about it.
#[derive(Debug, Clone, Copy)]
pub struct Alert {
    /// The name of the alert rule.
    pub name: &'static str,
    /// What is wrong.
    pub when: AlertCondition,
    /// How long the condition must hold.
    pub lasts: &'static str,
    /// How soon a person should react.
    pub severity: Severity,
    /// What it means.
    pub summary: &'static str,
    /// What to do about it.
    pub next: &'static str,
}

/// The condition of an alert. A selector is a Prometheus selector without the braces; `by` lists the labels
/// to group by.
#[derive(Debug, Clone, Copy)]
pub enum AlertCondition {
    /// The counter increased within this interval. A new series counts as an increase, which `increase` alone
    /// does not see.
    Grew {
        /// The series.
        selector: &'static str,
        /// The labels.
        by: &'static str,
        /// The interval.
        within: &'static str,
    },
    /// The counter keeps increasing.
    Grows {
        /// The series.
        selector: &'static str,
        /// The labels.
        by: &'static str,
    },
    /// The gauge, or the quantile, is above this in any process.
    Above {
        /// The series.
        selector: &'static str,
        /// The labels.
        by: &'static str,
        bound: u32,
    },
    /// No process exports the metric.
    Absent,
}

/// How soon a person should react.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Events are being lost, or will be.
    Critical,
    /// Something does not recover without help.
    Warning,
}

/// Metrics as the Markdown table in the documentation.
pub fn markdown_table(metrics: &[Metric]) -> String {
    let mut table = String::from("| metric | kind | labels | what it measures |\n|---|---|---|---|\n");
    for metric in metrics {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        table.push_str(&format!("| `{}` | {kind} | {} | {} |\n", metric.name, metric.labels, metric.help));
    }
    table
}
