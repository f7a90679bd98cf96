//! Requests to join channels.

use slack::ids::{ChannelId, TeamId};
use tokio::sync::mpsc;

/// Maximum number of waiting channels. Further ones are left to the next sync, which joins every channel the
/// app is not in.
const MAX_WAITING: usize = 1024;

pub type JoinRequests = mpsc::Receiver<(TeamId, ChannelId)>;

/// Asks another task to join channels, at Slack's pace.
#[derive(Debug, Clone)]
pub struct Joiner(mpsc::Sender<(TeamId, ChannelId)>);

impl Joiner {
    /// A joiner, and the receiver of its requests.
    pub fn new() -> (Self, JoinRequests) {
        let (requests, waiting) = mpsc::channel(MAX_WAITING);
        (Self(requests), waiting)
    }

    /// Requests that a channel be joined. Never waits.
    pub fn ask(&self, team: &TeamId, channel: &ChannelId) {
        // If the queue is full or closed, the next sync joins the channel.
        drop(self.0.try_send((team.clone(), channel.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_limit_are_dropped_and_no_caller_waits() {
        let (joiner, mut requests) = Joiner::new();
        let team = TeamId::parse("T1").unwrap();
        for number in 0..2 * MAX_WAITING {
            joiner.ask(&team, &ChannelId::parse(&format!("C{number:04}")).unwrap());
        }
        let mut waiting = 0;
        while requests.try_recv().is_ok() {
            waiting += 1;
        }
        assert_eq!(waiting, MAX_WAITING);
        drop(requests);
        joiner.ask(&team, &ChannelId::parse("C1").unwrap());
    }
}
