use proptest::prelude::*;

use super::*;
use crate::filled::{UnreadableBefore, UnreadableReason};
use crate::fixture::{channel, gap, ts};

fn span(from: i64, to: i64, source: SpanSource) -> FilledSpan {
    FilledSpan { channel: channel("C1"), from: ts(from), to: ts(to), source }
}

#[derive(Default)]
struct ChannelCase {
    created: Option<i64>,
    joined: Option<i64>,
    last: Option<i64>,
    gaps: Vec<Gap>,
    spans: Vec<FilledSpan>,
    limit: Option<i64>,
}

impl ChannelCase {
    fn with_channel<T>(&self, read: impl FnOnce(&KnownChannel<'_>) -> T) -> T {
        let fact = |from: i64| UnreadableBefore {
            channel: channel("C1"),
            from: ts(from),
            reason: UnreadableReason::PlanLimit,
            refused_at: None,
        };
        let unreadables: Vec<_> = self.limit.map(fact).into_iter().collect();
        let facts = HistoryFacts::new(&self.spans, &unreadables, []);
        read(&KnownChannel {
            channel: &channel("C1"),
            created: self.created.map(ts),
            joined: self.joined.map(ts),
            last_event: self.last.map(ts),
            gaps: &self.gaps,
            spans: &self.spans,
            facts: &facts,
        })
    }

    /// Spans and holes, a line each.
    fn lines(&self) -> Vec<String> {
        let short = |ts: &Ts| ts.as_str().trim_end_matches(".000000").to_owned();
        let (covered, holes) = self.with_channel(|known| (known.covered_spans(), known.holes()));
        let covered = covered
            .iter()
            .map(|span| format!("{} {} {}", short(&span.from), short(&span.to), span.source.as_str()));
        let holes = holes.iter().map(|hole| {
            let to = hole.to.as_ref().map_or("-".to_owned(), short);
            format!("{} {to} {} {}", short(&hole.from), hole.reason.as_str(), hole.state.as_str())
        });
        covered.chain(holes).collect()
    }
}

#[test]
fn the_time_before_the_first_event_is_a_hole_until_it_is_read() {
    let mut case = ChannelCase { joined: Some(50), last: Some(90), ..ChannelCase::default() };
    assert_eq!(case.lines(), ["50 90 live", "0 50 before_joining missing"]);
    case.created = Some(10);
    assert_eq!(case.lines(), ["50 90 live", "10 50 before_joining missing"]);
    case.spans = vec![span(30, 70, SpanSource::Import)];
    assert_eq!(case.lines(), ["30 70 import", "50 90 live", "10 30 before_joining missing"]);
    case.spans.push(span(0, 30, SpanSource::History));
    assert_eq!(case.lines(), ["0 30 history", "30 70 import", "50 90 live"]);
}

#[test]
fn a_channel_that_the_app_is_not_in_is_an_open_hole_except_for_read_spans() {
    let mut case = ChannelCase {
        last: Some(90),
        gaps: vec![gap(GapReason::Downtime, None, 20, Some(30))],
        ..ChannelCase::default()
    };
    assert_eq!(case.lines(), ["0 - before_joining open"]);
    case.spans = vec![span(10, 40, SpanSource::Import)];
    assert_eq!(case.lines(), ["10 40 import", "0 10 before_joining missing", "40 - before_joining open"]);
}

#[test]
fn gaps_interrupt_live_spans_and_history_closes_them() {
    let mut case =
        ChannelCase { created: Some(10), joined: Some(10), last: Some(90), ..ChannelCase::default() };
    case.gaps = vec![
        gap(GapReason::Downtime, None, 20, Some(30)),
        gap(GapReason::Left, Some("C2"), 35, Some(37)),
        gap(GapReason::Left, Some("C1"), 40, Some(50)),
        gap(GapReason::Dropped, Some("C1"), 60, Some(60)),
    ];
    let live = ["10 20 live", "30 40 live", "50 90 live"];
    let holes = ["20 30 downtime missing", "40 50 left missing", "60 60 dropped missing"];
    assert_eq!(case.lines(), [live, holes].concat());
    case.spans = vec![span(15, 45, SpanSource::History)];
    let expected = [
        "10 20 live",
        "15 45 history",
        "30 40 live",
        "50 90 live",
        "45 50 left missing",
        "60 60 dropped missing",
    ];
    assert_eq!(case.lines(), expected);
    case.spans.push(span(45, 61, SpanSource::History));
    assert_eq!(case.lines(), ["10 20 live", "15 61 history", "30 40 live", "50 90 live"]);
    case.gaps.push(gap(GapReason::Left, Some("C1"), 80, None));
    assert_eq!(case.lines()[3..], ["50 80 live", "80 - left open"]);
}

#[test]
fn an_app_that_left_a_channel_had_joined_it_before() {
    let case = ChannelCase {
        last: Some(90),
        gaps: vec![gap(GapReason::Left, Some("C1"), 40, None)],
        ..ChannelCase::default()
    };
    assert_eq!(case.lines(), ["0 40 before_joining missing", "40 - left open"]);
}

#[test]
fn history_that_the_plan_hides_is_lost_and_the_rest_is_missing() {
    let gaps = vec![gap(GapReason::Downtime, None, 20, Some(30))];
    let mut case =
        ChannelCase { joined: Some(15), last: Some(40), gaps, limit: Some(25), ..ChannelCase::default() };
    let live = ["15 20 live", "30 40 live"];
    assert_eq!(
        case.lines(),
        [&live[..], &["0 15 plan_limit lost", "20 25 downtime lost", "25 30 downtime missing"]].concat()
    );
    case.limit = Some(5);
    let holes = ["0 5 plan_limit lost", "5 15 before_joining missing", "20 30 downtime missing"];
    assert_eq!(case.lines(), [&live[..], &holes].concat());
}

#[test]
fn the_time_between_the_last_event_and_a_later_span_is_a_hole() {
    let spans = vec![span(70, 80, SpanSource::Import)];
    let case =
        ChannelCase { created: Some(10), joined: Some(10), last: Some(50), spans, ..ChannelCase::default() };
    let holes = case.with_channel(|known| known.holes());
    assert_eq!(holes.len(), 1);
    assert_eq!((holes[0].reason, holes[0].state), (HoleReason::Gap(GapReason::Downtime), GapState::Missing));
    assert_eq!((holes[0].from.as_str(), holes[0].to.as_ref().unwrap().as_str()), ("50.000001", "70.000000"));
}

#[test]
fn a_changed_history_is_a_hole_in_a_live_span() {
    let changed =
        Gap { reported_at: Some(ts(60)), ..gap(GapReason::HistoryChanged, Some("C1"), 0, Some(30)) };
    let mut case = ChannelCase {
        created: Some(10),
        joined: Some(10),
        last: Some(90),
        gaps: vec![changed],
        ..ChannelCase::default()
    };
    assert_eq!(case.lines(), ["10 90 live", "0 30 history_changed missing"]);
    case.spans = vec![span(0, 61, SpanSource::History)];
    assert_eq!(case.lines(), ["0 61 history", "10 90 live"]);
}

proptest! {
    /// Every moment from the channel's creation to the end of the last span is covered or in a hole, and
    /// never both if the gaps only interrupt events.
    #[test]
    fn every_moment_is_covered_or_in_a_hole(
        created in prop::option::of(0_i64..50),
        joined in prop::option::of(0_i64..60),
        last in prop::option::of(0_i64..90),
        gaps in prop::collection::vec((0_i64..80, 1_i64..20, any::<bool>()), 0..5),
        spans in prop::collection::vec((0_i64..80, 1_i64..20, any::<bool>()), 0..5),
        limit in prop::option::of(0_i64..90),
    ) {
        let gaps = gaps.iter().map(|(from, length, is_left)| {
            let (reason, id) = if *is_left { (GapReason::Left, Some("C1")) } else { (GapReason::Downtime, None) };
            gap(reason, id, *from, Some(from + length))
        });
        let spans = spans.iter().map(|(from, length, is_import)| {
            span(*from, from + length, if *is_import { SpanSource::Import } else { SpanSource::History })
        });
        let case = ChannelCase { created, joined, last, gaps: gaps.collect(), spans: spans.collect(), limit };
        let (covered, holes) = case.with_channel(|known| (known.covered_spans(), known.holes()));
        // Half a second later, because the end of a live span is its last event.
        let moment = |second: i64| Ts::parse(&format!("{second}.500000")).unwrap();
        let is_covered =
            |second: i64| covered.iter().any(|span| span.from <= moment(second) && moment(second) < span.to);
        let in_hole = |second: i64| {
            let is_before = |to: &Ts| moment(second) < *to;
            holes.iter().any(|hole| hole.from <= moment(second) && hole.to.as_ref().is_none_or(is_before))
        };
        let end = covered.iter().map(|span| span.to.micros() / 1_000_000).max().unwrap_or_default();
        for second in 0..100 {
            prop_assert!(!(is_covered(second) && in_hole(second)), "{} {:?} {:?}", second, covered, holes);
            if second >= created.unwrap_or_default() && second < end {
                prop_assert!(is_covered(second) || in_hole(second), "{} {:?} {:?}", second, covered, holes);
            }
        }
        prop_assert!(holes.iter().all(|hole| hole.state != GapState::Filled));
    }

    /// An interval without a hole stays without one when more facts about the channel become known.
    #[test]
    fn new_facts_about_a_channel_make_no_hole(
        created in prop::option::of(0_i64..50),
        joined in prop::option::of(0_i64..60),
        last in (0_i64..90, 0_i64..90),
        gaps in prop::collection::vec((0_i64..80, 0_i64..20, 0..5_usize), 0..5),
        spans in prop::collection::vec((0_i64..80, 1_i64..40), 0..5),
        limit in prop::option::of(0_i64..90),
        within in (0_i64..90, 1_i64..20),
    ) {
        let gaps = gaps.iter().map(|(from, length, kind)| {
            let gap_to = |reason, id, to| gap(reason, id, *from, to);
            match kind {
                0 => gap_to(GapReason::Left, Some("C1"), Some(from + length)),
                1 => gap_to(GapReason::Left, Some("C1"), None),
                2 => gap_to(GapReason::Dropped, Some("C1"), Some(*from)),
                3 => Gap { reported_at: Some(ts(60)), ..gap_to(GapReason::HistoryChanged, Some("C1"), Some(from + length)) },
                _ => gap_to(GapReason::Downtime, None, Some(from + length)),
            }
        });
        let spans = spans.iter().map(|(from, length)| span(*from, from + length, SpanSource::Import));
        let mut case = ChannelCase { gaps: gaps.collect(), spans: spans.collect(), limit, ..ChannelCase::default() };
        let second = |second: i64| ts(second).micros();
        let within = Interval { from: second(within.0), to: second(within.0 + within.1) };
        let mut is_whole = false;
        let (earlier, later) = (last.0.min(last.1), last.0.max(last.1));
        for (created, joined, last) in [(None, None, earlier), (None, joined, earlier), (created, joined, later)] {
            (case.created, case.joined, case.last) = (created, joined, Some(last));
            let has_hole = case.with_channel(|known| known.has_hole_in(within));
            prop_assert!(!(is_whole && has_hole), "{:?} {:?} {}", created, joined, last);
            is_whole |= !has_hole;
        }
    }
}
