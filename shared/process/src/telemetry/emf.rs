//! Metrics on Lambda: lines in CloudWatch's embedded metric format on standard output, since a function has
//! no port to scrape.
//! <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>
//!
//! CloudWatch bills each name with each set of dimensions by the hour. So by default the functions of an
//! installation write only six metrics, each with one dimension:
//! [`SUMMARY`](aws_resources::summary::SUMMARY). [`MetricsDetail::Full`] adds the whole table of metrics, with
//! its labels.

use std::io::Write;

use metrics_cloudwatch_embedded::{Builder, Collector};
use serde_json::{Map, Value, json};

use crate::config::MetricsDetail;
use aws_resources::summary::{ACKS, FAILURES, INSTALLATION, NAMESPACE, OLDEST_AGE, QUARANTINED};
use ports::metrics::{AWS_REQUESTS, DEAD_LETTERS, INGEST_REQUESTS, WAITING_OLDEST, WORKER_AGE, WORKER_JOBS};

/// The metrics recorded since the last flush.
#[derive(Clone)]
pub struct Emf {
    collector: &'static Collector,
    detail: MetricsDetail,
    installation: String,
}

/// A recorder is already installed.
#[derive(Debug, thiserror::Error)]
#[error("metrics cannot be recorded: {0}")]
pub struct InstallError(String);

/// Starts collecting metrics. `installation` is the prefix of the installation's queues.
///
/// # Errors
/// If a recorder is already installed.
pub fn install(detail: MetricsDetail, installation: &str) -> Result<Emf, InstallError> {
    let collector = Builder::new().cloudwatch_namespace(NAMESPACE).init();
    let collector = collector.map_err(|error| InstallError(error.to_string()))?;
    Ok(Emf { collector, detail, installation: installation.to_owned() })
}

impl Emf {
    /// Writes the metrics recorded since the last flush: one line, plus with full detail one for each set of
    /// labels.
    pub fn flush(&self) {
        let mut lines = Vec::new();
        // A write to a buffer cannot fail.
        drop(self.collector.flush(&mut lines));
        let output = output(&lines, self.detail, &self.installation);
        if let Err(error) = std::io::stdout().lock().write_all(output.as_bytes()) {
            tracing::warn!(%error, "failed to write metrics");
        }
    }
}

/// The output for the collector's lines.
fn output(lines: &[u8], detail: MetricsDetail, installation: &str) -> String {
    let lines = lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let lines: Vec<Map<String, Value>> = lines.collect();
    let summary = summary(&lines, installation);
    // Omits the request counts per operation: AWS counts them itself.
    let labelled = lines.iter().filter(|line| !line.contains_key(AWS_REQUESTS)).map(|line| json!(line));
    let labelled = labelled.filter(|_| detail == MetricsDetail::Full);
    summary.into_iter().chain(labelled).map(|line| format!("{line}\n")).collect()
}

