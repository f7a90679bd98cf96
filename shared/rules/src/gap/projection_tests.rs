use proptest::prelude::*;
use proptest::sample::subsequence;

use super::super::closing::{GapState, HistoryFacts};
use super::*;
use crate::Change;
use crate::fixture::{gap, ts, with_event};

fn run(first: i64, last: i64) -> RunSpan {
    RunSpan { first: ts(first), last: ts(last) }
}

fn downtime(from: i64, to: i64) -> Gap {
    gap(GapReason::Downtime, None, from, Some(to))
}

/// The state of a gap if no history was read.
fn state(gap: &Gap) -> GapState {
    HistoryFacts::default().state(gap).0
}

#[test]
fn downtime_is_the_time_that_no_run_covers() {
    assert_eq!(downtime_between(vec![]), []);
    assert_eq!(downtime_between(vec![run(10, 90)]), []);
    assert_eq!(downtime_between(vec![run(10, 20), run(23, 30)]), [downtime(20, 23)]);
    // The third run accepted events all the time.
    assert_eq!(downtime_between(vec![run(10, 20), run(23, 30), run(12, 28)]), []);
    // Both were down from 28 to 40.
    assert_eq!(downtime_between(vec![run(10, 20), run(12, 28), run(40, 50)]), [downtime(28, 40)]);
    // The second one accepted a single event.
    assert_eq!(
        downtime_between(vec![run(10, 20), run(25, 25), run(30, 40)]),
        [downtime(20, 25), downtime(25, 30)]
    );
    // The next one continued where the last one stopped.
    assert_eq!(downtime_between(vec![run(10, 20), run(20, 30)]), []);
}

#[test]
fn a_gap_ends_with_the_first_sign_after_its_beginning() {
    let left = || gap(GapReason::Left, Some("C1"), 50, None);
    assert_eq!(state(&end_gap(left(), [])), GapState::Open);
    assert_eq!(end_gap(left(), [ts(40), ts(50)]).to, None);
    let closed = end_gap(left(), [ts(90), ts(40), ts(60)]);
    assert_eq!((closed.to.clone(), state(&closed)), (Some(ts(60)), GapState::Missing));
    // A sign that arrives late can only move the end forward.
    assert_eq!(end_gap(closed.clone(), [ts(70)]), closed);
}

#[test]
fn a_gap_has_no_part_in_which_the_channel_was_archived_or_deleted() {
    let row = |second: i64, flag: Option<&str>| {
        let attributes = flag.map(|flag| (flag.to_owned(), true.into())).into_iter().collect();
        Item { key: ports::archive::ItemKey::new("channel#T1#C1", ts(second).as_str()), attributes }
    };
    let archived = |second| row(second, Some("archived"));
    let open = |second| row(second, None);
    let parts = |rows: &[Item], from: i64, to: Option<i64>| -> Vec<(Ts, Option<Ts>)> {
        let gap = gap(GapReason::Left, Some("C1"), from, to);
        outside(gap, &closed_times(rows)).into_iter().map(|gap| (gap.from, gap.to)).collect()
    };
    let span = |from: i64, to: Option<i64>| (ts(from), to.map(ts));
    let once = [open(10), archived(60), row(70, Some("deleted"))];
    assert_eq!(parts(&once, 50, None), [span(50, Some(60))], "the app left, then the channel was archived");
    assert_eq!(parts(&once, 60, None), []);
    assert_eq!(parts(&once, 65, None), [], "the channel was archived, then the app left");
    assert_eq!(parts(&once, 20, Some(40)), [span(20, Some(40))]);
    let again = [open(90), archived(60), open(80), archived(100), open(10)];
    assert_eq!(parts(&again, 50, None), [span(50, Some(60)), span(80, Some(100))]);
    assert_eq!(parts(&again, 65, Some(85)), [span(80, Some(85))]);
    assert_eq!(parts(&again, 62, Some(80)), []);
    assert_eq!(parts(&[open(10)], 50, None), [span(50, None)]);
    assert_eq!(parts(&[], 50, None), [span(50, None)]);
}

