//! Intervals of time: what they cover together, and what they leave out.

use slack::ids::Ts;

/// From `from` on, and before `to`, in microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    /// The first microsecond of it.
    pub from: i64,
    /// The first microsecond after it.
    pub to: i64,
}

impl Interval {
    /// Whether a time lies within it.
    pub fn contains(&self, micros: i64) -> bool {
        self.from <= micros && micros < self.to
    }

    fn is_empty(&self) -> bool {
        self.from >= self.to
    }

    /// Its beginning as Slack spells times.
    pub fn from_ts(&self) -> Ts {
        ts(self.from)
    }

    /// Its end, which is not part of it, as Slack spells times.
    pub fn to_ts(&self) -> Ts {
        ts(self.to)
    }
}

/// The latest time that Slack's spelling has room for.
const LATEST_MICROS: i64 = 999_999_999_999_999_999;

fn ts(micros: i64) -> Ts {
    let micros = micros.clamp(0, LATEST_MICROS);
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    Ts::parse(&text).expect("twelve digits of seconds hold it")
}

/// What intervals cover together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cover(Vec<Interval>);

impl Cover {
    /// The cover of these intervals, whatever their order: empty ones are left out, and those that overlap or touch are one.
    pub fn of(intervals: impl IntoIterator<Item = Interval>) -> Self {
        let mut intervals: Vec<Interval> =
            intervals.into_iter().filter(|interval| !interval.is_empty()).collect();
        intervals.sort_unstable();
        let mut cover: Vec<Interval> = Vec::new();
        for interval in intervals {
            match cover.last_mut() {
                Some(last) if interval.from <= last.to => last.to = last.to.max(interval.to),
                Some(_) | None => cover.push(interval),
            }
        }
        Self(cover)
    }

    /// The intervals of it, oldest first: no two overlap or touch.
    pub fn intervals(&self) -> &[Interval] {
        &self.0
    }

    /// What it leaves out of `whole`, oldest first; nothing if it covers all of that.
    pub fn rest(&self, whole: Interval) -> Vec<Interval> {
        let first = self.0.partition_point(|interval| interval.to <= whole.from);
        let within = self.0[first..].iter().take_while(|interval| interval.from < whole.to);
        let mut rest = Vec::new();
        let mut from = whole.from;
        for interval in within {
            if from < interval.from {
                rest.push(Interval { from, to: interval.from });
            }
            from = interval.to;
        }
        if from < whole.to {
            rest.push(Interval { from, to: whole.to });
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(pairs: &[(i64, i64)]) -> Vec<Interval> {
        pairs.iter().map(|(from, to)| Interval { from: *from, to: *to }).collect()
    }

    #[test]
    fn intervals_that_touch_are_one_and_those_between_which_time_lies_are_two() {
        for (intervals, expected) in [
            (of(&[(5, 7), (1, 3), (3, 5), (9, 9)]), of(&[(1, 7)])),
            (of(&[(1, 3), (4, 5)]), of(&[(1, 3), (4, 5)])),
            (of(&[(1, 9), (2, 3)]), of(&[(1, 9)])),
        ] {
            assert_eq!(Cover::of(intervals).intervals(), expected);
        }
    }

    #[test]
    fn what_is_left_out_is_before_between_and_after() {
        let whole = Interval { from: 10, to: 20 };
        let rest = |whole, intervals| Cover::of(intervals).rest(whole);
        assert_eq!(rest(whole, of(&[(12, 14), (16, 17)])), of(&[(10, 12), (14, 16), (17, 20)]));
        assert_eq!(rest(whole, of(&[(0, 12), (18, 30)])), of(&[(12, 18)]));
        assert_eq!(rest(whole, of(&[(0, 9), (30, 40)])), [whole]);
        assert_eq!(rest(whole, of(&[(10, 15), (15, 20)])), []);
        assert_eq!(rest(Interval { from: 10, to: 10 }, vec![]), []);
    }

    #[test]
    fn its_ends_are_spelled_as_slack_spells_times() {
        let interval = Interval { from: 0, to: 1_700_000_000_000_100 };
        assert_eq!(
            (interval.from_ts().as_str(), interval.to_ts().as_str()),
            ("0.000000", "1700000000.000100")
        );
        let odd = Interval { from: i64::MIN, to: i64::MAX };
        assert_eq!((odd.from_ts().as_str(), odd.to_ts().as_str()), ("0.000000", "999999999999.999999"));
    }

    proptest! {
        /// Moment by moment, in any order.
        #[test]
        fn a_moment_is_covered_or_left_out_and_never_both(
            pairs in prop::collection::vec((0_i64..40, 0_i64..40), 0..12),
            (from, to) in (0_i64..40, 0_i64..40),
            seed in any::<u64>(),
        ) {
            let (whole, intervals) = (Interval { from, to }, of(&pairs));
            let mut shuffled = intervals.clone();
            fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
            let cover = Cover::of(intervals.clone());
            prop_assert_eq!(&Cover::of(shuffled), &cover);
            let left_out = cover.rest(whole);
            let covered = cover.intervals();
            for micros in 0..40 {
                let holds = |intervals: &[Interval]| intervals.iter().any(|interval| interval.contains(micros));
                prop_assert_eq!(holds(covered), holds(&intervals));
                prop_assert_eq!(holds(&left_out), whole.contains(micros) && !holds(&intervals));
            }
            for apart in covered.windows(2).chain(left_out.windows(2)) {
                prop_assert!(apart[0].to < apart[1].from);
            }
        }
    }
}
