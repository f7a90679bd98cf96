use proptest::prelude::*;

use super::*;
use crate::filled::SpanSource;

const CHANNELS: [&str; 3] = ["C1", "C2", "C3"];
const NOW_S: i64 = 1_000;

fn ts(second: i64) -> Ts {
    Ts::parse(&format!("{second}.000000")).unwrap()
}

fn channel(id: &str) -> ChannelId {
    ChannelId::parse(id).unwrap()
}

fn span(id: &str, from: i64, to: i64) -> FilledSpan {
    FilledSpan { channel: channel(id), from: ts(from), to: ts(to), source: SpanSource::History }
}

fn unreadable(id: &str, from: i64, reason: UnreadableReason) -> UnreadableBefore {
    let asked = (reason != UnreadableReason::PlanLimit).then(|| ts(NOW_S - 1));
    UnreadableBefore { channel: channel(id), from: ts(from), reason, asked }
}

fn gap(reason: Reason, id: Option<&str>, from: i64, to: Option<i64>) -> Gap {
    Gap { from: ts(from), to: to.map(ts), channel: id.map(channel), reason, told: None }
}

fn facts(spans: &[FilledSpan], unreadables: &[UnreadableBefore]) -> HistoryFacts {
    HistoryFacts::new(spans, unreadables, CHANNELS.map(channel))
}

#[test]
fn a_gap_of_one_channel_is_filled_by_spans_that_cover_it_together() {
    let left = gap(Reason::Left, Some("C1"), 10, Some(30));
    let state = |spans: &[FilledSpan]| facts(spans, &[]).state(&left);
    assert_eq!(state(&[]), (GapState::Missing, None));
    assert_eq!(state(&[span("C1", 10, 20), span("C1", 20, 30)]), (GapState::Filled, None));
    assert_eq!(state(&[span("C1", 10, 20), span("C1", 21, 30)]), (GapState::Missing, None));
    assert_eq!(state(&[span("C1", 10, 20), span("C2", 20, 30)]), (GapState::Missing, None));
    assert_eq!(state(&[span("C1", 0, 900)]), (GapState::Filled, None));
    let open = gap(Reason::Left, Some("C1"), 10, None);
    assert_eq!(facts(&[span("C1", 0, 900)], &[]).state(&open), (GapState::Open, None));
}

#[test]
fn a_gap_of_all_channels_is_filled_if_it_is_in_each_that_was_there() {
    let down = gap(Reason::Downtime, None, 10, Some(30));
    let covered = |ids: &[&str]| ids.iter().map(|id| span(id, 5, 40)).collect::<Vec<_>>();
    assert_eq!(facts(&[], &[]).state(&down), (GapState::Missing, Some(3)));
    assert_eq!(facts(&covered(&["C1", "C3"]), &[]).state(&down), (GapState::Missing, Some(1)));
    assert_eq!(facts(&covered(&CHANNELS), &[]).state(&down), (GapState::Filled, Some(0)));
    let mut facts = facts(&covered(&["C1", "C3"]), &[]);
    facts.created(&channel("C2"), ts(30));
    assert_eq!(facts.state(&down), (GapState::Missing, Some(1)));
    facts.created(&channel("C2"), ts(31));
    assert_eq!(facts.state(&down), (GapState::Filled, Some(0)));
    // While it goes on, it may be about every channel.
    let revoked = gap(Reason::Revoked, None, 10, None);
    assert_eq!(facts.state(&revoked), (GapState::Open, Some(3)));
    facts.leave_out(&channel("C2"));
    assert_eq!(facts.state(&revoked), (GapState::Open, Some(2)));
    // Without any channel nothing can have been read.
    assert_eq!(HistoryFacts::default().state(&down), (GapState::Missing, Some(0)));
}

#[test]
fn what_the_plan_no_longer_shows_is_lost_unless_it_was_read_elsewhere() {
    let left = gap(Reason::Left, Some("C1"), 10, Some(30));
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
    let down = gap(Reason::Downtime, None, 10, Some(30));
    let limited = facts(&[span("C1", 0, 90)], &[unreadable("C2", 15, UnreadableReason::PlanLimit)]);
    assert_eq!(limited.state(&down), (GapState::Lost, Some(2)));
    // What is still shown is read all the same.
    let wanted = limited.wanted(&[down], &ts(NOW_S), 9);
    let times: Vec<_> = wanted.iter().map(|span| (span.channel.as_str(), span.from.as_str())).collect();
    assert_eq!(times, [("C2", "15.000000"), ("C3", "10.000000")]);
}

