use proptest::prelude::*;

use super::*;
use crate::filled::SpanSource;
use crate::fixture::{channel, gap, ts};

const CHANNELS: [&str; 3] = ["C1", "C2", "C3"];
const NOW_S: i64 = 1_000;

fn span(id: &str, from: i64, to: i64) -> FilledSpan {
    FilledSpan { channel: channel(id), from: ts(from), to: ts(to), source: SpanSource::History }
}

fn unreadable(id: &str, from: i64, reason: UnreadableReason) -> UnreadableBefore {
    let asked = (reason != UnreadableReason::PlanLimit).then(|| ts(NOW_S - 1));
    UnreadableBefore { channel: channel(id), from: ts(from), reason, refused_at: asked }
}

fn facts(spans: &[FilledSpan], unreadables: &[UnreadableBefore]) -> HistoryFacts {
    HistoryFacts::new(spans, unreadables, CHANNELS.map(channel))
}

#[test]
fn a_gap_of_one_channel_is_filled_by_spans_that_cover_it_together() {
    let left = gap(GapReason::Left, Some("C1"), 10, Some(30));
    let state = |spans: &[FilledSpan]| facts(spans, &[]).state(&left);
    assert_eq!(state(&[]), (GapState::Missing, None));
    assert_eq!(state(&[span("C1", 10, 20), span("C1", 20, 30)]), (GapState::Filled, None));
    assert_eq!(state(&[span("C1", 10, 20), span("C1", 21, 30)]), (GapState::Missing, None));
    assert_eq!(state(&[span("C1", 10, 20), span("C2", 20, 30)]), (GapState::Missing, None));
    assert_eq!(state(&[span("C1", 0, 900)]), (GapState::Filled, None));
    let open = gap(GapReason::Left, Some("C1"), 10, None);
    assert_eq!(facts(&[span("C1", 0, 900)], &[]).state(&open), (GapState::Open, None));
}

#[test]
fn a_gap_of_all_channels_is_filled_if_it_is_filled_in_each_channel_that_existed() {
    let down = gap(GapReason::Downtime, None, 10, Some(30));
    let covered = |ids: &[&str]| ids.iter().map(|id| span(id, 5, 40)).collect::<Vec<_>>();
    assert_eq!(facts(&[], &[]).state(&down), (GapState::Missing, Some(3)));
    assert_eq!(facts(&covered(&["C1", "C3"]), &[]).state(&down), (GapState::Missing, Some(1)));
    assert_eq!(facts(&covered(&CHANNELS), &[]).state(&down), (GapState::Filled, Some(0)));
    let mut facts = facts(&covered(&["C1", "C3"]), &[]);
    facts.set_created(&channel("C2"), ts(30));
    assert_eq!(facts.state(&down), (GapState::Missing, Some(1)));
    facts.set_created(&channel("C2"), ts(31));
    assert_eq!(facts.state(&down), (GapState::Filled, Some(0)));
    // Until it ends, it may concern every channel.
    let revoked = gap(GapReason::Revoked, None, 10, None);
    assert_eq!(facts.state(&revoked), (GapState::Open, Some(3)));
    facts.exclude_channel(&channel("C2"));
    assert_eq!(facts.state(&revoked), (GapState::Open, Some(2)));
    // Without any channel no history can have been read.
    assert_eq!(HistoryFacts::default().state(&down), (GapState::Missing, Some(0)));
}

