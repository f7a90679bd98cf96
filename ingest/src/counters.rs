//! The metrics of ingest, registered once, so that counting during a request is a plain atomic addition.

use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};
use ports::metrics::{EVENTS_DROPPED, INGEST_REFUSED, INGEST_REQUESTS, INGEST_RETRIES, INGEST_SECONDS};
use slack::signature::Refused;

use crate::answer::EventOutcome;

/// Slack's reasons for a retry. Other reasons are counted as [`OTHER_REASON`], since a label must not be
/// untrusted input. <https://docs.slack.dev/apis/events-api/#retries>
const RETRY_REASONS: [&str; 6] =
    ["http_timeout", "too_many_redirects", "connection_failed", "ssl_error", "http_error", "unknown_error"];

/// A reason that Slack does not document.
const OTHER_REASON: &str = "other";

pub(crate) struct Counters {
    requests: [Counter; EventOutcome::ALL.len()],
    refused: [Counter; Refused::LABELS.len()],
    retries: [Counter; RETRY_REASONS.len()],
    other_retries: Counter,
    direct_messages: Counter,
    seconds: Histogram,
}

impl Counters {
    pub(crate) fn register() -> Self {
        Self {
            requests: EventOutcome::ALL
                .map(|outcome| counter!(INGEST_REQUESTS, "outcome" => outcome.label())),
            refused: Refused::LABELS.map(|label| counter!(INGEST_REFUSED, "reason" => label)),
            retries: RETRY_REASONS.map(|reason| counter!(INGEST_RETRIES, "reason" => reason)),
            other_retries: counter!(INGEST_RETRIES, "reason" => OTHER_REASON),
            direct_messages: counter!(EVENTS_DROPPED, "reason" => "direct_message"),
            seconds: histogram!(INGEST_SECONDS),
        }
    }

    /// Counts the outcome of a request.
    pub(crate) fn count_outcome(&self, outcome: EventOutcome) {
        self.requests[outcome as usize].increment(1);
        if outcome == EventOutcome::DirectMessage {
            self.direct_messages.increment(1);
        }
    }

    /// Counts a refused signature.
    pub(crate) fn count_refused(&self, refused: Refused) {
        if let Some(index) = Refused::LABELS.iter().position(|label| *label == refused.label()) {
            self.refused[index].increment(1);
        }
    }

    /// Counts a delivery that Slack marked as a retry.
    pub(crate) fn count_retry(&self, reason: &str) {
        match RETRY_REASONS.iter().position(|known| *known == reason) {
            Some(index) => self.retries[index].increment(1),
            None => self.other_retries.increment(1),
        }
    }

    /// Records the time from a complete request to its response.
    pub(crate) fn record_duration(&self, elapsed: Duration) {
        self.seconds.record(elapsed.as_secs_f64());
    }
}
