//! Metrics on Lambda: lines in CloudWatch's embedded metric format on standard output, since nobody can scrape a function.
//! <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>

use std::io::Write;

use metrics_cloudwatch_embedded::{Builder, Collector};

use super::metrics::AWS_REQUESTS;

/// The namespace the metrics are found under.
pub const NAMESPACE: &str = "Annalist";

/// What was recorded since the last flush.
#[derive(Clone, Copy)]
pub struct Emf(&'static Collector);

/// A recorder is installed already.
#[derive(Debug, thiserror::Error)]
#[error("metrics cannot be recorded: {0}")]
pub struct InstallError(String);

/// Starts collecting.
///
/// # Errors
/// Where a recorder is already installed.
pub fn install() -> Result<Emf, InstallError> {
    let collector = Builder::new().cloudwatch_namespace(NAMESPACE).init();
    collector.map(Emf).map_err(|error| InstallError(error.to_string()))
}

impl Emf {
    /// Writes what was recorded since the last time: a line per set of labels, each of which CloudWatch turns into metrics.
    pub fn flush(self) {
        let mut lines = Vec::new();
        // A buffer takes everything.
        drop(self.0.flush(&mut lines));
        let wanted = wanted(&lines);
        if let Err(error) = std::io::stdout().lock().write_all(&wanted) {
            tracing::warn!(%error, "metrics could not be written");
        }
    }
}

/// Leaves out the counts of requests per operation: AWS counts them itself, and each metric here is on the bill.
/// <https://aws.amazon.com/cloudwatch/pricing/>
fn wanted(lines: &[u8]) -> Vec<u8> {
    let is_wanted =
        |line: &&[u8]| !line.windows(AWS_REQUESTS.len()).any(|part| part == AWS_REQUESTS.as_bytes());
    lines.split_inclusive(|byte| *byte == b'\n').filter(is_wanted).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_requests_are_left_out() {
        let lines = format!("{{\"a\":1}}\n{{\"{AWS_REQUESTS}\":1}}\n{{\"b\":2}}\n");
        assert_eq!(wanted(lines.as_bytes()), b"{\"a\":1}\n{\"b\":2}\n");
    }
}
