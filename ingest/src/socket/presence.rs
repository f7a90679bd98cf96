//! Which connections are ready, and the run that they make together: a value, without sockets and clocks.
//!
//! A run lasts while at least one connection is ready. A dead connection is noticed late, and may have died before
//! another one was opened. So the events of a connection belong to the run only once a connection of the run has
//! received a frame after this one became ready; before that they belong to no run. If no such frame arrives, the time
//! between the two connections is a gap: another run begins.

use std::collections::BTreeMap;

use ports::queue::run::RunId;

/// The ready connections.
#[derive(Debug)]
pub(crate) struct Presence {
    ready: BTreeMap<u64, RunMembership>,
    run: Option<RunId>,
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
        Self { ready: BTreeMap::new(), run: None, was_ready: false, reason }
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

    /// A connection received something: the run lasts, and every ready connection belongs to it.
    pub(crate) fn note_frame(&mut self, id: u64) {
        if self.is_member(id) {
            self.ready.values_mut().for_each(|membership| *membership = RunMembership::Member);
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

    fn begin(&mut self) -> RunId {
        self.ready.values_mut().for_each(|membership| *membership = RunMembership::Member);
        let run = RunId::begin();
        self.run = Some(run.clone());
        run
    }
}

#[cfg(test)]
mod tests {
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
        presence.note_frame(1);
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
    fn events_belong_to_no_run_until_an_older_connection_receives_a_frame() {
        let mut presence = Presence::new();
        let begun = presence.hello(1);
        presence.hello(2);
        presence.note_frame(2);
        assert_eq!((run(&presence, 1), run(&presence, 2)), (begun.clone(), None));
        presence.note_frame(1);
        assert_eq!(run(&presence, 2), begun);
        presence.hello(3);
        assert_eq!(presence.ended(1), None);
        presence.note_frame(3);
        assert_eq!((run(&presence, 2), run(&presence, 3)), (begun.clone(), None));
        let next = presence.ended(2);
        assert!(
            next.is_some() && next != begun && run(&presence, 3) == next,
            "2 received no frame after 3 began"
        );
    }

    /// A connection of the simulation.
    struct SimulatedConnection {
        id: u64,
        /// Whether Slack still sends over it.
        is_alive: bool,
        /// What happens at its end: the process notices at once, or much later.
        closing: bool,
    }

    /// Runs a sequence of connections that open, are refreshed, die with and without a trace, and deliver events.
    /// Returns the events in order: the run, and how often no connection was alive before.
    fn simulate(seed: u64, deaths: bool) -> Vec<(Option<RunId>, u32)> {
        let mut rng = Rng::with_seed(seed);
        let mut presence = Presence::new();
        let mut connections: Vec<SimulatedConnection> = Vec::new();
        let (mut last_id, mut outages, mut is_out, mut events) = (0, 0, true, Vec::new());
        for _ in 0..200 {
            let index = if connections.is_empty() { 0 } else { rng.usize(..connections.len()) };
            match rng.u8(..10) {
                0 | 1 if connections.len() < 4 => {
                    last_id += 1;
                    presence.hello(last_id);
                    connections.push(SimulatedConnection { id: last_id, is_alive: true, closing: false });
                }
                // A refresh: the process closes the old connection after the new one is ready.
                2 if connections.get(index).is_some_and(|old| old.is_alive) => {
                    last_id += 1;
                    presence.hello(last_id);
                    let old = connections.swap_remove(index);
                    presence.note_frame(old.id);
                    presence.ended(old.id);
                    connections.push(SimulatedConnection { id: last_id, is_alive: true, closing: false });
                }
                // Dies: the process will notice.
                3 if deaths && !connections.is_empty() => {
                    connections[index].is_alive = false;
                    connections[index].closing = true;
                }
                4 if connections.get(index).is_some_and(|connection| connection.closing) => {
                    let ended = connections.swap_remove(index);
                    presence.ended(ended.id);
                }
                5..=9 if connections.get(index).is_some_and(|connection| connection.is_alive) => {
                    let id = connections[index].id;
                    presence.note_frame(id);
                    events.push((presence.run(id).cloned(), outages));
                }
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
