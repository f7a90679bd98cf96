//! Time intervals: the time that they cover together, and the rest.

use slack::ids::Ts;

/// A half-open interval, `from` included and `to` excluded, in microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    /// Its first microsecond.
    pub from: i64,
    /// The first microsecond after it.
    pub to: i64,
}

impl Interval {
    /// Whether it contains a time.
    pub fn contains(&self, micros: i64) -> bool {
        self.from <= micros && micros < self.to
    }

    fn is_empty(&self) -> bool {
        self.from >= self.to
    }

    /// Its start as a Slack timestamp.
    pub fn from_ts(&self) -> Ts {
        ts(self.from)
    }

    /// Its exclusive end as a Slack timestamp.
    pub fn to_ts(&self) -> Ts {
        ts(self.to)
    }
}

/// The latest time that a Slack timestamp can represent.
const LATEST_MICROS: i64 = 999_999_999_999_999_999;

fn ts(micros: i64) -> Ts {
    let micros = micros.clamp(0, LATEST_MICROS);
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    Ts::parse(&text).expect("the clamped time has at most twelve digits of seconds")
}

/// The time that intervals cover together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cover(Vec<Interval>);

impl Cover {
    /// The cover of these intervals, in any order: empty ones are left out, and those that overlap or touch
    /// are joined.
    pub fn from_intervals(intervals: impl IntoIterator<Item = Interval>) -> Self {
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

    /// Its intervals, oldest first: no two overlap or touch.
    pub fn intervals(&self) -> &[Interval] {
        &self.0
    }

    /// The parts of `whole` that it does not cover, oldest first; empty if it covers all of `whole`.
    pub fn uncovered(&self, whole: Interval) -> Vec<Interval> {
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

    fn intervals_of(pairs: &[(i64, i64)]) -> Vec<Interval> {
        pairs.iter().map(|(from, to)| Interval { from: *from, to: *to }).collect()
    }

    #[test]
    fn intervals_that_touch_are_joined_and_those_with_time_between_them_are_not() {
        for (intervals, expected) in [
            (intervals_of(&[(5, 7), (1, 3), (3, 5), (9, 9)]), intervals_of(&[(1, 7)])),
            (intervals_of(&[(1, 3), (4, 5)]), intervals_of(&[(1, 3), (4, 5)])),
            (intervals_of(&[(1, 9), (2, 3)]), intervals_of(&[(1, 9)])),
        ] {
            assert_eq!(Cover::from_intervals(intervals).intervals(), expected);
        }
    }

    #[test]
    fn the_rest_is_before_between_and_after_the_cover() {
        let whole = Interval { from: 10, to: 20 };
        let rest = |whole, intervals| Cover::from_intervals(intervals).uncovered(whole);
        assert_eq!(
            rest(whole, intervals_of(&[(12, 14), (16, 17)])),
            intervals_of(&[(10, 12), (14, 16), (17, 20)])
        );
        assert_eq!(rest(whole, intervals_of(&[(0, 12), (18, 30)])), intervals_of(&[(12, 18)]));
        assert_eq!(rest(whole, intervals_of(&[(0, 9), (30, 40)])), [whole]);
        assert_eq!(rest(whole, intervals_of(&[(10, 15), (15, 20)])), []);
        assert_eq!(rest(Interval { from: 10, to: 10 }, vec![]), []);
    }

    #[test]
    fn the_ends_of_an_interval_are_slack_timestamps() {
        let interval = Interval { from: 0, to: 1_700_000_000_000_100 };
        assert_eq!(
            (interval.from_ts().as_str(), interval.to_ts().as_str()),
            ("0.000000", "1700000000.000100")
        );
        let odd = Interval { from: i64::MIN, to: i64::MAX };
        assert_eq!((odd.from_ts().as_str(), odd.to_ts().as_str()), ("0.000000", "999999999999.999999"));
    }

    proptest! {
        #[test]
        fn a_moment_is_covered_or_in_the_rest_and_never_both(
            pairs in prop::collection::vec((0_i64..40, 0_i64..40), 0..12),
            (from, to) in (0_i64..40, 0_i64..40),
            seed in any::<u64>(),
        ) {
            let (whole, intervals) = (Interval { from, to }, intervals_of(&pairs));
            let mut shuffled = intervals.clone();
            fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
            let cover = Cover::from_intervals(intervals.clone());
            prop_assert_eq!(&Cover::from_intervals(shuffled), &cover);
            let rest = cover.uncovered(whole);
            let covered = cover.intervals();
            for micros in 0..40 {
                let contain = |intervals: &[Interval]| intervals.iter().any(|interval| interval.contains(micros));
                prop_assert_eq!(contain(covered), contain(&intervals));
                prop_assert_eq!(contain(&rest), whole.contains(micros) && !contain(&intervals));
            }
            for pair in covered.windows(2).chain(rest.windows(2)) {
                prop_assert!(pair[0].to < pair[1].from);
            }
        }
    }
}
