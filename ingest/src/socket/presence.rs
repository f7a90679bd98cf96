//! Which connections are ready, and the run that they make together: values and times in, no socket.
//!
//! A run lasts while at least one connection is ready. A connection that died was ready only until its last frame,
//! although that is noticed later: a connection that was opened after that frame belongs to another run, so that
//! the time between them is a gap.

use std::collections::BTreeMap;
use std::time::Duration;

use ports::queue::run::RunId;
use tokio::time::Instant;

/// How long after its last frame a connection still counts as alive when another one becomes ready: the interval of
/// pings, and time for the pong.
const ALIVE_FOR: Duration = Duration::from_secs(15);

/// The ready connections.
#[derive(Debug)]
pub(crate) struct Presence {
    ready: BTreeMap<u64, ReadySpan>,
    run: Option<RunId>,
    /// Whether a connection was ever ready.
    pub(crate) was_ready: bool,
    /// Why the last attempt failed, or the last connection ended.
    pub(crate) reason: String,
}

#[derive(Debug, Clone, Copy)]
struct ReadySpan {
    since: Instant,
    last_frame: Instant,
}

impl Presence {
    pub(crate) fn new() -> Self {
        let reason = "the first one is being opened".to_owned();
        Self { ready: BTreeMap::new(), run: None, was_ready: false, reason }
    }

    /// The number of ready connections.
    pub(crate) fn count(&self) -> usize {
        self.ready.len()
    }

    /// The run of the events that arrive now.
    pub(crate) fn run(&self) -> Option<&RunId> {
        self.run.as_ref()
    }

    /// A connection became ready. Returns the run if one begins.
    pub(crate) fn hello(&mut self, id: u64, now: Instant) -> Option<RunId> {
        let others_live = self.ready.values().any(|other| now - other.last_frame <= ALIVE_FOR);
        self.ready.insert(id, ReadySpan { since: now, last_frame: now });
        self.was_ready = true;
        if others_live && self.run.is_some() { None } else { Some(self.begin()) }
    }

    /// A connection received something.
    pub(crate) fn note_frame(&mut self, id: u64, now: Instant) {
        if let Some(connection) = self.ready.get_mut(&id) {
            connection.last_frame = now;
        }
    }

    /// A connection ended, and was alive until its last frame. Returns the run if one begins: the others were opened
    /// too late to belong to the last one.
    pub(crate) fn ended(&mut self, id: u64) -> Option<RunId> {
        let ended = self.ready.remove(&id)?;
        if self.ready.is_empty() {
            self.run = None;
            return None;
        }
        let overlaps = self.ready.values().any(|other| other.since <= ended.last_frame);
        (!overlaps).then(|| self.begin())
    }

    fn begin(&mut self) -> RunId {
        let run = RunId::begin();
        self.run = Some(run.clone());
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times in seconds after the start.
    struct PresenceTimeline(Presence, Instant);

    impl PresenceTimeline {
        fn new() -> Self {
            Self(Presence::new(), Instant::now())
        }

        fn at(&self, second: u64) -> Instant {
            self.1 + Duration::from_secs(second)
        }

        fn hello(&mut self, id: u64, second: u64) -> bool {
            let now = self.at(second);
            self.0.hello(id, now).is_some()
        }

        fn frame(&mut self, id: u64, second: u64) {
            let now = self.at(second);
            self.0.note_frame(id, now);
        }

        fn run(&self) -> RunId {
            self.0.run().unwrap().clone()
        }
    }

    #[tokio::test]
    async fn a_replacement_belongs_to_the_run_of_the_connection_that_it_replaces() {
        let mut timeline = PresenceTimeline::new();
        assert!(timeline.hello(1, 0));
        let run = timeline.run();
        timeline.frame(1, 100);
        assert!(!timeline.hello(2, 105));
        timeline.frame(1, 106);
        assert!(timeline.0.ended(1).is_none());
        assert_eq!((timeline.run(), timeline.0.count()), (run, 1));
    }

    #[tokio::test]
    async fn a_time_without_a_connection_ends_the_run() {
        let mut timeline = PresenceTimeline::new();
        timeline.hello(1, 0);
        let run = timeline.run();
        assert!(timeline.0.ended(1).is_none());
        assert!(timeline.0.run().is_none());
        assert!(timeline.hello(2, 1));
        assert_ne!(timeline.run(), run);
        assert!(timeline.0.ended(7).is_none(), "it was never ready");
    }

    #[tokio::test]
    async fn a_connection_that_became_ready_after_the_last_frame_of_a_dead_one_belongs_to_another_run() {
        let mut timeline = PresenceTimeline::new();
        timeline.hello(1, 0);
        timeline.frame(1, 50);
        assert!(timeline.hello(2, 66), "the first has sent nothing for too long");
        assert!(timeline.0.ended(1).is_some(), "and it died before the second began");
        timeline.frame(2, 100);
        assert!(!timeline.hello(3, 110));
        assert!(timeline.0.ended(2).is_some(), "its last frame was before the third began");
        assert!(timeline.0.ended(3).is_none());
    }
}
