//! Intervals of time: what they cover together, and what they leave out.

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
    #[must_use]
    pub fn contains(&self, micros: i64) -> bool {
        self.from <= micros && micros < self.to
    }

    fn is_empty(&self) -> bool {
        self.from >= self.to
    }
}

/// What the intervals cover together, whatever their order: oldest first; empty ones are left out, and those that overlap or
/// touch are one.
#[must_use]
pub fn union(intervals: impl IntoIterator<Item = Interval>) -> Vec<Interval> {
    let mut intervals: Vec<Interval> =
        intervals.into_iter().filter(|interval| !interval.is_empty()).collect();
    intervals.sort_unstable();
    let mut union: Vec<Interval> = Vec::new();
    for interval in intervals {
        match union.last_mut() {
            Some(last) if interval.from <= last.to => last.to = last.to.max(interval.to),
            Some(_) | None => union.push(interval),
        }
    }
    union
}

/// What the intervals leave out of `whole`, oldest first; nothing if they cover it.
#[must_use]
pub fn rest(whole: Interval, covered: impl IntoIterator<Item = Interval>) -> Vec<Interval> {
    let mut rest = Vec::new();
    let mut from = whole.from;
    for interval in union(covered) {
        let left_out = Interval { from, to: interval.from.min(whole.to) };
        if !left_out.is_empty() {
            rest.push(left_out);
        }
        from = from.max(interval.to);
    }
    let end = Interval { from, to: whole.to };
    if !end.is_empty() {
        rest.push(end);
    }
    rest
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
        assert_eq!(union(of(&[(5, 7), (1, 3), (3, 5), (9, 9)])), of(&[(1, 7)]));
        assert_eq!(union(of(&[(1, 3), (4, 5)])), of(&[(1, 3), (4, 5)]));
        assert_eq!(union(of(&[(1, 9), (2, 3)])), of(&[(1, 9)]));
    }

    #[test]
    fn what_is_left_out_is_before_between_and_after() {
        let whole = Interval { from: 10, to: 20 };
        assert_eq!(rest(whole, of(&[(12, 14), (16, 17)])), of(&[(10, 12), (14, 16), (17, 20)]));
        assert_eq!(rest(whole, of(&[(0, 12), (18, 30)])), of(&[(12, 18)]));
        assert_eq!(rest(whole, of(&[(0, 9), (30, 40)])), [whole]);
        assert_eq!(rest(whole, of(&[(10, 15), (15, 20)])), []);
        assert_eq!(rest(Interval { from: 10, to: 10 }, []), []);
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
            let covered = union(intervals.clone());
            prop_assert_eq!(&union(shuffled.clone()), &covered);
            let left_out = rest(whole, shuffled);
            for micros in 0..40 {
                let holds = |intervals: &[Interval]| intervals.iter().any(|interval| interval.contains(micros));
                prop_assert_eq!(holds(&covered), holds(&intervals));
                prop_assert_eq!(holds(&left_out), whole.contains(micros) && !holds(&intervals));
            }
            for apart in covered.windows(2).chain(left_out.windows(2)) {
                prop_assert!(apart[0].to < apart[1].from);
            }
        }
    }
}
