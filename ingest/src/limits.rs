//! Resource limits of requests.

use std::time::Duration;

/// Bodies up to this size may be read on all connections concurrently: at most 48 MiB in total.
pub(crate) const SMALL_BODY_BYTES: usize = 64 * 1024;

/// Resource limits of requests. Slack counts a delivery as failed after 3 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngestLimits {
    /// Maximum number of complete requests that are handled concurrently; further ones are shed with 503.
    /// Each may keep its body and its job in memory.
    pub in_flight: usize,
    /// Maximum number of bodies larger than 64 KiB, or of unknown size, that are read concurrently. Small
    /// bodies are not limited, so that a slow client does not block others.
    pub large_bodies: usize,
    /// The timeout for reading a body.
    pub body: Duration,
    /// The timeout for making an event durable on the queue.
    pub enqueue: Duration,
    /// The timeout of the queue's readiness check.
    pub ready: Duration,
}

impl Default for IngestLimits {
    fn default() -> Self {
        Self {
            // A group commit of this size has the maximum throughput. More requests would only take memory:
            // 256 MiB if every one has a hostile body of the maximum size.
            in_flight: 256,
            // Slack's events rarely exceed the small size: another 128 MiB at most.
            large_bodies: 128,
            // Beyond this Slack no longer listens.
            body: Duration::from_secs(3),
            // The 503 must be sent before Slack closes the connection, so that its retry has the reason
            // `http_error` and our counters match what Slack saw. The 0.5 s up to 2.5 s are for a busy
            // machine, and those up to 3 s for the network.
            enqueue: Duration::from_secs(2),
            ready: Duration::from_secs(1),
        }
    }
}
