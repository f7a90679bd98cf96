//! The maximum time of leases, which a clock that is set back must not prolong.

use std::time::Duration;

use crate::clock::TimestampMs;

/// Maximum time that a claim, a lease of a local queue or a backoff may last, even if the request is longer; no
/// queue has a longer delay either. The workers renew leases within seconds and back off for five minutes at most.
pub const MAX_LEASE: Duration = Duration::from_secs(600);

/// Whether a lease, a backoff or a delay until this time has ended. If it is further ahead than any of them can
/// be, the clock was set back since, and the wait would last as long as the clock was ahead.
pub fn has_ended(until: TimestampMs, now: TimestampMs) -> bool {
    until <= now || until > now.plus(MAX_LEASE)
}
