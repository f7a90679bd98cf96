//! Slack takes about one message a second for a channel. <https://docs.slack.dev/apis/web-api/rate-limits>

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use slack::ids::{ChannelId, TeamId};
use tokio::time::{Instant, sleep_until};

/// Channels remembered; beyond it those whose turn has come are forgotten.
const MAX_REMEMBERED: usize = 10_000;

/// When each channel may have its next message. The messages of a channel come one after the other, whichever process has
/// them; what another process has posted, its row tells this one.
pub(super) struct ChannelPace {
    between: Duration,
    next: Mutex<HashMap<(TeamId, ChannelId), Instant>>,
}

impl ChannelPace {
    /// This long between two messages to one channel.
    pub(super) fn new(between: Duration) -> Self {
        Self { between, next: Mutex::default() }
    }

    /// Whether a channel takes any number of messages.
    pub(super) fn is_lifted(&self) -> bool {
        self.between.is_zero()
    }

    /// A channel has got a message this long ago, of this process or of another one.
    pub(super) fn posted(&self, team: &TeamId, channel: &ChannelId, ago: Duration) {
        if self.is_lifted() {
            return;
        }
        let turn = Instant::now() + self.between.saturating_sub(ago);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let next_turn = next.entry((team.clone(), channel.clone())).or_insert(turn);
        *next_turn = (*next_turn).max(turn);
    }

    /// Waits until a channel may have its next message.
    pub(super) async fn turn(&self, team: &TeamId, channel: &ChannelId) {
        if self.is_lifted() {
            return;
        }
        let now = Instant::now();
        let turn = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            if next.len() >= MAX_REMEMBERED {
                next.retain(|_, turn| *turn > now);
            }
            let next_turn = next.entry((team.clone(), channel.clone())).or_insert(now);
            let turn = (*next_turn).max(now);
            *next_turn = turn + self.between;
            turn
        };
        sleep_until(turn).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_channel_has_one_message_a_second_and_waits_for_no_other() {
        let pace = ChannelPace::new(Duration::from_secs(1));
        let team = TeamId::parse("T1").unwrap();
        let channel = |id| ChannelId::parse(id).unwrap();
        let began = Instant::now();
        for (id, expected_s) in [("C1", 0), ("C2", 0), ("C1", 1), ("C1", 2), ("C2", 2)] {
            pace.turn(&team, &channel(id)).await;
            assert_eq!(began.elapsed().as_secs(), expected_s, "{id}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_process_has_posted_counts_as_well() {
        let pace = ChannelPace::new(Duration::from_secs(1));
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        for (ago_ms, expected_ms) in [(5_000, 0), (400, 600), (0, 1_000)] {
            let began = Instant::now();
            pace.posted(&team, &channel, Duration::from_millis(ago_ms));
            pace.turn(&team, &channel).await;
            assert_eq!(began.elapsed().as_millis(), expected_ms, "{ago_ms} ms ago");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    }
}
