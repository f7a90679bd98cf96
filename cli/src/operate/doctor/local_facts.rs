//! Gathers facts on this machine, and at the Request URL.

use std::net::SocketAddr;

use embedded::condition::{self, FolderCondition};
use fleet::args::ResponderArgs;
use hyper::Uri;
use ports::clock::Clock;
use ports::metrics::{INGEST_REFUSED, SOCKET_CONNECTIONS};
use process::config::backend::{BackendArgs, BackendKind};
use process::config::{self, ConfigError};
use slack::signature::Refused;
use slack::signing_table::SigningTable;
use slack_api::probe;

use super::facts::{IngestFacts, RefusedCounts, RequestUrl, ResponderFacts, SECRETS_TIMEOUT, within};

pub(super) async fn signing_table() -> Result<Option<SigningTable>, String> {
    let found = async {
        match config::signing_table().await {
            Ok(secrets) => Ok(Some(secrets)),
            Err(ConfigError::NoSigningSecret) => Ok(None),
            Err(error) => Err(error),
        }
    };
    within(SECRETS_TIMEOUT, found).await
}

pub(super) async fn ingest(address: SocketAddr, metrics: SocketAddr) -> IngestFacts {
    let (ready, metrics) = tokio::join!(probe::probe_ready(address), probe::fetch_metrics(metrics));
    let connections = metrics.as_ref().ok().map(|metrics| number(metrics, SOCKET_CONNECTIONS));
    IngestFacts { address, ready, refused: metrics.map(|metrics| refused_counts(&metrics)), connections }
}

/// Reads a number from metrics in Prometheus' text format. A missing series counts as zero.
fn number(metrics: &str, series: &str) -> u64 {
    let value = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
}

/// Reads the counts of refused requests.
fn refused_counts(metrics: &str) -> RefusedCounts {
    let count =
        |refused: Refused| number(metrics, &format!("{INGEST_REFUSED}{{reason=\"{}\"}}", refused.label()));
    RefusedCounts { mismatch: count(Refused::Mismatch), stale: count(Refused::Stale { ahead_s: 0 }) }
}

pub(super) async fn request_url(
    url: Option<&str>,
    table: Option<&SigningTable>,
    clock: &dyn Clock,
) -> RequestUrl {
    let Some(url) = url else { return RequestUrl::NotGiven };
    let path = url.parse::<Uri>().map_or_else(|_| String::new(), |url| url.path().to_owned());
    let secrets = table.and_then(|table| table.secrets_of(slack::app_of_path(&path)));
    let Some(secrets) = secrets else { return RequestUrl::NoSecret };
    let answer = probe::probe_request_url(url, secrets, clock.now().seconds()).await;
    RequestUrl::Probed { url: url.to_owned(), answer }
}

/// Returns the condition of the data folder; `None` on AWS, or if the folder does not exist.
pub(super) fn folder(args: &BackendArgs) -> Option<Result<FolderCondition, String>> {
    let data = &args.data.data;
    let is_on_this_machine = args.backend == BackendKind::Embedded && data.exists();
    is_on_this_machine.then(|| condition::folder(data).map_err(|error| error.to_string()))
}

pub(super) async fn responder(args: &ResponderArgs) -> ResponderFacts {
    match args.settings(Vec::new()).await {
        Ok(settings) if settings.is_on() => ResponderFacts::On,
        Ok(_) => ResponderFacts::Off,
        Err(error) => ResponderFacts::Unusable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_requests_and_connections_are_read_from_the_text_of_the_metrics() {
        let text = "# TYPE annalist_ingest_refused_total counter\n\
                    annalist_ingest_refused_total{reason=\"missing_header\"} 9\n\
                    annalist_ingest_refused_total{reason=\"mismatch\"} 3\n\
                    annalist_ingest_refused_total{reason=\"stale\"} 12\n\
                    annalist_socket_connections 2\n";
        assert_eq!(number(text, SOCKET_CONNECTIONS), 2);
        assert_eq!(number("annalist_socket_connections_of_another 7", SOCKET_CONNECTIONS), 0);
        assert_eq!(refused_counts(text), RefusedCounts { mismatch: 3, stale: 12 });
        assert_eq!(
            refused_counts("annalist_ingest_refused_total{reason=\"stale\"} many"),
            RefusedCounts::default()
        );
    }
}