#[test]
fn history_that_the_plan_hides_is_lost_unless_it_was_read() {
    let left = gap(GapReason::Left, Some("C1"), 10, Some(30));
    let state = |spans: &[FilledSpan], before| {
        facts(spans, &[unreadable("C1", before, UnreadableReason::PlanLimit)]).state(&left).0
    };
    assert_eq!(state(&[], 10), GapState::Missing);
    assert_eq!(state(&[], 11), GapState::Lost);
    assert_eq!(state(&[span("C1", 20, 30)], 20), GapState::Lost);
    assert_eq!(state(&[span("C1", 10, 20)], 20), GapState::Missing);
    assert_eq!(state(&[span("C1", 10, 30)], 90), GapState::Filled);
    for reason in [UnreadableReason::NotInChannel, UnreadableReason::NotFound, UnreadableReason::MissingScope]
    {
        assert_eq!(facts(&[], &[unreadable("C1", 90, reason)]).state(&left).0, GapState::Missing);
    }
    let down = gap(GapReason::Downtime, None, 10, Some(30));
    let limited = facts(&[span("C1", 0, 90)], &[unreadable("C2", 15, UnreadableReason::PlanLimit)]);
    assert_eq!(limited.state(&down), (GapState::Lost, Some(2)));
    // The history that Slack still shows is read nevertheless.
    let wanted = limited.unread_spans(&[down], &ts(NOW_S), 9);
    let times: Vec<_> = wanted.iter().map(|span| (span.channel.as_str(), span.from.as_str())).collect();
    assert_eq!(times, [("C2", "15.000000"), ("C3", "10.000000")]);
}

#[test]
fn a_gap_that_may_miss_its_end_needs_a_span_that_reaches_beyond() {
    for (reason, covered) in [
        (GapReason::Downtime, GapState::Filled),
        (GapReason::RateLimited, GapState::Filled),
        (GapReason::Left, GapState::Filled),
        (GapReason::Refused, GapState::Missing),
        (GapReason::Dropped, GapState::Missing),
    ] {
        let gap = gap(reason, Some("C1"), 10, Some(30));
        assert_eq!(facts(&[span("C1", 10, 30)], &[]).state(&gap).0, covered, "{reason:?}");
        assert_eq!(facts(&[span("C1", 10, 31)], &[]).state(&gap).0, GapState::Filled, "{reason:?}");
    }
    let dropped = gap(GapReason::Dropped, Some("C1"), 10, Some(10));
    assert_eq!(facts(&[span("C1", 9, 10)], &[]).state(&dropped).0, GapState::Missing);
    assert_eq!(facts(&[span("C1", 9, 11)], &[]).state(&dropped).0, GapState::Filled);
    let wanted = facts(&[], &[]).unread_spans(&[dropped], &ts(NOW_S), 9);
    let expected = UnreadSpan {
        channel: channel("C1"),
        from: ts(10),
        to: Ts::parse("10.000001").unwrap(),
        reason: GapReason::Dropped,
    };
    assert_eq!(wanted, [expected]);
}

#[test]
fn a_changed_history_is_filled_only_by_spans_read_after_slack_reported_the_change() {
    let changed =
        Gap { reported_at: Some(ts(50)), ..gap(GapReason::HistoryChanged, Some("C1"), 0, Some(30)) };
    let state = |spans: &[FilledSpan]| facts(spans, &[]).state(&changed).0;
    assert_eq!(state(&[span("C1", 0, 50)]), GapState::Missing);
    assert_eq!(state(&[span("C1", 20, 60), span("C1", 0, 20)]), GapState::Missing);
    assert_eq!(state(&[span("C1", 0, 51)]), GapState::Filled);
    let wanted =
        facts(&[span("C1", 20, 60)], &[]).unread_spans(std::slice::from_ref(&changed), &ts(NOW_S), 9);
    assert_eq!((wanted[0].from.as_str(), wanted[0].to.as_str()), ("0.000000", "50.000001"));
    // Its end is not in the future, even for a clock that is behind Slack's.
    assert_eq!(facts(&[], &[]).unread_spans(&[changed], &ts(49), 9), []);
}