#[test]
fn gaps_that_one_sign_ended_are_one_gap_and_each_lost_minute_is_its_own() {
    let minute = |from| gap(GapReason::RateLimited, None, from, Some(from + 60));
    let closed = |from| gap(GapReason::Left, Some("C1"), from, Some(99));
    let shown = oldest_first(vec![
        gap(GapReason::Revoked, None, 71, None),
        minute(60),
        closed(30),
        gap(GapReason::Revoked, None, 70, None),
        closed(20),
        gap(GapReason::Left, Some("C2"), 20, None),
        minute(120),
    ]);
    let expected = [
        gap(GapReason::Left, Some("C2"), 20, None),
        closed(20),
        minute(60),
        gap(GapReason::Revoked, None, 70, None),
        minute(120),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn refused_requests_that_follow_each_other_are_one_gap_in_any_order() {
    let refused = |from, to| gap(GapReason::Refused, None, from, Some(to));
    let changed = |channel, to| gap(GapReason::HistoryChanged, Some(channel), 0, Some(to));
    let mut gaps = vec![
        refused(100, 100),
        refused(220, 250),
        refused(200, 300),
        refused(421, 421),
        changed("C1", 90),
        changed("C1", 70),
        changed("C2", 80),
    ];
    let expected = [changed("C2", 80), changed("C1", 90), refused(100, 300), refused(421, 421)];
    for turn in 0..gaps.len() {
        gaps.rotate_left(1);
        assert_eq!(oldest_first(gaps.clone()), expected, "{turn}");
    }
}

#[test]
fn a_migration_lasts_from_its_start_to_its_finish_and_either_may_be_missing() {
    const DAY: i64 = 86_400;
    let fact = |(kind, second): (&str, i64)| {
        let event = format!(r#"{{"type":"grid_migration_{kind}","event_ts":"{second}.000000"}}"#);
        let update = with_event(event, crate::gap::facts).unwrap().pop().unwrap();
        Item { key: update.key.clone(), attributes: update.apply(None).unwrap() }
    };
    let migration = |from, to| gap(GapReason::Migration, None, from, to);
    let (start, end) = (10 * DAY, 11 * DAY);
    for (events, expected) in [
        (vec![("started", start), ("finished", end)], vec![migration(start, Some(end))]),
        (vec![("finished", end), ("started", start), ("finished", end)], vec![migration(start, Some(end))]),
        // A doubled start is the same gap; the first finish ends it.
        (
            vec![("started", start), ("started", start + 5), ("finished", end), ("finished", end + 5)],
            vec![migration(start, Some(end))],
        ),
        (vec![("started", start)], vec![migration(start, None)]),
        (vec![("finished", end)], vec![migration(8 * DAY, Some(end))]),
        (vec![("finished", DAY)], vec![migration(0, Some(DAY))]),
        // The finish of a later migration does not end this one.
        (
            vec![("started", start), ("started", 90 * DAY), ("finished", 91 * DAY)],
            vec![migration(start, None), migration(90 * DAY, Some(91 * DAY))],
        ),
        (vec![], vec![]),
    ] {
        let mut rows: Vec<Item> = events.iter().copied().map(fact).collect();
        for _ in 0..rows.len().max(1) {
            assert_eq!(oldest_first(migrations(&rows)), expected, "{events:?}");
            rows.reverse();
        }
    }
    assert_eq!(surely_migrated(&ts(start)), ts(13 * DAY));
}

#[test]
fn only_a_message_that_came_with_its_post_proves_that_the_app_was_in_the_channel() {
    let posted = |event: &str| {
        let changes = with_event(event, |event| event.changes()).unwrap();
        let update = match &changes[0] {
            Change::Content(content) => content.if_absent().clone(),
            Change::Register(update) => update.clone(),
        };
        let attributes = update.apply(None).unwrap();
        posted_at(&Item { key: update.key, attributes })
    };
    let plain = r#"{"type":"message","channel":"C1","ts":"1700000005.000000","text":"a"}"#;
    assert_eq!(posted(plain), Some(ts(1_700_000_005)));
    let with_clock = r#"{"type":"message","channel":"C1","ts":"1700000005.000000","event_ts":"1700000005.000000","text":"a"}"#;
    assert_eq!(posted(with_clock), Some(ts(1_700_000_005)));
    for other in [
        r#"{"type":"message","subtype":"message_changed","channel":"C1","event_ts":"1700000009.000000",
            "message":{"ts":"1700000005.000000","text":"b","edited":{"ts":"1700000009.000000"}}}"#,
        r#"{"type":"message","subtype":"message_changed","channel":"C1","event_ts":"1700000009.000000",
            "message":{"ts":"1700000005.000000","text":"unfurled"}}"#,
        r#"{"type":"message","subtype":"message_replied","channel":"C1","event_ts":"1700000009.000000",
            "message":{"ts":"1700000005.000000","text":"root"}}"#,
        r#"{"type":"message","subtype":"message_deleted","channel":"C1","event_ts":"1700000009.000000",
            "deleted_ts":"1700000005.000000"}"#,
        r#"{"type":"reaction_added","user":"U1","reaction":"x","event_ts":"1700000009.000000",
            "item":{"type":"message","channel":"C1","ts":"1700000005.000000"}}"#,
    ] {
        assert_eq!(posted(other), None, "{other}");
    }
}

