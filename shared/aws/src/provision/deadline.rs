//! Waiting for AWS to finish what it has acknowledged: it sends no notification, so it has to be polled.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// A deadline for something that is polled, with growing pauses.
pub(super) struct PollDeadline {
    ends: Instant,
    between: Duration,
}

impl PollDeadline {
    /// A table becomes usable within seconds, an index over a filled table within minutes.
    pub(super) fn of_minutes(minutes: u64) -> Self {
        Self::of(Duration::from_secs(60 * minutes))
    }

    /// For what is done within seconds.
    pub(super) fn of(at_most: Duration) -> Self {
        Self { ends: Instant::now() + at_most, between: Duration::from_millis(500) }
    }

    /// Waits until it is worth asking again; false once it has taken too long.
    pub(super) async fn wait(&mut self) -> bool {
        if Instant::now() + self.between > self.ends {
            return false;
        }
        sleep(self.between).await;
        // Up to 4 s: what is not done soon takes long.
        self.between = (self.between * 2).min(Duration::from_secs(4));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ends_and_asks_a_bounded_number_of_times() {
        let started = Instant::now();
        let mut deadline = PollDeadline::of_minutes(1);
        let mut asked = 0;
        while deadline.wait().await {
            asked += 1;
        }
        assert!(started.elapsed() <= Duration::from_secs(60) && (15..30).contains(&asked), "{asked}");
    }
}
