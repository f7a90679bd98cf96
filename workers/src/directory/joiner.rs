//! Asking for channels to be joined.

use slack::ids::{ChannelId, TeamId};
use tokio::sync::mpsc;

/// Channels that may wait. Beyond it they are left to the next sync, which joins whatever the app is not in.
const MAX_WAITING: usize = 1024;

/// What was asked for.
pub type JoinRequests = mpsc::Receiver<(TeamId, ChannelId)>;

/// Asks another task to join channels, at Slack's pace.
#[derive(Debug, Clone)]
pub struct Joiner(mpsc::Sender<(TeamId, ChannelId)>);

impl Joiner {
    /// A joiner, and what is asked of it.
    pub fn new() -> (Self, JoinRequests) {
        let (asked, waiting) = mpsc::channel(MAX_WAITING);
        (Self(asked), waiting)
    }

    /// Asks for a channel to be joined. Never waits.
    pub fn ask(&self, team: &TeamId, channel: &ChannelId) {
        // Full or closed: the next sync joins it.
        drop(self.0.try_send((team.clone(), channel.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_limit_are_dropped_and_no_caller_waits() {
        let (joiner, mut asked) = Joiner::new();
        let team = TeamId::parse("T1").unwrap();
        for number in 0..2 * MAX_WAITING {
            joiner.ask(&team, &ChannelId::parse(&format!("C{number:04}")).unwrap());
        }
        let mut waiting = 0;
        while asked.try_recv().is_ok() {
            waiting += 1;
        }
        assert_eq!(waiting, MAX_WAITING);
        drop(asked);
        joiner.ask(&team, &ChannelId::parse("C1").unwrap());
    }
}
