//! What of a channel is to be read: functions of what is held already.

use rules::filled::{FilledSpan, SpanSource};
use rules::interval::{Cover, Interval};
use slack::ids::Ts;

use super::span::PlannedSpan;

/// What a person asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedHistory {
    /// Everything of this time, again if it is held.
    Between(Interval),
    /// What is missing of this time, and its end again: for edits and late replies.
    Missing {
        /// The time.
        whole: Interval,
        /// How much of its end is read again, in microseconds.
        again_micros: i64,
    },
}

/// The spans to be read of a channel, newest first. `holes` is what is missing, and `begun` what an earlier run that did not
/// end has read of the same: it is not read twice.
pub fn wanted(
    asked: &RequestedHistory,
    holes: &[Interval],
    spans: &[FilledSpan],
    begun: Option<Interval>,
) -> Vec<PlannedSpan> {
    let (whole, again) = match asked {
        RequestedHistory::Between(whole) => (*whole, *whole),
        RequestedHistory::Missing { whole, again_micros } => {
            let from = whole.to.saturating_sub(*again_micros).max(whole.from);
            (*whole, Interval { from, to: whole.to })
        }
    };
    let within = |hole: &Interval| Interval { from: hole.from.max(whole.from), to: hole.to.min(whole.to) };
    let missing = match asked {
        RequestedHistory::Between(_) => Vec::new(),
        RequestedHistory::Missing { .. } => holes.iter().map(within).collect(),
    };
    let intervals = Cover::of(missing.into_iter().chain(Cover::of(begun).rest(again)));
    intervals
        .intervals()
        .iter()
        .rev()
        .copied()
        .map(|span| PlannedSpan { span, to: end_of(span, spans) })
        .collect()
}

/// The spans of this time that were not read yet, newest first.
pub fn unread(time: Interval, spans: &[FilledSpan]) -> Vec<PlannedSpan> {
    let left = Cover::of(spans.iter().map(FilledSpan::interval)).rest(time);
    left.into_iter().rev().map(|span| PlannedSpan { span, to: end_of(span, spans) }).collect()
}

/// The end of the fact that keeps how far a span was read. One that goes on where an earlier one stopped goes on with its fact.
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
            from: of(from, to).from_ts(),
            to: of(from, to).to_ts(),
            source: SpanSource::History,
        }
    }

    fn of(from: i64, to: i64) -> Interval {
        Interval { from, to }
    }

    fn pairs(wanted: &[PlannedSpan]) -> Vec<(i64, i64, i64)> {
        wanted.iter().map(|wanted| (wanted.span.from, wanted.span.to, wanted.to.micros())).collect()
    }

    #[test]
    fn holes_are_read_newest_first_and_the_end_again() {
        let asked = RequestedHistory::Missing { whole: of(0, 100), again_micros: 10 };
        assert_eq!(
            pairs(&wanted(&asked, &[of(0, 30), of(50, 60)], &[], None)),
            [(90, 100, 100), (50, 60, 60), (0, 30, 30)]
        );
        assert_eq!(pairs(&wanted(&asked, &[of(0, 100)], &[], None)), [(0, 100, 100)]);
        assert_eq!(pairs(&wanted(&asked, &[], &[], None)), [(90, 100, 100)]);
        // A hole that lies outside of what was asked for is not read.
        let until = RequestedHistory::Missing { whole: of(20, 55), again_micros: 0 };
        assert_eq!(pairs(&wanted(&until, &[of(0, 30), of(50, 60)], &[], None)), [(50, 55, 55), (20, 30, 30)]);
    }

    #[test]
    fn what_an_interrupted_run_read_is_not_read_again_and_its_fact_goes_on() {
        let asked = RequestedHistory::Missing { whole: of(0, 103), again_micros: 50 };
        let read = [span(60, 100)];
        let holes = [of(0, 60), of(100, 103)];
        let expected = [(100, 103, 103), (0, 60, 100)];
        assert_eq!(pairs(&wanted(&asked, &holes, &read, Some(of(60, 100)))), expected);
        // A run that did end is another one: the end is read again.
        assert_eq!(pairs(&wanted(&asked, &holes, &read, None)), [(0, 103, 103)]);
        let between = RequestedHistory::Between(of(10, 100));
        assert_eq!(pairs(&wanted(&between, &[], &read, Some(of(60, 100)))), [(10, 60, 100)]);
        assert_eq!(pairs(&wanted(&between, &[], &read, None)), [(10, 100, 100)]);
    }

    #[test]
    fn of_a_gap_only_what_was_not_read_is_read() {
        assert_eq!(pairs(&unread(of(10, 50), &[span(30, 50)])), [(10, 30, 50)]);
        assert_eq!(pairs(&unread(of(10, 50), &[span(0, 60)])), []);
    }
}
