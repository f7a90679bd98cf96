use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fixture::{channel, team, ts};

fn span(from: i64, through: i64, is_whole: bool) -> ProvenSpan {
    ProvenSpan { from: ts(from), through: ts(through), at: ts(through + 5), is_whole, is_archived: false }
}

fn unproven() -> VerifiedChannel {
    VerifiedChannel::new(team(), channel("C1"))
}

/// The row after these updates.
fn row(updates: &[Update]) -> VerifiedChannel {
    let mut attributes = None;
    for update in updates {
        attributes = update.apply(attributes.as_ref()).or(attributes);
    }
    let item = Item { key: updates[0].key.clone(), attributes: attributes.unwrap_or_default() };
    VerifiedChannel::read(&team(), &item).unwrap()
}

#[test]
fn the_later_end_wins_and_then_the_earlier_start() {
    for (spans, expected) in [
        (vec![span(50, 100, false), span(20, 100, false)], span(20, 100, false)),
        (vec![span(20, 100, false), span(50, 100, false)], span(20, 100, false)),
        (vec![span(20, 100, true), span(20, 200, false)], span(20, 200, false)),
        (vec![span(0, 100, false), span(0, 100, true)], span(0, 100, true)),
        (vec![span(0, 100, true), span(90, 200, false)], span(90, 200, false)),
    ] {
        let updates: Vec<Update> = spans.iter().map(|span| unproven().prove(span)).collect();
        assert_eq!(row(&updates).proven, Some(expected), "{spans:?}");
    }
}

#[test]
fn the_counts_of_a_night_are_added_and_those_of_the_next_one_begin_again() {
    let found = |missing, error: Option<&str>| ProofCounts {
        missing,
        calls: 1,
        error: error.map(str::to_owned),
        ..ProofCounts::default()
    };
    let first = unproven().count(&ts(86_400), &found(2, None));
    let seen = row(std::slice::from_ref(&first));
    let second = seen.count(&ts(86_400), &found(3, Some("not_in_channel")));
    let both = row(&[first.clone(), second.clone(), first.clone()]);
    assert_eq!(both.found_in(&ts(86_400)), ProofCounts { calls: 2, ..found(5, Some("not_in_channel")) });
    assert!(both.failed_in(&ts(86_400)) && both.is_settled(&ts(86_400)) && !both.reaches(&ts(86_400)));
    let next = both.count(&ts(172_800), &found(1, None));
    let all = row(&[first, second, next]);
    assert_eq!(all.found_in(&ts(172_800)), found(1, None));
    assert_eq!((all.found_in(&ts(86_400)), all.since.clone()), (ProofCounts::default(), Some(ts(86_400))));
    assert_eq!(all.nights_behind(&ts(86_400 * 5)), 4);
    assert!(all.is_late(&ts(86_400 * 5)) && !all.is_late(&ts(86_400 * 4)));
    for (nights, is_late) in [(8, false), (9, true)] {
        let midnight = ts(86_400 * nights);
        let refused = row(&[all.count(&midnight, &found(0, Some("not_in_channel")))]);
        let refused = VerifiedChannel { since: all.since.clone(), ..refused };
        assert_eq!(refused.is_late(&midnight), is_late, "{nights}");
    }
}

#[test]
fn odd_rows_are_skipped_or_read_as_unproven() {
    let night = Item { key: night_key(&team()), attributes: Attributes::new() };
    assert_eq!(VerifiedChannel::read(&team(), &night), None);
    for attributes in [
        json!({}),
        json!({ "proven": [], "from": 3, "counted": null }),
        json!({ "proven": "soon#1#0", "from": "000000000001.000000", "at": "000000000001.000000", "counted": "1" }),
        json!({ "proven": "000000000009.000000", "from": "000000000001.000000", "at": "000000000001.000000" }),
        json!({ "counted": "000000000009.000000#first", "missing": "many" }),
    ] {
        let Value::Object(attributes) = attributes else { panic!("no object") };
        let item = Item { key: ItemKey::verified(&team(), "C1"), attributes };
        assert_eq!(VerifiedChannel::read(&team(), &item), Some(unproven()));
    }
}

#[test]
fn a_night_is_done_once_and_the_latest_stays() {
    let mut attributes = None;
    assert_eq!(last_night(None), None);
    for (night_ms, expected_ms) in [(5_000, 5_000), (1_000, 5_000), (7_000, 7_000)] {
        attributes = night_done(&team(), TimestampMs(night_ms)).apply(attributes.as_ref()).or(attributes);
        let item = Item { key: night_key(&team()), attributes: attributes.clone().unwrap() };
        assert_eq!(last_night(Some(&item)), Some(TimestampMs(expected_ms)));
    }
}

#[test]
fn a_turn_is_a_job_of_its_workspace_and_the_next_one_is_another() {
    use ports::queue::job::{Job, Payload};

    let job = NightJob {
        team: team(),
        night_ms: 1_000,
        sent_ms: 2_000,
        turn: 0,
        calls: 0,
        after: None,
        reached: None,
    };
    let next =
        NightJob { turn: 1, calls: 20, after: Some(channel("C1")), reached: Some(ts(5)), ..job.clone() };
    assert_eq!((job.outgoing().group.as_str(), job.outgoing().queue), ("T1", QueueName::Nightly));
    assert_ne!(job.outgoing().dedup, next.outgoing().dedup);
    for job in [job, next] {
        let body = job.outgoing().body;
        let Payload::Night(raw) = Job::decode(&body).unwrap().payload else { panic!("{body}") };
        assert_eq!(NightJob::decode(raw), Ok(job));
    }
    for body in [json!({}), json!([]), json!({ "team": "t", "night_ms": 1, "sent_ms": 1, "turn": 0 })] {
        assert!(NightJob::decode(&RawValue::from_string(body.to_string()).unwrap()).is_err(), "{body}");
    }
}

proptest! {
    /// Intervals, each written once or more, in any order.
    #[test]
    fn any_order_of_intervals_gives_the_same_row(
        spans in prop::collection::vec((0_i64..50, 50_i64..60, any::<bool>()), 1..12),
        seed in any::<u64>(),
    ) {
        let updates: Vec<Update> =
            spans.iter().map(|(from, through, whole)| unproven().prove(&span(*from, *through, *whole))).collect();
        let mut shuffled: Vec<Update> = updates.iter().chain(&updates).cloned().collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
        let proven = row(&updates).proven.unwrap();
        let other = row(&shuffled).proven;
        prop_assert_eq!(other.as_ref(), Some(&proven));
        let written = spans.iter().any(|(from, through, whole)| span(*from, *through, *whole) == proven);
        prop_assert!(written);
    }
}
