//! Collects the metrics of the process.

use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use ports::metrics::{METRICS, MetricKind};

/// Starts collecting metrics. The handle renders them in Prometheus' text format.
///
/// # Errors
/// If a recorder is already installed.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new().install_recorder()?;
    for metric in METRICS {
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(metric.name, metric.help),
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            MetricKind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
        }
    }
    Ok(handle)
}