#[test]
fn history_that_slack_would_refuse_is_not_requested() {
    let down = gap(GapReason::Downtime, None, 10, Some(30));
    let ids = |facts: &HistoryFacts, gaps: &[Gap]| {
        let wanted = facts.unread_spans(gaps, &ts(NOW_S), 9);
        wanted.iter().map(|span| span.channel.to_string()).collect::<Vec<_>>()
    };
    let refused = facts(&[], &[unreadable("C2", 30, UnreadableReason::NotInChannel)]);
    assert!(refused.is_refused(&channel("C2"), UnreadableReason::NotInChannel));
    assert_eq!(ids(&refused, std::slice::from_ref(&down)), ["C1", "C3"]);
    // A later gap is requested: the app may have joined since.
    let later = gap(GapReason::Downtime, None, 40, Some(50));
    assert_eq!(ids(&refused, &[later]), ["C1", "C2", "C3"]);
    // The app left the channel, and then the workspace.
    let left = gap(GapReason::Left, Some("C3"), 40, None);
    assert_eq!(ids(&facts(&[], &[]), &[down.clone(), left]), ["C1", "C2"]);
    let revoked = gap(GapReason::Revoked, None, 40, None);
    assert_eq!(ids(&facts(&[], &[]), &[down.clone(), revoked]), Vec::<String>::new());
    assert_eq!(facts(&[], &[]).unread_spans(&[down], &ts(29), 9), []);
}

#[test]
fn refused_history_is_requested_again_after_a_day_or_once_the_app_has_joined() {
    const DAY_S: i64 = 86_400;
    let downs = [gap(GapReason::Downtime, None, 10, Some(30)), gap(GapReason::Downtime, None, 40, Some(50))];
    let requested = |facts: &HistoryFacts, now| {
        let wanted = facts.unread_spans(&downs, &ts(now), 9);
        let spans = wanted.iter().filter(|span| span.channel.as_str() == "C1");
        spans.map(|span| span.to.micros() / 1_000_000).collect::<Vec<_>>()
    };
    for (reason, is_let_in) in [
        (UnreadableReason::NotInChannel, true),
        (UnreadableReason::NotFound, true),
        (UnreadableReason::MissingScope, false),
    ] {
        let mut facts = facts(&[], &[unreadable("C1", 50, reason)]);
        assert_eq!(requested(&facts, NOW_S), Vec::<i64>::new(), "{reason:?}");
        assert_eq!(requested(&facts, NOW_S + DAY_S - 2), Vec::<i64>::new(), "{reason:?}");
        assert_eq!(requested(&facts, NOW_S + DAY_S - 1), [50, 30], "{reason:?}");
        let not_let_in = if is_let_in { vec![(channel("C1"), ts(NOW_S - 1))] } else { vec![] };
        assert_eq!(facts.channels_without_app(), not_let_in, "{reason:?}");
        facts.mark_joined(&channel("C1"));
        assert_eq!(requested(&facts, NOW_S).is_empty(), !is_let_in, "{reason:?}");
    }
    let mut earlier = unreadable("C1", 50, UnreadableReason::MissingScope);
    earlier.refused_at = None;
    // This version sends one request, and stores its time.
    assert_eq!(requested(&facts(&[], &[earlier]), DAY_S), [50, 30]);
}

#[test]
fn the_spans_to_read_alternate_between_channels() {
    let gaps = [
        gap(GapReason::Left, Some("C1"), 10, Some(20)),
        gap(GapReason::Left, Some("C1"), 30, Some(40)),
        gap(GapReason::Left, Some("C1"), 50, Some(60)),
        gap(GapReason::Left, Some("C2"), 50, Some(60)),
        // The same end, and it begins before.
        gap(GapReason::Downtime, Some("C2"), 45, Some(60)),
    ];
    let wanted = facts(&[], &[]).unread_spans(&gaps, &ts(NOW_S), 3);
    let spans: Vec<_> = wanted.iter().map(|span| (span.channel.as_str(), span.from.as_str())).collect();
    assert_eq!(spans, [("C1", "50.000000"), ("C2", "45.000000"), ("C1", "30.000000")]);
}

