//! Bounds on what a request may take.

use std::time::Duration;

/// Bodies up to this size may be read on every connection at once: 48 MiB on all of them.
pub(crate) const SMALL_BODY_BYTES: usize = 64 * 1024;

/// Bounds on what a request may take. Slack waits 3 s in all before it counts a delivery as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngestLimits {
    /// Maximum number of whole requests that are handled at once; further ones are shed with 503. Each may hold its body and the job
    /// made of it.
    pub in_flight: usize,
    /// Maximum number of bodies larger than 64 KiB, or of unknown size, that are read at once. Small ones need no place
    /// to be read in, so that a slow sender blocks no other.
    pub large_bodies: usize,
    /// A body that is not complete by then is given up.
    pub body: Duration,
    /// How long the queue may take to make an event durable.
    pub enqueue: Duration,
    /// How long the queue may take to say that it is ready.
    pub ready: Duration,
}

impl Default for IngestLimits {
    fn default() -> Self {
        Self {
            // A group commit of this many events is as fast as it gets. More would only take memory: 256 MiB where
            // every one of them is a hostile body of the largest size.
            in_flight: 256,
            // Slack's events are seldom larger than small: another 128 MiB at the very most.
            large_bodies: 128,
            // Beyond this Slack no longer listens.
            body: Duration::from_secs(3),
            // Our 503 must leave before Slack hangs up, so that its retry says `http_error` and what we counted is
            // what it saw. The 0.5 s up to 2.5 s are for a busy machine, and those up to 3 s for the way back.
            enqueue: Duration::from_secs(2),
            ready: Duration::from_secs(1),
        }
    }
}
