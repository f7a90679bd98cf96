//! What each run of ingest saw of a workspace: the earliest and the latest clock of the events that it took.
//!
//! The clocks are Slack's, never ours, and only of events that Slack delivered at its first try: one that it delivers
//! again may be from a time when no process was running. So a run was there at least from its first event to its last, whatever
//! the order in which jobs are worked on, and however it ended: no stop has to be announced.

use ports::archive::{Guard, Item, ItemKey, Update};
use ports::queue::run::RunId;
use slack::ids::{TeamId, Ts};

const FIRST: &str = "first";
const LAST: &str = "last";

/// From the first event of a run to its last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunSpan {
    /// The earliest clock.
    pub first: Ts,
    /// The latest.
    pub last: Ts,
}

impl RunSpan {
    /// One event.
    pub fn at(clock: Ts) -> Self {
        Self { first: clock.clone(), last: clock }
    }

    /// Another event of the same run.
    pub fn and(&mut self, clock: &Ts) {
        if *clock < self.first {
            self.first = clock.clone();
        }
        if *clock > self.last {
            self.last = clock.clone();
        }
    }

    /// The registers of it: a minimum, and a maximum.
    pub fn updates(&self, team: &TeamId, run: &RunId) -> [Update; 2] {
        let identity = [("type", "run"), ("team_id", team.as_str())];
        let update = |guard| Update {
            guard,
            set_if_absent: identity.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            ..Update::new(ItemKey::run(team, run))
        };
        [
            update(Guard::Less { register: FIRST.into(), version: self.first.padded() }),
            update(Guard::Greater { register: LAST.into(), version: self.last.padded() }),
        ]
    }

    /// What a row says. Where a crash left one register alone, that is all of it.
    pub fn read(row: &Item) -> Option<Self> {
        let clock = |name| row.text(name).and_then(unpadded);
        let (first, last) = (clock(FIRST), clock(LAST));
        Some(Self { first: first.clone().or(last.clone())?, last: last.or(first)? })
    }
}

/// A clock as Slack spells it, from one that is padded to be compared as text.
pub fn unpadded(padded: &str) -> Option<Ts> {
    let clock = Ts::parse(padded).ok()?;
    let digits = clock.as_str().trim_start_matches('0');
    if digits.starts_with('.') { Ts::parse(&format!("0{digits}")).ok() } else { Ts::parse(digits).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ports::archive::Attributes;

    fn ts(text: &str) -> Ts {
        Ts::parse(text).unwrap()
    }

    #[test]
    fn any_order_of_events_leaves_the_same_row() {
        let team = TeamId::parse("T1").unwrap();
        let run = RunId::begin();
        let clocks = ["1700000005.000000", "999999999.000001", "1700000009.500000", "1700000007.000000"];
        let expected = RunSpan { first: ts("999999999.000001"), last: ts("1700000009.500000") };
        for turn in 0..clocks.len() {
            let mut stored: Option<Attributes> = None;
            for place in 0..clocks.len() * 2 {
                for update in RunSpan::at(ts(clocks[(turn + place * 3) % clocks.len()])).updates(&team, &run)
                {
                    stored = update.apply(stored.as_ref()).or(stored);
                }
            }
            let row = Item { key: ItemKey::run(&team, &run), attributes: stored.unwrap() };
            assert_eq!(RunSpan::read(&row), Some(expected.clone()));
        }
        let mut all = RunSpan::at(ts(clocks[0]));
        clocks.iter().for_each(|clock| all.and(&ts(clock)));
        assert_eq!(all, expected);
    }

    #[test]
    fn a_row_with_one_register_is_one_moment_and_an_odd_one_is_ignored() {
        let row = |name: &str, value: &str| Item {
            key: ItemKey::new("i", "t"),
            attributes: [(name.to_owned(), value.into())].into_iter().collect(),
        };
        for name in [FIRST, LAST] {
            assert_eq!(RunSpan::read(&row(name, "000000000007.000000")), Some(RunSpan::at(ts("7.000000"))));
        }
        assert_eq!(RunSpan::read(&row(FIRST, "000000000000.500000")), Some(RunSpan::at(ts("0.500000"))));
        assert_eq!(RunSpan::read(&row(FIRST, "soon")), None);
    }
}