/// One summary line for all of them; `None` if there are no values.
fn summary(lines: &[Map<String, Value>], installation: &str) -> Option<Value> {
    let label =
        |line: &Map<String, Value>, name: &str| line.get(name).and_then(Value::as_str).map(str::to_owned);
    let count = |metric: &str, outcomes: &[&str]| -> u64 {
        let matching = lines.iter().filter(|line| {
            outcomes.is_empty()
                || label(line, "outcome").is_some_and(|outcome| outcomes.contains(&outcome.as_str()))
        });
        matching.filter_map(|line| line.get(metric)?.as_u64()).sum()
    };
    let ages = lines.iter().filter_map(|line| line.get(WORKER_AGE)?.as_array()).flatten();
    let oldest = ages.filter_map(Value::as_f64).reduce(f64::max);
    // A gauge is written at every flush; a zero means that nothing is set aside.
    let waiting = lines.iter().filter_map(|line| line.get(WAITING_OLDEST)?.as_f64()).reduce(f64::max);
    let waiting = waiting.filter(|age| *age > 0.0);
    let counts = [
        (ACKS, count(WORKER_JOBS, &["done"])),
        (
            FAILURES,
            // A job that crashed its handler is also counted as a retry.
            count(WORKER_JOBS, &["retry", "lease_lost"])
                + count(INGEST_REQUESTS, &["queue_failed", "queue_slow", "shed"]),
        ),
        (QUARANTINED, count(WORKER_JOBS, &["quarantined"])),
        (DEAD_LETTERS, count(DEAD_LETTERS, &[])),
    ];
    let counts = counts.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name, json!(count)));
    let ages = [(OLDEST_AGE, oldest), (WAITING_OLDEST, waiting)];
    let ages = ages.into_iter().filter_map(|(name, age)| Some((name, json!(age?))));
    let values: Vec<(&str, Value)> = ages.chain(counts).collect();
    let timestamp = lines.first()?.get("_aws")?.get("Timestamp")?;
    let metrics: Vec<Value> = values.iter().map(|(name, _)| json!({ "Name": name })).collect();
    let mut line = json!({
        "_aws": {
            "Timestamp": timestamp,
            "CloudWatchMetrics": [{ "Namespace": NAMESPACE, "Dimensions": [[INSTALLATION]], "Metrics": metrics }],
        },
        INSTALLATION: installation,
    });
    (!values.is_empty()).then(|| {
        values.into_iter().for_each(|(name, value)| line[name] = value);
        line
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use aws_resources::summary::SUMMARY;
    use ports::metrics::{METRICS, Metric, MetricKind};

    /// A line of the collector: a metric with these labels.
    fn line(metric: &Metric, labels: &[(&str, String)], value: &Value) -> Value {
        let names: Vec<&str> = labels.iter().map(|(name, _)| *name).collect();
        let mut line = json!({
            "_aws": {
                "Timestamp": 1_700_000_000_000_u64,
                "CloudWatchMetrics": [
                    { "Namespace": NAMESPACE, "Dimensions": [names], "Metrics": [{ "Name": metric.name }] },
                ],
            },
        });
        line[metric.name] = value.clone();
        labels.iter().for_each(|(name, value)| line[*name] = json!(value));
        line
    }

    /// The output if every metric of the table was recorded, with two values of each label.
    fn output_of_all_metrics(detail: MetricsDetail) -> Vec<Value> {
        let outcomes = [
            "done",
            "retry",
            "lease_lost",
            "panicked",
            "quarantined",
            "stored",
            "queue_failed",
            "queue_slow",
            "shed",
        ];
        let mut lines = String::new();
        for metric in METRICS {
            for (index, outcome) in outcomes.iter().enumerate() {
                let value = |name: &str| match name {
                    "outcome" => (*outcome).to_owned(),
                    _ => format!("{name}-{}", index % 2),
                };
                let names = metric.labels.split(", ").filter(|name| !name.is_empty());
                let labels: Vec<(&str, String)> = names.map(|name| (name, value(name))).collect();
                let value = match metric.kind {
                    MetricKind::Counter => json!(1),
                    MetricKind::Gauge => json!(1.0),
                    MetricKind::Histogram => json!([3.5, 10 + index, 4.0]),
                };
                lines += &format!("{}\n", line(metric, &labels, &value));
            }
        }
        let output = output(lines.as_bytes(), detail, "annalist");
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Custom metrics as billed by CloudWatch: a name with the values of its dimensions.
    fn billed(lines: &[Value]) -> BTreeSet<(String, Vec<String>)> {
        let mut billed = BTreeSet::new();
        for line in lines {
            for directive in line["_aws"]["CloudWatchMetrics"].as_array().unwrap() {
                for set in directive["Dimensions"].as_array().unwrap() {
                    let names = set.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                    let dimensions: Vec<String> =
                        names.map(|name| format!("{name}={}", line[name])).collect();
                    for metric in directive["Metrics"].as_array().unwrap() {
                        billed.insert((metric["Name"].as_str().unwrap().to_owned(), dimensions.clone()));
                    }
                }
            }
        }
        billed
    }

    #[test]
    fn cloudwatch_bills_six_metrics_by_default() {
        let dimension = vec!["installation=\"annalist\"".to_owned()];
        let six: BTreeSet<_> =
            SUMMARY.iter().map(|metric| (metric.name.to_owned(), dimension.clone())).collect();
        assert_eq!((six.len(), billed(&output_of_all_metrics(MetricsDetail::Few))), (6, six));
    }

    #[test]
    fn the_summary_adds_up_all_labels() {
        let lines = output_of_all_metrics(MetricsDetail::Few);
        assert_eq!(lines.len(), 1, "one line for each flush");
        let value = |name: &str| lines[0][name].as_f64().unwrap();
        // The oldest age, one job per outcome, and nine dead letters.
        assert_eq!(
            [OLDEST_AGE, WAITING_OLDEST, ACKS, FAILURES, QUARANTINED, DEAD_LETTERS].map(value),
            [18.0, 1.0, 1.0, 5.0, 1.0, 9.0]
        );
        assert_eq!(output(b"", MetricsDetail::Full, "annalist"), "", "nothing was recorded");
        let of = |queue: &str, age_s: f64| {
            let metric = METRICS.iter().find(|metric| metric.name == WAITING_OLDEST).unwrap();
            format!("{}\n", line(metric, &[("queue", queue.to_owned())], &json!(age_s)))
        };
        let waiting = |lines: String| output(lines.as_bytes(), MetricsDetail::Few, "annalist");
        assert_eq!(waiting(of("events", 0.0)), "", "nothing waits");
        let oldest: Value = serde_json::from_str(&waiting(of("events", 7.0) + &of("files", 9.0))).unwrap();
        assert_eq!(oldest[WAITING_OLDEST], 9.0, "the oldest of all queues");
    }

    #[test]
    fn full_detail_adds_every_metric_except_aws_requests() {
        let output: BTreeSet<String> =
            billed(&output_of_all_metrics(MetricsDetail::Full)).into_iter().map(|(name, _)| name).collect();
        let table = METRICS.iter().chain(&SUMMARY).map(|metric| metric.name.to_owned());
        assert_eq!(output, table.filter(|name| name != AWS_REQUESTS).collect());
    }
}
