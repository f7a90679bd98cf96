//! Notes which runs of ingest took the events of a batch, so that the archive knows when a process was there to take them.
//! See `rules::gap::run`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ports::archive::{Archive, ArchiveError, ArchiveExt, Update};
use ports::queue::run::RunId;
use rules::gap::run::RunSpan;
use rules::{SlackEvent, version};
use slack::ids::{TeamId, Ts};

/// A run of ingest, seen from one workspace.
type RunOfTeam = (TeamId, RunId);

/// Runs remembered. Beyond it everything is forgotten and written again.
const MAX_REMEMBERED: usize = 10_000;

/// A batch as large as this is part of a load: another follows, which carries the run too.
const LOAD: usize = 8;

/// Under load a run grows in steps of this by Slack's clock. So a gap beside it may seem this much longer than it was,
/// never shorter. Without it, one row would take a write from every batch.
const LOAD_PACE_MICROS: i64 = 100_000;

/// What a process knows to be written.
#[derive(Default)]
pub(crate) struct Runs(Mutex<BTreeMap<RunOfTeam, RunSpan>>);

/// What the events of one batch say.
#[derive(Default)]
pub(crate) struct Sightings(Mutex<BTreeMap<RunOfTeam, RunSpan>>);

impl Sightings {
    /// An event that a run took; `None` where Slack delivered it again.
    pub(crate) fn note(&self, run: Option<RunId>, event: &SlackEvent<'_>) {
        let Some(run) = run else { return };
        let clock = event.clock();
        if clock == version::zero() {
            return;
        }
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entry((event.team.clone(), run))
            .and_modify(|seen| seen.and(&clock))
            .or_insert_with(|| RunSpan::at(clock));
    }
}

impl Runs {
    /// Writes what is not known to be written. No job of the batch may be acked before: its event may be the last of its
    /// run.
    pub(crate) async fn write(
        &self,
        archive: &dyn Archive,
        sightings: Sightings,
        jobs: usize,
    ) -> Result<(), ArchiveError> {
        let sightings = sightings.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let news: Vec<(RunOfTeam, RunSpan)> =
            sightings.into_iter().filter(|(key, seen)| self.is_news(key, seen, jobs)).collect();
        if news.is_empty() {
            return Ok(());
        }
        let updates: Vec<Update> =
            news.iter().flat_map(|((team, run), seen)| self.lacking(team, run, seen)).collect();
        let each: Vec<&Update> = updates.iter().collect();
        for outcome in archive.write_all(&each).await {
            outcome?;
        }
        self.remember(news);
        Ok(())
    }

    fn is_news(&self, key: &RunOfTeam, seen: &RunSpan, jobs: usize) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).is_none_or(|known| {
            let later_micros = seen.last.micros().saturating_sub(known.last.micros());
            let earlier_micros = known.first.micros().saturating_sub(seen.first.micros());
            let wider_micros = later_micros.max(earlier_micros);
            if jobs < LOAD { wider_micros > 0 } else { wider_micros >= LOAD_PACE_MICROS }
        })
    }

    /// The registers that this process has not written yet: nearly always the last one alone.
    fn lacking(&self, team: &TeamId, run: &RunId, seen: &RunSpan) -> Vec<Update> {
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

    fn remember(&self, news: Vec<(RunOfTeam, RunSpan)>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        for (key, seen) in news {
            known
                .entry(key)
                .and_modify(|known| {
                    known.and(&seen.first);
                    known.and(&seen.last);
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
        let news: Vec<(RunOfTeam, RunSpan)> =
            seen.into_iter().filter(|(key, seen)| runs.is_news(key, seen, jobs)).collect();
        let writes = news.iter().map(|((team, run), seen)| runs.lacking(team, run, seen).len()).sum();
        runs.remember(news);
        writes
    }

    #[test]
    fn each_event_of_a_quiet_workspace_moves_the_end_and_a_load_moves_it_now_and_then() {
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
    fn an_event_without_a_clock_or_of_no_run_says_nothing() {
        let runs = Runs::default();
        assert_eq!(writes(&runs, sighting(&RunId::begin(), "no clock"), 1), 0);
        let sightings = Sightings::default();
        let envelope = Envelope::peek(br#"{"team_id":"T1","event":{"event_ts":"5.000000"}}"#).unwrap();
        sightings.note(None, &SlackEvent::read(&envelope).unwrap());
        assert_eq!(writes(&runs, sightings, 1), 0);
    }
}
