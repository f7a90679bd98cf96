//! The rate limit of a channel: Slack accepts about one message per second.
//! <https://docs.slack.dev/apis/web-api/rate-limits>

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use slack::ids::{ChannelId, TeamId};
use tokio::time::{Instant, sleep_until};

/// Maximum number of remembered channels; at the limit, those that may already post are forgotten.
const MAX_REMEMBERED: usize = 10_000;

/// When each channel may get its next message. The messages of a channel are posted one after the other, by
/// whichever process has them; the rows of posts by another process count too.
pub(super) struct ChannelPace {
    interval: Duration,
    next: Mutex<HashMap<(TeamId, ChannelId), Instant>>,
}

impl ChannelPace {
    /// A pace with this interval between two messages to one channel.
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, next: Mutex::default() }
    }

    /// Whether there is no limit.
    pub(super) fn is_unlimited(&self) -> bool {
        self.interval.is_zero()
    }

    /// Records that a channel got a message this long ago, from this process or another one.
    pub(super) fn note_posted(&self, team: &TeamId, channel: &ChannelId, ago: Duration) {
        if self.is_unlimited() {
            return;
        }
        let slot = Instant::now() + self.interval.saturating_sub(ago);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let next_slot = next.entry((team.clone(), channel.clone())).or_insert(slot);
        *next_slot = (*next_slot).max(slot);
    }

    /// Waits until a channel may have its next message.
    pub(super) async fn wait_for_slot(&self, team: &TeamId, channel: &ChannelId) {
        if self.is_unlimited() {
            return;
        }
        let now = Instant::now();
        let slot = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            if next.len() >= MAX_REMEMBERED {
                next.retain(|_, slot| *slot > now);
            }
            let next_slot = next.entry((team.clone(), channel.clone())).or_insert(now);
            let slot = (*next_slot).max(now);
            *next_slot = slot + self.interval;
            slot
        };
        sleep_until(slot).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_channel_gets_one_message_a_second_and_waits_for_no_other() {
        let pace = ChannelPace::new(Duration::from_secs(1));
        let team = TeamId::parse("T1").unwrap();
        let channel = |id| ChannelId::parse(id).unwrap();
        let began = Instant::now();
        for (id, expected_s) in [("C1", 0), ("C2", 0), ("C1", 1), ("C1", 2), ("C2", 2)] {
            pace.wait_for_slot(&team, &channel(id)).await;
            assert_eq!(began.elapsed().as_secs(), expected_s, "{id}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn posts_of_another_process_count_as_well() {
        let pace = ChannelPace::new(Duration::from_secs(1));
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        for (ago_ms, expected_ms) in [(5_000, 0), (400, 600), (0, 1_000)] {
            let began = Instant::now();
            pace.note_posted(&team, &channel, Duration::from_millis(ago_ms));
            pace.wait_for_slot(&team, &channel).await;
            assert_eq!(began.elapsed().as_millis(), expected_ms, "{ago_ms} ms ago");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    }
}
