//! Every metric, in one table: a row says its section of the dashboard and its alerts too. A name that is not in the table
//! is not exported; `docs/metrics.md` is tested against it, and `annalist dashboards` prints what is made of it.

mod table;

pub use table::*;

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
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
    pub kind: MetricKind,
    /// Its labels.
    pub labels: &'static str,
    /// What it says.
    pub help: &'static str,
    /// The section of the dashboard that shows it.
    pub section: &'static str,
    /// When a person has to look.
    pub alerts: &'static [Alert],
}

/// When a person has to look, and what to do then.
#[derive(Debug, Clone, Copy)]
pub struct Alert {
    /// The name of the rule.
    pub name: &'static str,
    /// What is wrong.
    pub when: AlertCondition,
    /// It has to be so for this long.
    pub lasts: &'static str,
    /// How soon a person should look.
    pub severity: Severity,
    /// What it means.
    pub summary: &'static str,
    /// What to do about it.
    pub next: &'static str,
}

/// What is wrong with a metric. A selector is Prometheus' without the braces; `by` lists the labels that are kept apart.
#[derive(Debug, Clone, Copy)]
pub enum AlertCondition {
    /// The counter grew within this time. One that was not there before grew too: `increase` alone does not see the first.
    Grew {
        /// Which series.
        selector: &'static str,
        /// The labels.
        by: &'static str,
        /// The time.
        within: &'static str,
    },
    /// The counter grows all the time.
    Grows {
        /// Which series.
        selector: &'static str,
        /// The labels.
        by: &'static str,
    },
    /// The gauge, or the quantile, is above this in any process.
    Above {
        /// Which series.
        selector: &'static str,
        /// The labels.
        by: &'static str,
        /// The bound.
        bound: u32,
    },
    /// No process exports the metric.
    Absent,
}

/// How soon a person should look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Events are being lost, or will be.
    Critical,
    /// Something does not go on by itself.
    Warning,
}

/// A table of metrics as the documentation shows it.
pub fn markdown_table(metrics: &[Metric]) -> String {
    let mut table = String::from("| metric | kind | labels | what it says |\n|---|---|---|---|\n");
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
