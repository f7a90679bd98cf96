//! Which connections are ready, and the run that they make together: a value, without sockets and clocks.
//!
//! A run lasts while at least one connection is ready. A dead connection is noticed late, may have died before another
//! one was opened, and what it received before is read later. So only the answer to a ping shows something: the
//! connection was alive when the newest connection said hello that was known when the ping was sent.
//!
//! * A connection that was opened later belongs to the run once a connection of the run has answered a ping since.
//! * One that was opened before the run began belongs to it once it has itself answered a ping since.
//!
//! Until then its events belong to no run. If no such answer arrives, the time between two connections is a gap:
//! another run begins.

use std::collections::BTreeMap;

use ports::queue::run::RunId;

/// The ready connections.
#[derive(Debug)]
pub(crate) struct Presence {
    /// By their ids, in the order of their hellos.
    ready: BTreeMap<u64, RunMembership>,
    run: Option<RunId>,
    /// The connection with which the run began.
    first_of_run: u64,
    /// Whether a connection was ever ready.
    pub(crate) was_ready: bool,
    /// Why the last attempt failed, or the last connection ended.
    pub(crate) reason: String,
}

/// Whether a ready connection is known to belong to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunMembership {
    Member,
    Unproven,
}

impl Presence {
    pub(crate) fn new() -> Self {
        let reason = "the first one is being opened".to_owned();
        Self { ready: BTreeMap::new(), run: None, first_of_run: 0, was_ready: false, reason }
    }

    /// The number of ready connections.
    pub(crate) fn count(&self) -> usize {
        self.ready.len()
    }

    /// The run of the events that arrive now over a connection.
    pub(crate) fn run(&self, id: u64) -> Option<&RunId> {
        self.run.as_ref().filter(|_| self.is_member(id))
    }

    /// A connection became ready. Returns the run if one begins.
    pub(crate) fn hello(&mut self, id: u64) -> Option<RunId> {
        self.was_ready = true;
        let is_alone = self.ready.is_empty();
        self.ready.insert(id, RunMembership::Unproven);
        is_alone.then(|| self.begin())
    }

    /// A connection answered a ping that was sent when `newest` was the newest connection.
    pub(crate) fn note_pong(&mut self, id: u64, newest: u64) {
        if newest < self.first_of_run {
            return;
        }
        if id < self.first_of_run
            && let Some(membership) = self.ready.get_mut(&id)
        {
            *membership = RunMembership::Member;
        }
        if self.is_member(id) {
            let later = self.ready.range_mut(self.first_of_run..=newest);
            later.for_each(|(_, membership)| *membership = RunMembership::Member);
        }
    }

    /// A connection ended. Returns the run if one begins: no other connection is known to belong to the last one.
    pub(crate) fn ended(&mut self, id: u64) -> Option<RunId> {
        self.ready.remove(&id)?;
        if self.ready.is_empty() {
            self.run = None;
            return None;
        }
        let lasts = self.ready.values().any(|membership| *membership == RunMembership::Member);
        (!lasts).then(|| self.begin())
    }

    fn is_member(&self, id: u64) -> bool {
        self.ready.get(&id) == Some(&RunMembership::Member)
    }

