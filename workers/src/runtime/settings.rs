//! The runtime's limits.

use std::time::Duration;

use ports::requests::OpenRequests;

use super::Pressure;

/// Limits of one worker's runtime. The defaults are for production; tests shorten them.
#[derive(Debug, Clone)]
pub struct RuntimeSettings {
    /// Concurrent batches. Three keep the writer thread busy while others are parsed or wait for a disk sync.
    pub slots: usize,
    /// How long one receive waits for messages: SQS's maximum.
    pub wait: Duration,
    /// How long received messages stay invisible to other processes; renewed every third of it.
    pub visibility_timeout: Duration,
    /// The first backoff of a group's head; it doubles with every receive.
    pub backoff_base: Duration,
    /// The longest backoff: a group is retried at least this often.
    pub backoff_cap: Duration,
    /// A job that has crashed its handler this often, in consecutive receives, is poison. A process that is killed
    /// from outside while the job runs alone looks the same, so a few are not enough.
    pub max_crashes: u32,
    /// Jobs received more than once run alone, at most this many groups in parallel.
    pub suspects_at_once: usize,
    /// How long a job waits aside before it is quarantined.
    pub longest_wait: Duration,
    /// How long running batches may take to finish after a shutdown signal. Docker kills after 10 s, systemd
    /// after 90 s.
    pub drain_deadline: Duration,
    /// The interval between measurements of queue depths.
    pub gauge_interval: Duration,
    /// The seed of the backoff jitter.
    pub seed: u64,
    /// Shared with an ingest in the same process, whose bursts have priority.
    pub open_requests: OpenRequests,
    /// Shared by the workers of a process, so that messages have priority.
    pub pressure: Pressure,
}

impl Default for RuntimeSettings {
    fn default() -> Self {
        Self {
            slots: 3,
            wait: Duration::from_secs(20),
            visibility_timeout: Duration::from_secs(30),
            backoff_base: Duration::from_millis(250),
            backoff_cap: Duration::from_secs(300),
            max_crashes: 5,
            suspects_at_once: 16,
            longest_wait: Duration::from_secs(30 * 24 * 3_600),
            drain_deadline: Duration::from_secs(8),
            gauge_interval: Duration::from_secs(5),
            seed: fastrand::u64(..),
            open_requests: OpenRequests::default(),
            pressure: Pressure::default(),
        }
    }
}
