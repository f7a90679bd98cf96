//! Requests to join channels.

use slack::ids::{ChannelId, TeamId};
use tokio::sync::mpsc;

/// Maximum number of waiting channels that were asked for one by one. Further ones are left to the next sync, which
/// joins every channel the app is not in.
const MAX_WAITING: usize = 1024;

/// Maximum number of waiting lists, one for each workspace and sync: more than an installation has workspaces.
const MAX_LISTS: usize = 1024;

/// The channels of a workspace that a sync found the app is not in. They replace those of an earlier sync.
pub(super) type FoundChannels = (TeamId, Vec<ChannelId>);

/// The requests of [`Joiner`]s, for [`super::joins::run`].
#[derive(Debug)]
pub struct JoinRequests {
    pub(super) asked: mpsc::Receiver<(TeamId, ChannelId)>,
    pub(super) found: mpsc::Receiver<FoundChannels>,
}

impl JoinRequests {
    /// The next channel that was asked for, if one waits.
    pub fn next_asked(&mut self) -> Option<(TeamId, ChannelId)> {
        self.asked.try_recv().ok()
    }

    /// The requests that wait now, as requests that end.
    #[must_use]
    pub fn take_waiting(&mut self) -> Self {
        let (joiner, waiting) = Joiner::new();
        while let Some((team, channel)) = self.next_asked() {
            joiner.ask(&team, &channel);
        }
        while let Ok((team, channels)) = self.found.try_recv() {
            joiner.found(team, channels);
        }
        waiting
    }
}

/// Asks another task to join channels, at Slack's pace.
#[derive(Debug, Clone)]
pub struct Joiner {
    asked: mpsc::Sender<(TeamId, ChannelId)>,
    found: mpsc::Sender<FoundChannels>,
}

impl Joiner {
    /// A joiner, and its requests.
    pub fn new() -> (Self, JoinRequests) {
        let (asked, waiting) = mpsc::channel(MAX_WAITING);
        let (found, lists) = mpsc::channel(MAX_LISTS);
        (Self { asked, found }, JoinRequests { asked: waiting, found: lists })
    }

    /// Requests that a channel be joined. Never waits.
    pub fn ask(&self, team: &TeamId, channel: &ChannelId) {
        // If the queue is full or closed, the next sync joins the channel.
        drop(self.asked.try_send((team.clone(), channel.clone())));
    }

    /// Requests that the channels that a sync found be joined. Never waits.
    pub fn found(&self, team: TeamId, channels: Vec<ChannelId>) {
        // If the queue is full or closed, the next sync finds them again.
        drop(self.found.try_send((team, channels)));
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
            joiner.found(team.clone(), Vec::new());
        }
        let mut waiting = requests.take_waiting();
        assert!(requests.next_asked().is_none());
        let asked = std::iter::from_fn(|| waiting.next_asked()).count();
        let found = std::iter::from_fn(|| waiting.found.try_recv().ok()).count();
        assert_eq!((asked, found), (MAX_WAITING, MAX_LISTS));
        drop((requests, waiting));
        joiner.ask(&team, &ChannelId::parse("C1").unwrap());
    }
}