    /// Begins a run with the newest connection. What an older one receives may be from before.
    fn begin(&mut self) -> RunId {
        if let Some((id, membership)) = self.ready.iter_mut().next_back() {
            *membership = RunMembership::Member;
            self.first_of_run = *id;
        }
        let run = RunId::begin();
        self.run = Some(run.clone());
        run
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use fastrand::Rng;

    use super::*;

    fn run(presence: &Presence, id: u64) -> Option<RunId> {
        presence.run(id).cloned()
    }

    #[test]
    fn a_replacement_belongs_to_the_run_of_the_connection_that_it_replaces() {
        let mut presence = Presence::new();
        let begun = presence.hello(1);
        assert!(begun.is_some());
        assert_eq!(presence.hello(2), None);
        presence.note_pong(1, 2);
        assert_eq!(presence.ended(1), None);
        assert_eq!((run(&presence, 2), presence.count()), (begun, 1));
    }

    #[test]
    fn a_time_without_a_connection_ends_the_run() {
        let mut presence = Presence::new();
        let first = presence.hello(1);
        assert_eq!((presence.ended(1), presence.ended(7)), (None, None));
        assert_eq!(run(&presence, 1), None);
        let second = presence.hello(2);
        assert!(second.is_some() && second != first && run(&presence, 2) == second);
    }

    #[test]
    fn events_belong_to_no_run_until_an_older_connection_answers_a_later_ping() {
        let mut presence = Presence::new();
        let begun = presence.hello(1);
        presence.hello(2);
        presence.note_pong(2, 2);
        presence.note_pong(1, 1);
        assert_eq!((run(&presence, 1), run(&presence, 2)), (begun.clone(), None));
        presence.note_pong(1, 2);
        assert_eq!(run(&presence, 2), begun);
        presence.hello(3);
        assert_eq!(presence.ended(1), None);
        presence.note_pong(3, 3);
        assert_eq!((run(&presence, 2), run(&presence, 3)), (begun.clone(), None));
        let next = presence.ended(2);
        assert!(
            next.is_some() && next != begun && run(&presence, 3) == next,
            "2 answered no ping after 3 began"
        );
    }

    /// What Slack sent over a connection, and the process may not have read yet.
    enum SimulatedFrame {
        /// An event, and how often no connection was alive before.
        Event(u32),
        Pong(u64),
    }

    /// A connection of the simulation.
    struct SimulatedConnection {
        id: u64,
        /// Whether Slack still sends over it.
        is_alive: bool,
        unread: VecDeque<SimulatedFrame>,
    }

    /// Runs a sequence of connections that open, are refreshed, die with and without a trace, and deliver events that
    /// are read later. Returns the events in order: the run, and how often no connection was alive before.
    fn simulate(seed: u64, deaths: bool) -> Vec<(Option<RunId>, u32)> {
        let mut rng = Rng::with_seed(seed);
        let mut presence = Presence::new();
        let mut connections: Vec<SimulatedConnection> = Vec::new();
        let (mut newest, mut outages, mut is_out, mut events) = (0, 0, true, Vec::new());
        for _ in 0..400 {
            let index = if connections.is_empty() { 0 } else { rng.usize(..connections.len()) };
            let has_room = connections.len() < 4;
            match (rng.u8(..10), connections.get_mut(index)) {
                (0 | 1, _) if has_room => {
                    newest += 1;
                    presence.hello(newest);
                    connections.push(SimulatedConnection {
                        id: newest,
                        is_alive: true,
                        unread: VecDeque::new(),
                    });
                }
                // A refresh: the process closes the old connection after it answered a ping.
                (2, Some(old)) if old.is_alive => {
                    newest += 1;
                    presence.hello(newest);
                    presence.note_pong(old.id, newest);
                    presence.ended(old.id);
                    *old = SimulatedConnection { id: newest, is_alive: true, unread: VecDeque::new() };
                }
                (3, Some(connection)) if deaths => connection.is_alive = false,
                // The process notices the death.
                (4, Some(connection)) if !connection.is_alive => {
                    presence.ended(connection.id);
                    connections.swap_remove(index);
                }
                (5, Some(connection)) if connection.is_alive => {
                    connection.unread.push_back(SimulatedFrame::Pong(newest));
                }
                (6 | 7, Some(connection)) if connection.is_alive => {
                    connection.unread.push_back(SimulatedFrame::Event(outages));
                }
                (8 | 9, Some(connection)) => match connection.unread.pop_front() {
                    Some(SimulatedFrame::Pong(newest)) => presence.note_pong(connection.id, newest),
                    Some(SimulatedFrame::Event(outages)) => {
                        events.push((presence.run(connection.id).cloned(), outages));
                    }
                    None => {}
                },
                _ => {}
            }
            let was_out = is_out;
            is_out = !connections.iter().any(|connection| connection.is_alive);
            outages += u32::from(is_out && !was_out);
        }
        events
    }

    #[test]
    fn no_run_has_events_on_both_sides_of_a_time_without_a_connection() {
        let mut with_gap = 0;
        for seed in 0..500 {
            let mut outage_of_run: BTreeMap<String, u32> = BTreeMap::new();
            for (run, outages) in simulate(seed, true) {
                let Some(run) = run else { continue };
                let first = *outage_of_run.entry(run.as_str().to_owned()).or_insert(outages);
                assert_eq!(first, outages, "seed {seed}: a run goes on after an outage");
            }
            with_gap += u32::from(outage_of_run.len() > 1);
        }
        assert!(with_gap > 250, "only {with_gap} seeds have several runs: they test nothing");
    }

    #[test]
    fn refreshes_alone_make_one_run() {
        for seed in 0..500 {
            let events = simulate(seed, false);
            let runs: std::collections::BTreeSet<_> =
                events.iter().filter_map(|(run, _)| run.as_ref().map(RunId::as_str)).collect();
            assert!(runs.len() <= 1, "seed {seed}");
        }
    }
}