fn any_gap() -> impl Strategy<Value = Gap> {
    let reason = prop::sample::select(GapReason::ALL.to_vec());
    (reason, prop::option::of(0_usize..3), 0_i64..60, prop::option::weighted(0.9, 0_i64..40), 0_i64..20)
        .prop_map(|(reason, index, from, length, delay)| {
            let to = length.map(|length| from + length);
            let reported = to.filter(|_| reason == GapReason::HistoryChanged).map(|to| ts(to + delay));
            Gap { reported_at: reported, ..gap(reason, index.map(|index| CHANNELS[index]), from, to) }
        })
}

proptest! {
    /// Gaps, and spans that were read before; Slack limits or refuses some of the history.
    #[test]
    fn reading_the_wanted_spans_fills_every_gap_that_slack_shows(
        gaps in prop::collection::vec(any_gap(), 0..12),
        spans in prop::collection::vec((0_usize..3, 0_i64..100, 0_i64..40), 0..12),
        limits in prop::collection::vec((0_usize..3, 0_i64..60), 0..2),
        refusals in prop::collection::vec((0_usize..3, 0_i64..60), 0..2),
        limit in 1_usize..5,
        seed in any::<u64>(),
    ) {
        let mut spans: Vec<FilledSpan> =
            spans.iter().map(|(index, from, length)| span(CHANNELS[*index], *from, from + length)).collect();
        let fact = |reason| move |(index, from): &(usize, i64)| unreadable(CHANNELS[*index], *from, reason);
        let mut unreadables: Vec<UnreadableBefore> = limits.iter().map(fact(UnreadableReason::PlanLimit)).collect();
        unreadables.extend(refusals.iter().map(fact(UnreadableReason::MissingScope)));
        for turn in 0.. {
            prop_assert!(turn < 200, "it never ends");
            let wanted = facts(&spans, &unreadables).unread_spans(&gaps, &ts(NOW_S), limit);
            prop_assert!(wanted.len() <= limit);
            prop_assert!(wanted.iter().all(|span| span.from < span.to && span.to <= ts(NOW_S)));
            if wanted.is_empty() {
                break;
            }
            let read = |wanted: UnreadSpan| {
                let UnreadSpan { channel, from, to, .. } = wanted;
                FilledSpan { channel, from, to, source: SpanSource::History }
            };
            spans.extend(wanted.into_iter().map(read));
        }
        let known = facts(&spans, &unreadables);
        let blocked = |channel: &ChannelId| {
            let has_left = |gap: &Gap| gap.to.is_none() && gap.channel.as_ref() == Some(channel);
            gaps.iter().any(has_left) || unreadables.iter().any(|fact| fact.channel == *channel)
        };
        let revoked = gaps.iter().any(|gap| gap.to.is_none() && gap.reason == GapReason::Revoked);
        for gap in &gaps {
            let (state, channels_left) = known.state(gap);
            prop_assert_eq!(state == GapState::Open, gap.to.is_none());
            prop_assert_eq!(channels_left.is_some(), gap.channel.is_none());
            if state == GapState::Missing && !revoked {
                prop_assert!(known.lacking_channels(gap).into_iter().any(blocked), "{:?}", gap);
            }
            // A limit alone makes it lost, never missing forever.
            if state == GapState::Missing && !revoked && refusals.is_empty() {
                let has_left = |channel: &ChannelId| {
                    gaps.iter().any(|gap| gap.to.is_none() && gap.channel.as_ref() == Some(channel))
                };
                prop_assert!(known.lacking_channels(gap).into_iter().any(has_left), "{:?}", gap);
            }
        }
        // Any order of the facts gives the same states.
        let mut random = fastrand::Rng::with_seed(seed);
        random.shuffle(&mut spans);
        random.shuffle(&mut unreadables);
        let again = facts(&spans, &unreadables);
        for gap in &gaps {
            prop_assert_eq!(again.state(gap), known.state(gap));
        }
    }
}