#[test]
fn a_gap_that_may_miss_its_end_needs_a_span_that_reaches_beyond() {
    for (reason, covered) in [
        (Reason::Downtime, GapState::Filled),
        (Reason::RateLimited, GapState::Filled),
        (Reason::Left, GapState::Filled),
        (Reason::Refused, GapState::Missing),
        (Reason::Dropped, GapState::Missing),
    ] {
        let gap = gap(reason, Some("C1"), 10, Some(30));
        assert_eq!(facts(&[span("C1", 10, 30)], &[]).state(&gap).0, covered, "{reason:?}");
        assert_eq!(facts(&[span("C1", 10, 31)], &[]).state(&gap).0, GapState::Filled, "{reason:?}");
    }
    let dropped = gap(Reason::Dropped, Some("C1"), 10, Some(10));
    assert_eq!(facts(&[span("C1", 9, 10)], &[]).state(&dropped).0, GapState::Missing);
    assert_eq!(facts(&[span("C1", 9, 11)], &[]).state(&dropped).0, GapState::Filled);
    let wanted = facts(&[], &[]).wanted(&[dropped], &ts(NOW_S), 9);
    let expected = UnreadSpan {
        channel: channel("C1"),
        from: ts(10),
        to: Ts::parse("10.000001").unwrap(),
        reason: Reason::Dropped,
    };
    assert_eq!(wanted, [expected]);
}

#[test]
fn a_changed_history_is_filled_only_by_what_was_read_after_slack_told_of_it() {
    let changed = Gap { told: Some(ts(50)), ..gap(Reason::HistoryChanged, Some("C1"), 0, Some(30)) };
    let state = |spans: &[FilledSpan]| facts(spans, &[]).state(&changed).0;
    assert_eq!(state(&[span("C1", 0, 50)]), GapState::Missing);
    assert_eq!(state(&[span("C1", 20, 60), span("C1", 0, 20)]), GapState::Missing);
    assert_eq!(state(&[span("C1", 0, 51)]), GapState::Filled);
    let wanted = facts(&[span("C1", 20, 60)], &[]).wanted(std::slice::from_ref(&changed), &ts(NOW_S), 9);
    assert_eq!((wanted[0].from.as_str(), wanted[0].to.as_str()), ("0.000000", "50.000001"));
    // Its end is not in the future, even for a clock that is behind Slack's.
    assert_eq!(facts(&[], &[]).wanted(&[changed], &ts(49), 9), []);
}

#[test]
fn nothing_is_asked_that_slack_would_refuse() {
    let down = gap(Reason::Downtime, None, 10, Some(30));
    let ids = |facts: &HistoryFacts, gaps: &[Gap]| {
        let wanted = facts.wanted(gaps, &ts(NOW_S), 9);
        wanted.iter().map(|span| span.channel.to_string()).collect::<Vec<_>>()
    };
    let refused = facts(&[], &[unreadable("C2", 30, UnreadableReason::NotInChannel)]);
    assert!(refused.is_refused(&channel("C2"), UnreadableReason::NotInChannel));
    assert_eq!(ids(&refused, std::slice::from_ref(&down)), ["C1", "C3"]);
    // A later gap is asked for again: the app may have joined since.
    let later = gap(Reason::Downtime, None, 40, Some(50));
    assert_eq!(ids(&refused, &[later]), ["C1", "C2", "C3"]);
    // The app is out of the channel, and then of the workspace.
    let left = gap(Reason::Left, Some("C3"), 40, None);
    assert_eq!(ids(&facts(&[], &[]), &[down.clone(), left]), ["C1", "C2"]);
    let revoked = gap(Reason::Revoked, None, 40, None);
    assert_eq!(ids(&facts(&[], &[]), &[down.clone(), revoked]), Vec::<String>::new());
    assert_eq!(facts(&[], &[]).wanted(&[down], &ts(29), 9), []);
}

