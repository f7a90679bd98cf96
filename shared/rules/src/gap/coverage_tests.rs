use proptest::prelude::*;

use super::*;
use crate::filled::{UnreadableBefore, UnreadableReason};

fn ts(second: i64) -> Ts {
    Ts::parse(&format!("{second}.000000")).unwrap()
}

fn channel() -> ChannelId {
    ChannelId::parse("C1").unwrap()
}

fn span(from: i64, to: i64, source: SpanSource) -> FilledSpan {
    FilledSpan { channel: channel(), from: ts(from), to: ts(to), source }
}

fn gap(reason: Reason, id: Option<&str>, from: i64, to: Option<i64>) -> Gap {
    let channel = id.map(|id| ChannelId::parse(id).unwrap());
    Gap { from: ts(from), to: to.map(ts), channel, reason, told: None }
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
    fn known<T>(&self, look: impl FnOnce(&KnownChannel<'_>) -> T) -> T {
        let fact = |from: i64| UnreadableBefore {
            channel: channel(),
            from: ts(from),
            reason: UnreadableReason::PlanLimit,
            asked: None,
        };
        let unreadables: Vec<_> = self.limit.map(fact).into_iter().collect();
        let facts = HistoryFacts::new(&self.spans, &unreadables, []);
        look(&KnownChannel {
            channel: &channel(),
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
        let (held, holes) = self.known(|known| (known.held(), known.holes()));
        let held = held
            .iter()
            .map(|span| format!("{} {} {}", short(&span.from), short(&span.to), span.held_by.as_str()));
        let holes = holes.iter().map(|hole| {
            let to = hole.to.as_ref().map_or("-".to_owned(), short);
            format!("{} {to} {} {}", short(&hole.from), hole.reason.as_str(), hole.state.as_str())
        });
        held.chain(holes).collect()
    }
}

#[test]
fn what_was_before_the_first_event_is_a_hole_until_it_is_read() {
    let mut told = ChannelCase { joined: Some(50), last: Some(90), ..ChannelCase::default() };
    assert_eq!(told.lines(), ["50 90 live", "0 50 before_joining missing"]);
    told.created = Some(10);
    assert_eq!(told.lines(), ["50 90 live", "10 50 before_joining missing"]);
    told.spans = vec![span(30, 70, SpanSource::Import)];
    assert_eq!(told.lines(), ["30 70 import", "50 90 live", "10 30 before_joining missing"]);
    told.spans.push(span(0, 30, SpanSource::History));
    assert_eq!(told.lines(), ["0 30 history", "30 70 import", "50 90 live"]);
}

#[test]
fn a_channel_that_the_app_is_not_in_is_an_open_hole_but_for_what_was_read() {
    let mut told = ChannelCase {
        last: Some(90),
        gaps: vec![gap(Reason::Downtime, None, 20, Some(30))],
        ..ChannelCase::default()
    };
    assert_eq!(told.lines(), ["0 - before_joining open"]);
    told.spans = vec![span(10, 40, SpanSource::Import)];
    assert_eq!(told.lines(), ["10 40 import", "0 10 before_joining missing", "40 - before_joining open"]);
}

#[test]
fn gaps_interrupt_what_is_held_live_and_history_closes_them() {
    let mut told =
        ChannelCase { created: Some(10), joined: Some(10), last: Some(90), ..ChannelCase::default() };
    told.gaps = vec![
        gap(Reason::Downtime, None, 20, Some(30)),
        gap(Reason::Left, Some("C2"), 35, Some(37)),
        gap(Reason::Left, Some("C1"), 40, Some(50)),
        gap(Reason::Dropped, Some("C1"), 60, Some(60)),
    ];
    let live = ["10 20 live", "30 40 live", "50 90 live"];
    let holes = ["20 30 downtime missing", "40 50 left missing", "60 60 dropped missing"];
    assert_eq!(told.lines(), [live, holes].concat());
    told.spans = vec![span(15, 45, SpanSource::History)];
    let expected = [
        "10 20 live",
        "15 45 history",
        "30 40 live",
        "50 90 live",
        "45 50 left missing",
        "60 60 dropped missing",
    ];
    assert_eq!(told.lines(), expected);
    told.spans.push(span(45, 61, SpanSource::History));
    assert_eq!(told.lines(), ["10 20 live", "15 61 history", "30 40 live", "50 90 live"]);
    told.gaps.push(gap(Reason::Left, Some("C1"), 80, None));
    assert_eq!(told.lines()[3..], ["50 80 live", "80 - left open"]);
}

#[test]
fn a_channel_that_the_app_left_was_one_it_had_been_in() {
    let told = ChannelCase {
        last: Some(90),
        gaps: vec![gap(Reason::Left, Some("C1"), 40, None)],
        ..ChannelCase::default()
    };
    assert_eq!(told.lines(), ["0 40 before_joining missing", "40 - left open"]);
}

#[test]
fn what_the_plan_no_longer_shows_is_lost_and_the_rest_is_missing() {
    let gaps = vec![gap(Reason::Downtime, None, 20, Some(30))];
    let mut told =
        ChannelCase { joined: Some(15), last: Some(40), gaps, limit: Some(25), ..ChannelCase::default() };
    let live = ["15 20 live", "30 40 live"];
    assert_eq!(
        told.lines(),
        [&live[..], &["0 15 plan_limit lost", "20 25 downtime lost", "25 30 downtime missing"]].concat()
    );
    told.limit = Some(5);
    let holes = ["0 5 plan_limit lost", "5 15 before_joining missing", "20 30 downtime missing"];
    assert_eq!(told.lines(), [&live[..], &holes].concat());
}

#[test]
fn time_between_the_last_event_and_what_was_read_later_is_a_hole() {
    let spans = vec![span(70, 80, SpanSource::Import)];
    let told =
        ChannelCase { created: Some(10), joined: Some(10), last: Some(50), spans, ..ChannelCase::default() };
    let holes = told.known(|known| known.holes());
    assert_eq!(holes.len(), 1);
    assert_eq!((holes[0].reason, holes[0].state), (HoleReason::Gap(Reason::Downtime), GapState::Missing));
    assert_eq!((holes[0].from.as_str(), holes[0].to.as_ref().unwrap().as_str()), ("50.000001", "70.000000"));
}

#[test]
fn a_changed_history_is_a_hole_in_what_is_held() {
    let changed = Gap { told: Some(ts(60)), ..gap(Reason::HistoryChanged, Some("C1"), 0, Some(30)) };
    let mut told = ChannelCase {
        created: Some(10),
        joined: Some(10),
        last: Some(90),
        gaps: vec![changed],
        ..ChannelCase::default()
    };
    assert_eq!(told.lines(), ["10 90 live", "0 30 history_changed missing"]);
    told.spans = vec![span(0, 61, SpanSource::History)];
    assert_eq!(told.lines(), ["0 61 history", "10 90 live"]);
}

proptest! {
    /// Every moment from the channel's beginning to the last that is known of is held or in a hole, and with gaps that
    /// interrupt nothing but events, never both.
    #[test]
    fn every_moment_is_held_or_in_a_hole(
        created in prop::option::of(0_i64..50),
        joined in prop::option::of(0_i64..60),
        last in prop::option::of(0_i64..90),
        gaps in prop::collection::vec((0_i64..80, 1_i64..20, any::<bool>()), 0..5),
        spans in prop::collection::vec((0_i64..80, 1_i64..20, any::<bool>()), 0..5),
        limit in prop::option::of(0_i64..90),
    ) {
        let gaps = gaps.iter().map(|(from, length, is_left)| {
            let (reason, id) = if *is_left { (Reason::Left, Some("C1")) } else { (Reason::Downtime, None) };
            gap(reason, id, *from, Some(from + length))
        });
        let spans = spans.iter().map(|(from, length, is_import)| {
            span(*from, from + length, if *is_import { SpanSource::Import } else { SpanSource::History })
        });
        let told = ChannelCase { created, joined, last, gaps: gaps.collect(), spans: spans.collect(), limit };
        let (held, holes) = told.known(|known| (known.held(), known.holes()));
        // Half a second later: the last event belongs to what is held.
        let moment = |second: i64| Ts::parse(&format!("{second}.500000")).unwrap();
        let is_held =
            |second: i64| held.iter().any(|span| span.from <= moment(second) && moment(second) < span.to);
        let in_hole = |second: i64| {
            let is_before = |to: &Ts| moment(second) < *to;
            holes.iter().any(|hole| hole.from <= moment(second) && hole.to.as_ref().is_none_or(is_before))
        };
        let end = held.iter().map(|span| span.to.micros() / 1_000_000).max().unwrap_or_default();
        for second in 0..100 {
            prop_assert!(!(is_held(second) && in_hole(second)), "{} {:?} {:?}", second, held, holes);
            if second >= created.unwrap_or_default() && second < end {
                prop_assert!(is_held(second) || in_hole(second), "{} {:?} {:?}", second, held, holes);
            }
        }
        prop_assert!(holes.iter().all(|hole| hole.state != GapState::Filled));
    }

    /// A time that no hole touches as far as is known stays without one, whatever else becomes known of the channel.
    #[test]
    fn what_becomes_known_of_a_channel_makes_no_hole(
        created in prop::option::of(0_i64..50),
        joined in prop::option::of(0_i64..60),
        last in (0_i64..90, 0_i64..90),
        gaps in prop::collection::vec((0_i64..80, 0_i64..20, 0..5_usize), 0..5),
        spans in prop::collection::vec((0_i64..80, 1_i64..40), 0..5),
        limit in prop::option::of(0_i64..90),
        within in (0_i64..90, 1_i64..20),
    ) {
        let gaps = gaps.iter().map(|(from, length, kind)| {
            let of = |reason, id, to| gap(reason, id, *from, to);
            match kind {
                0 => of(Reason::Left, Some("C1"), Some(from + length)),
                1 => of(Reason::Left, Some("C1"), None),
                2 => of(Reason::Dropped, Some("C1"), Some(*from)),
                3 => Gap { told: Some(ts(60)), ..of(Reason::HistoryChanged, Some("C1"), Some(from + length)) },
                _ => of(Reason::Downtime, None, Some(from + length)),
            }
        });
        let spans = spans.iter().map(|(from, length)| span(*from, from + length, SpanSource::Import));
        let mut told = ChannelCase { gaps: gaps.collect(), spans: spans.collect(), limit, ..ChannelCase::default() };
        let second = |second: i64| ts(second).micros();
        let within = Interval { from: second(within.0), to: second(within.0 + within.1) };
        let mut is_whole = false;
        let (earlier, later) = (last.0.min(last.1), last.0.max(last.1));
        for (created, joined, last) in [(None, None, earlier), (None, joined, earlier), (created, joined, later)] {
            (told.created, told.joined, told.last) = (created, joined, Some(last));
            let has_hole = told.known(|known| known.has_hole_in(within));
            prop_assert!(!(is_whole && has_hole), "{:?} {:?} {}", created, joined, last);
            is_whole |= !has_hole;
        }
    }
}