proptest! {
    /// Runs of ingest in any order, some of them repeated.
    #[test]
    fn any_order_of_runs_gives_the_same_gaps_and_no_event_lies_in_one(
        runs in prop::collection::vec((0_i64..1_000, 0_i64..60), 1..20),
        again in subsequence((0..20_usize).collect::<Vec<_>>(), 0..20),
        seed in any::<u64>(),
    ) {
        let seen: Vec<RunSpan> = runs.iter().map(|(first, length)| run(*first, first + length)).collect();
        let gaps = downtime_between(seen.clone());
        let mut shuffled: Vec<RunSpan> =
            seen.iter().chain(again.iter().filter_map(|index| seen.get(*index))).cloned().collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
        prop_assert_eq!(&downtime_between(shuffled), &gaps);
        for Gap { from, to, .. } in &gaps {
            let to = to.as_ref().unwrap();
            prop_assert!(from < to);
            prop_assert!(seen.iter().all(|run| run.last <= *from || run.first >= *to));
            prop_assert!(seen.iter().any(|run| run.last == *from) && seen.iter().any(|run| run.first == *to));
        }
        // Together, runs and gaps cover everything from the first event to the last.
        let covered = |second: i64| {
            seen.iter().any(|run| run.first <= ts(second) && ts(second) <= run.last)
                || gaps.iter().any(|gap| gap.from <= ts(second) && Some(ts(second)) <= gap.to)
        };
        let (first, last) = (seen.iter().map(|run| &run.first).min(), seen.iter().map(|run| &run.last).max());
        prop_assert!((0..1_060).filter(|s| Some(&ts(*s)) >= first && Some(&ts(*s)) <= last).all(covered));
    }

    /// The app leaves and joins a channel; the facts come in any order.
    #[test]
    fn any_order_of_facts_gives_the_same_list(
        left in prop::collection::vec(0_i64..100, 0..6),
        joined in prop::collection::vec(0_i64..100, 0..6),
        seed in any::<u64>(),
    ) {
        let shown = |left: &[i64], joined: &[i64]| {
            let signs = || joined.iter().map(|second| ts(*second));
            let gaps = left.iter().map(|from| end_gap(gap(GapReason::Left, Some("C1"), *from, None), signs()));
            oldest_first(gaps.collect())
        };
        let gaps = shown(&left, &joined);
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut left, mut joined) = (left, joined);
        random.shuffle(&mut left);
        random.shuffle(&mut joined);
        prop_assert_eq!(&shown(&left, &joined), &gaps);
        // At most one gap is open, and no gap contains a join.
        prop_assert!(gaps.iter().filter(|gap| gap.to.is_none()).count() <= 1);
        for gap in &gaps {
            let within = |second: &i64| ts(*second) > gap.from && gap.to.as_ref().is_none_or(|to| ts(*second) < *to);
            prop_assert!(!joined.iter().any(within));
        }
    }
}
