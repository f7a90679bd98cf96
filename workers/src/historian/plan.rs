//! Selects the spans of a channel to read, given the stored ones.

use rules::filled::{FilledSpan, SpanSource};
use rules::interval::{Cover, Interval};
use slack::ids::Ts;

use super::span::PlannedSpan;

/// The history that a person requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedHistory {
    /// Everything in this interval, even if it is stored.
    Between(Interval),
    /// The missing parts of this interval, and its end again for edits and late replies.
    Missing {
        whole: Interval,
        /// The length of the end that is read again, in microseconds.
        again_micros: i64,
    },
}

/// The spans of a channel to read, newest first. `holes` are the missing intervals, and `begun` is the part
/// that an earlier, unfinished run with the same request has read: it is not read again.
pub fn plan_spans(
    requested: &RequestedHistory,
    holes: &[Interval],
    spans: &[FilledSpan],
    begun: Option<Interval>,
) -> Vec<PlannedSpan> {
    let (whole, again) = match requested {
        RequestedHistory::Between(whole) => (*whole, *whole),
        RequestedHistory::Missing { whole, again_micros } => {
            let from = whole.to.saturating_sub(*again_micros).max(whole.from);
            (*whole, Interval { from, to: whole.to })
        }
    };
    let within = |hole: &Interval| Interval { from: hole.from.max(whole.from), to: hole.to.min(whole.to) };
    let missing = match requested {
        RequestedHistory::Between(_) => Vec::new(),
        RequestedHistory::Missing { .. } => holes.iter().map(within).collect(),
    };
    let intervals =
        Cover::from_intervals(missing.into_iter().chain(Cover::from_intervals(begun).uncovered(again)));
    intervals
        .intervals()
        .iter()
        .rev()
        .copied()
        .map(|span| PlannedSpan { span, to: end_of(span, spans) })
        .collect()
}

/// The parts of this interval that were not read yet, newest first.
pub fn plan_unread_spans(interval: Interval, spans: &[FilledSpan]) -> Vec<PlannedSpan> {
    let missing = Cover::from_intervals(spans.iter().map(FilledSpan::interval)).uncovered(interval);
    missing.into_iter().rev().map(|span| PlannedSpan { span, to: end_of(span, spans) }).collect()
}

/// The end of the fact that records how far a span was read. A span that continues an earlier one continues
/// its fact.
fn end_of(span: Interval, spans: &[FilledSpan]) -> Ts {
    let before =
        spans.iter().filter(|read| read.source == SpanSource::History && read.from.micros() == span.to);
    before.map(|read| read.to.clone()).max().unwrap_or_else(|| span.to_ts())
}

#[cfg(test)]
mod tests {
    use slack::ids::ChannelId;

    use super::*;

    fn span(from: i64, to: i64) -> FilledSpan {
        let channel = ChannelId::parse("C1").unwrap();
        FilledSpan {
            channel,
            from: interval(from, to).from_ts(),
            to: interval(from, to).to_ts(),
            source: SpanSource::History,
        }
    }

    fn interval(from: i64, to: i64) -> Interval {
        Interval { from, to }
    }

    fn pairs(spans: &[PlannedSpan]) -> Vec<(i64, i64, i64)> {
        spans.iter().map(|planned| (planned.span.from, planned.span.to, planned.to.micros())).collect()
    }

    #[test]
    fn holes_are_read_newest_first_and_the_end_again() {
        let asked = RequestedHistory::Missing { whole: interval(0, 100), again_micros: 10 };
        assert_eq!(
            pairs(&plan_spans(&asked, &[interval(0, 30), interval(50, 60)], &[], None)),
            [(90, 100, 100), (50, 60, 60), (0, 30, 30)]
        );
        assert_eq!(pairs(&plan_spans(&asked, &[interval(0, 100)], &[], None)), [(0, 100, 100)]);
        assert_eq!(pairs(&plan_spans(&asked, &[], &[], None)), [(90, 100, 100)]);
        // A hole outside the requested interval is not read.
        let until = RequestedHistory::Missing { whole: interval(20, 55), again_micros: 0 };
        assert_eq!(
            pairs(&plan_spans(&until, &[interval(0, 30), interval(50, 60)], &[], None)),
            [(50, 55, 55), (20, 30, 30)]
        );
    }

    #[test]
    fn the_spans_of_an_interrupted_run_are_not_read_again_and_its_fact_continues() {
        let asked = RequestedHistory::Missing { whole: interval(0, 103), again_micros: 50 };
        let read = [span(60, 100)];
        let holes = [interval(0, 60), interval(100, 103)];
        let expected = [(100, 103, 103), (0, 60, 100)];
        assert_eq!(pairs(&plan_spans(&asked, &holes, &read, Some(interval(60, 100)))), expected);
        // A run that ended does not count: the end is read again.
        assert_eq!(pairs(&plan_spans(&asked, &holes, &read, None)), [(0, 103, 103)]);
        let between = RequestedHistory::Between(interval(10, 100));
        assert_eq!(pairs(&plan_spans(&between, &[], &read, Some(interval(60, 100)))), [(10, 60, 100)]);
        assert_eq!(pairs(&plan_spans(&between, &[], &read, None)), [(10, 100, 100)]);
    }

    #[test]
    fn only_the_unread_part_of_a_gap_is_read() {
        assert_eq!(pairs(&plan_unread_spans(interval(10, 50), &[span(30, 50)])), [(10, 30, 50)]);
        assert_eq!(pairs(&plan_unread_spans(interval(10, 50), &[span(0, 60)])), []);
    }
}
