//! The events of a workspace that each run of ingest accepted: the earliest and the latest clock.
//!
//! The clocks are Slack's, never ours, and only of events that Slack delivered at its first attempt: a
//! retried event may be from a time when no process was running. So a run was active at least from its first
//! event to its last, whatever the order of the jobs, and however the run ended: a process need not announce
//! that it stops.

use ports::archive::{Guard, Item, ItemKey, Update, text_attributes};
use ports::queue::run::RunId;
use serde::Deserialize;
use serde_json::value::RawValue;
use slack::ids::{TeamId, Ts};

use crate::{Malformed, read_job};

const FIRST: &str = "first";
const LAST: &str = "last";

/// The time from the first event of a run to its last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunSpan {
    /// The earliest clock.
    pub first: Ts,
    /// The latest clock.
    pub last: Ts,
}

impl RunSpan {
    /// The span of a single event.
    pub fn from_event(clock: Ts) -> Self {
        Self { first: clock.clone(), last: clock }
    }

    /// Adds another event of the same run.
    pub fn include(&mut self, clock: &Ts) {
        if *clock < self.first {
            self.first = clock.clone();
        }
        if *clock > self.last {
            self.last = clock.clone();
        }
    }

    /// The updates of its two registers: a minimum, and a maximum.
    pub fn updates(&self, team: &TeamId, run: &RunId) -> [Update; 2] {
        let update = |guard| Update {
            guard,
            set_if_absent: text_attributes([("type", "run"), ("team_id", team.as_str())]),
            ..Update::new(ItemKey::run(team, run))
        };
        [
            update(Guard::Less { register: FIRST.into(), version: self.first.padded() }),
            update(Guard::Greater { register: LAST.into(), version: self.last.padded() }),
        ]
    }

    /// Reads the span from a row. If a crash left only one register, it is both ends.
    pub fn read(row: &Item) -> Option<Self> {
        let clock = |name| row.text(name).and_then(Ts::unpadded);
        let (first, last) = (clock(FIRST), clock(LAST));
        Some(Self { first: first.clone().or(last.clone())?, last: last.or(first)? })
    }
}

#[derive(Deserialize)]
struct BegunRun {
    team_id: TeamId,
    run: String,
    at: Ts,
}

/// The beginning of a run, as ingest reports it: the run was active at that time, even without an event.
///
/// # Errors
/// [`Malformed`] if a field is missing or malformed.
pub fn begun(job: &RawValue) -> Result<(TeamId, RunId, RunSpan), Malformed> {
    let BegunRun { team_id, run, at } = read_job("run", job)?;
    let run = RunId::parse(&run).ok_or(Malformed::Job("run"))?;
    Ok((team_id, run, RunSpan::from_event(at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ports::archive::Attributes;

    fn ts(text: &str) -> Ts {
        Ts::parse(text).unwrap()
    }

    #[test]
    fn the_beginning_of_a_run_is_read_and_a_hostile_one_is_malformed() {
        let read = |json: &str| begun(&RawValue::from_string(json.to_owned()).unwrap());
        let (team, run, span) = read(r#"{"team_id":"T1","run":"0123456789abcdef","at":"5.000000"}"#).unwrap();
        assert_eq!((team.as_str(), run.as_str()), ("T1", "0123456789abcdef"));
        assert_eq!(span, RunSpan::from_event(ts("5.000000")));
        for hostile in [
            "{}",
            "[]",
            "null",
            r#"{"team_id":"t#","run":"0123456789abcdef","at":"5.000000"}"#,
            r#"{"team_id":"T1","run":"x#","at":"5.000000"}"#,
            r#"{"team_id":"T1","run":"0123456789abcdef","at":5}"#,
        ] {
            assert!(read(hostile).is_err(), "{hostile}");
        }
    }

    #[test]
    fn any_order_of_events_leaves_the_same_row() {
        let team = TeamId::parse("T1").unwrap();
        let run = RunId::begin();
        let clocks = ["1700000005.000000", "999999999.000001", "1700000009.500000", "1700000007.000000"];
        let expected = RunSpan { first: ts("999999999.000001"), last: ts("1700000009.500000") };
        for turn in 0..clocks.len() {
            let mut stored: Option<Attributes> = None;
            for step in 0..clocks.len() * 2 {
                for update in
                    RunSpan::from_event(ts(clocks[(turn + step * 3) % clocks.len()])).updates(&team, &run)
                {
                    stored = update.apply(stored.as_ref()).or(stored);
                }
            }
            let row = Item { key: ItemKey::run(&team, &run), attributes: stored.unwrap() };
            assert_eq!(RunSpan::read(&row), Some(expected.clone()));
        }
        let mut all = RunSpan::from_event(ts(clocks[0]));
        clocks.iter().for_each(|clock| all.include(&ts(clock)));
        assert_eq!(all, expected);
    }

    #[test]
    fn a_row_with_one_register_is_one_moment_and_an_odd_one_is_ignored() {
        let row = |name: &str, value: &str| Item {
            key: ItemKey::new("i", "t"),
            attributes: [(name.to_owned(), value.into())].into_iter().collect(),
        };
        for name in [FIRST, LAST] {
            assert_eq!(
                RunSpan::read(&row(name, "000000000007.000000")),
                Some(RunSpan::from_event(ts("7.000000")))
            );
        }
        assert_eq!(
            RunSpan::read(&row(FIRST, "000000000000.500000")),
            Some(RunSpan::from_event(ts("0.500000")))
        );
        assert_eq!(RunSpan::read(&row(FIRST, "soon")), None);
    }
}
