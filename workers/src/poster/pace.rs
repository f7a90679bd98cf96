//! Slack takes about one message a second for a channel. <https://docs.slack.dev/apis/web-api/rate-limits>

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use slack::ids::{ChannelId, TeamId};
use tokio::time::{Instant, sleep_until};

/// Channels remembered; beyond it those whose turn has come are forgotten.
const MAX_REMEMBERED: usize = 10_000;

/// When each channel may have its next message. The messages of a channel come one after the other, whichever process has
/// them; what two processes post within a second, Slack answers with 429.
pub(super) struct ChannelPace {
    between: Duration,
    next: Mutex<HashMap<(TeamId, ChannelId), Instant>>,
}

impl ChannelPace {
    /// This long between two messages to one channel.
    pub(super) fn new(between: Duration) -> Self {
        Self { between, next: Mutex::default() }
    }

    /// Waits until a channel may have its next message.
    pub(super) async fn turn(&self, team: &TeamId, channel: &ChannelId) {
        if self.between.is_zero() {
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
}