#[test]
fn what_slack_refused_is_asked_for_again_after_a_day_or_once_the_app_is_let_in() {
    const DAY_S: i64 = 86_400;
    let downs = [gap(Reason::Downtime, None, 10, Some(30)), gap(Reason::Downtime, None, 40, Some(50))];
    let asked = |facts: &HistoryFacts, now| {
        let wanted = facts.wanted(&downs, &ts(now), 9);
        let of_one = wanted.iter().filter(|span| span.channel.as_str() == "C1");
        of_one.map(|span| span.to.micros() / 1_000_000).collect::<Vec<_>>()
    };
    for (reason, is_let_in) in [
        (UnreadableReason::NotInChannel, true),
        (UnreadableReason::NotFound, true),
        (UnreadableReason::MissingScope, false),
    ] {
        let mut facts = facts(&[], &[unreadable("C1", 50, reason)]);
        assert_eq!(asked(&facts, NOW_S), Vec::<i64>::new(), "{reason:?}");
        assert_eq!(asked(&facts, NOW_S + DAY_S - 2), Vec::<i64>::new(), "{reason:?}");
        assert_eq!(asked(&facts, NOW_S + DAY_S - 1), [50, 30], "{reason:?}");
        let not_let_in = if is_let_in { vec![(channel("C1"), ts(NOW_S - 1))] } else { vec![] };
        assert_eq!(facts.not_let_in(), not_let_in, "{reason:?}");
        facts.let_in(&channel("C1"));
        assert_eq!(asked(&facts, NOW_S).is_empty(), !is_let_in, "{reason:?}");
    }
    let mut earlier = unreadable("C1", 50, UnreadableReason::MissingScope);
    earlier.asked = None;
    // This version asks once, and notes when.
    assert_eq!(asked(&facts(&[], &[earlier]), DAY_S), [50, 30]);
}

#[test]
fn one_channel_comes_after_the_other() {
    let gaps = [
        gap(Reason::Left, Some("C1"), 10, Some(20)),
        gap(Reason::Left, Some("C1"), 30, Some(40)),
        gap(Reason::Left, Some("C1"), 50, Some(60)),
        gap(Reason::Left, Some("C2"), 50, Some(60)),
        // The same end, and it begins before.
        gap(Reason::Downtime, Some("C2"), 45, Some(60)),
    ];
    let wanted = facts(&[], &[]).wanted(&gaps, &ts(NOW_S), 3);
    let told: Vec<_> = wanted.iter().map(|span| (span.channel.as_str(), span.from.as_str())).collect();
    assert_eq!(told, [("C1", "50.000000"), ("C2", "45.000000"), ("C1", "30.000000")]);
}

fn any_gap() -> impl Strategy<Value = Gap> {
    let reason = prop::sample::select(Reason::ALL.to_vec());
    (reason, prop::option::of(0_usize..3), 0_i64..60, prop::option::weighted(0.9, 0_i64..40), 0_i64..20)
        .prop_map(|(reason, place, from, length, told)| {
            let to = length.map(|length| from + length);
            let told = to.filter(|_| reason == Reason::HistoryChanged).map(|to| ts(to + told));
            Gap { told, ..gap(reason, place.map(|place| CHANNELS[place]), from, to) }
        })
}

proptest! {
    /// Gaps, and spans that were read before; some of Slack's answers are limited or refused.
    #[test]
    fn reading_what_is_wanted_fills_every_gap_that_slack_shows(
        gaps in prop::collection::vec(any_gap(), 0..12),
        spans in prop::collection::vec((0_usize..3, 0_i64..100, 0_i64..40), 0..12),
        limits in prop::collection::vec((0_usize..3, 0_i64..60), 0..2),
        refusals in prop::collection::vec((0_usize..3, 0_i64..60), 0..2),
        limit in 1_usize..5,
        seed in any::<u64>(),
    ) {
        let mut spans: Vec<FilledSpan> =
            spans.iter().map(|(place, from, length)| span(CHANNELS[*place], *from, from + length)).collect();
        let fact = |reason| move |(place, from): &(usize, i64)| unreadable(CHANNELS[*place], *from, reason);
        let mut unreadables: Vec<UnreadableBefore> = limits.iter().map(fact(UnreadableReason::PlanLimit)).collect();
        unreadables.extend(refusals.iter().map(fact(UnreadableReason::MissingScope)));
        for turn in 0.. {
            prop_assert!(turn < 200, "it never ends");
            let wanted = facts(&spans, &unreadables).wanted(&gaps, &ts(NOW_S), limit);
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
        let revoked = gaps.iter().any(|gap| gap.to.is_none() && gap.reason == Reason::Revoked);
        for gap in &gaps {
            let (state, channels_left) = known.state(gap);
            prop_assert_eq!(state == GapState::Open, gap.to.is_none());
            prop_assert_eq!(channels_left.is_some(), gap.channel.is_none());
            if state == GapState::Missing && !revoked {
                prop_assert!(known.lacking(gap).into_iter().any(blocked), "{:?}", gap);
            }
            // A limit alone makes it lost, never missing for ever.
            if state == GapState::Missing && !revoked && refusals.is_empty() {
                let has_left = |channel: &ChannelId| {
                    gaps.iter().any(|gap| gap.to.is_none() && gap.channel.as_ref() == Some(channel))
                };
                prop_assert!(known.lacking(gap).into_iter().any(has_left), "{:?}", gap);
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
