//! Records which runs of ingest received the events of a batch, so that the archive knows when a process was
//! running to receive events.
//! See `rules::gap::run`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ports::archive::{Archive, ArchiveError, ArchiveExt, Update};
use ports::queue::run::RunId;
use rules::gap::run::RunSpan;
use rules::{SlackEvent, version};
use slack::ids::{TeamId, Ts};

/// A run of ingest, for one workspace.
type RunOfTeam = (TeamId, RunId);

/// Maximum number of remembered runs. At the limit, all of them are forgotten and written again.
const MAX_REMEMBERED: usize = 10_000;

/// A batch of this size is part of a load: another batch follows, which also carries the run.
const LOAD: usize = 8;

/// Under load, a run is extended in steps of this size by Slack's clock. So an adjacent gap may appear this
/// much longer than it was, but never shorter. Otherwise every batch would write to one row.
const LOAD_PACE_MICROS: i64 = 100_000;

/// The runs that this process has written.
#[derive(Default)]
pub(crate) struct Runs(Mutex<BTreeMap<RunOfTeam, RunSpan>>);

/// The runs in the events of one batch.
#[derive(Default)]
pub(crate) struct Sightings(Mutex<BTreeMap<RunOfTeam, RunSpan>>);

impl Sightings {
    /// Records an event that a run received; `None` if Slack delivered it again.
    pub(crate) fn note(&self, run: Option<RunId>, event: &SlackEvent<'_>) {
        let Some(run) = run else { return };
        let clock = event.clock();
        if clock == version::zero() {
            return;
        }
        self.note_span(event.team.clone(), run, RunSpan::from_event(clock));
    }

    /// Records that a run was active.
    pub(crate) fn note_span(&self, team: TeamId, run: RunId, span: RunSpan) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entry((team, run))
            .and_modify(|seen| {
                seen.include(&span.first);
                seen.include(&span.last);
            })
            .or_insert(span);
    }
}

impl Runs {
    /// Writes the runs that are not written yet. No job of the batch may be acked before: its event may be
    /// the last of its run.
    pub(crate) async fn write(
        &self,
        archive: &dyn Archive,
        sightings: Sightings,
        jobs: usize,
    ) -> Result<(), ArchiveError> {
        let sightings = sightings.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let changed: Vec<(RunOfTeam, RunSpan)> =
            sightings.into_iter().filter(|(key, seen)| self.is_extended(key, seen, jobs)).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let updates: Vec<Update> =
            changed.iter().flat_map(|((team, run), seen)| self.missing_updates(team, run, seen)).collect();
        let update_refs: Vec<&Update> = updates.iter().collect();
        for outcome in archive.write_all(&update_refs).await {
            outcome?;
        }
        self.remember(changed);
        Ok(())
    }

    fn is_extended(&self, key: &RunOfTeam, seen: &RunSpan, jobs: usize) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).is_none_or(|known| {
            let later_micros = seen.last.micros().saturating_sub(known.last.micros());
            let earlier_micros = known.first.micros().saturating_sub(seen.first.micros());
            let wider_micros = later_micros.max(earlier_micros);
            if jobs < LOAD { wider_micros > 0 } else { wider_micros >= LOAD_PACE_MICROS }
        })
    }

    /// The registers that this process has not written yet: almost always only the end.
    fn missing_updates(&self, team: &TeamId, run: &RunId, seen: &RunSpan) -> Vec<Update> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&(team.clone(), run.clone()));
        let is_new = |new: fn(&Ts, &Ts) -> bool, clock: &Ts, known: Option<&Ts>| {
            known.is_none_or(|known| new(clock, known))
        };
        let [first, last] = seen.updates(team, run);
        let earlier = is_new(Ts::lt, &seen.first, known.map(|known| &known.first));
        let later = is_new(Ts::gt, &seen.last, known.map(|known| &known.last));
        earlier.then_some(first).into_iter().chain(later.then_some(last)).collect()
    }

    fn remember(&self, changed: Vec<(RunOfTeam, RunSpan)>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        for (key, seen) in changed {
            known
                .entry(key)
                .and_modify(|known| {
                    known.include(&seen.first);
                    known.include(&seen.last);
                })
                .or_insert(seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use slack::envelope::Envelope;

    use super::*;

    fn sighting(run: &RunId, clock: &str) -> Sightings {
        let sightings = Sightings::default();
        let body = format!(r#"{{"team_id":"T1","event":{{"type":"message","event_ts":"{clock}"}}}}"#);
        let envelope = Envelope::peek(body.as_bytes()).unwrap();
        sightings.note(Some(run.clone()), &SlackEvent::read(&envelope).unwrap());
        sightings
    }

    fn writes(runs: &Runs, sightings: Sightings, jobs: usize) -> usize {
        let seen = sightings.0.into_inner().unwrap();
        let changed: Vec<(RunOfTeam, RunSpan)> =
            seen.into_iter().filter(|(key, seen)| runs.is_extended(key, seen, jobs)).collect();
        let writes =
            changed.iter().map(|((team, run), seen)| runs.missing_updates(team, run, seen).len()).sum();
        runs.remember(changed);
        writes
    }

    #[test]
    fn each_event_of_a_quiet_workspace_moves_the_end_and_a_load_moves_it_in_steps() {
        let (runs, run) = (Runs::default(), RunId::begin());
        let write = |clock: &str, jobs| writes(&runs, sighting(&run, clock), jobs);
        assert_eq!(write("1700000000.000000", 1), 2, "the first event is both its beginning and its end");
        assert_eq!(write("1700000000.000001", 1), 1);
        assert_eq!(write("1700000000.000001", 1), 0, "it is written already");
        assert_eq!(write("1700000000.050000", LOAD), 0);
        assert_eq!(write("1700000000.100001", LOAD), 1);
        assert_eq!(write("1699999999.000000", LOAD), 1, "an earlier beginning");
        assert_eq!(write("1699999999.500000", 1), 0);
    }

    #[test]
    fn an_event_without_a_clock_or_a_run_is_not_recorded() {
        let runs = Runs::default();
        assert_eq!(writes(&runs, sighting(&RunId::begin(), "no clock"), 1), 0);
        let sightings = Sightings::default();
        let envelope = Envelope::peek(br#"{"team_id":"T1","event":{"event_ts":"5.000000"}}"#).unwrap();
        sightings.note(None, &SlackEvent::read(&envelope).unwrap());
        assert_eq!(writes(&runs, sightings, 1), 0);
    }
}
