//! Waits for AWS to complete a change that it has accepted: it sends no notification, so it has to be polled.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// A deadline for polling with growing pauses.
pub(super) struct PollDeadline {
    ends: Instant,
    pause: Duration,
}

impl PollDeadline {
    /// Ends after `minutes`. A table becomes usable within seconds, an index over a filled table within
    /// minutes.
    pub(super) fn after_minutes(minutes: u64) -> Self {
        Self { ends: Instant::now() + Duration::from_secs(60 * minutes), pause: Duration::from_millis(500) }
    }

    /// Waits before the next poll; returns false if the deadline would pass.
    pub(super) async fn wait(&mut self) -> bool {
        if Instant::now() + self.pause > self.ends {
            return false;
        }
        sleep(self.pause).await;
        // Up to 4 s: a change that is not complete soon takes long.
        self.pause = (self.pause * 2).min(Duration::from_secs(4));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn polling_ends_after_a_bounded_number_of_polls() {
        let started = Instant::now();
        let mut deadline = PollDeadline::after_minutes(1);
        let mut polls = 0;
        while deadline.wait().await {
            polls += 1;
        }
        assert!(started.elapsed() <= Duration::from_secs(60) && (15..30).contains(&polls), "{polls}");
    }
}
