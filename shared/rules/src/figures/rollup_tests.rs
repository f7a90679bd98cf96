use ports::queue::job::{Job, Payload};
use serde_json::json;

use super::*;

fn day(text: &str) -> ChannelDay {
    ChannelDay {
        team: TeamId::parse("T1").unwrap(),
        channel: ChannelId::parse("C1").unwrap(),
        day: RollupDay::parse(text).unwrap(),
    }
}

fn applied(update: &Update, row: Option<&Item>) -> Option<Item> {
    let attributes = update.apply(row.map(|row| &row.attributes))?;
    Some(Item { key: update.key.clone(), attributes })
}

#[test]
fn a_day_is_sent_as_one_job_within_a_minute() {
    let job = DayJob(day("2026-11-20"));
    let [first, same, later] = [60_000, 119_999, 120_000].map(|ms| job.outgoing(TimestampMs(ms)));
    assert_eq!((first.queue, first.group.as_str()), (QueueName::Stats, "T1#C1#2026-11-20"));
    assert!(first.dedup == same.dedup && first.dedup != later.dedup);
    assert_eq!(first.body, r#"{"v":1,"stats":{"team":"T1","channel":"C1","day":"2026-11-20"}}"#);
    let Payload::Stats(raw) = Job::decode(&first.body).unwrap().payload else { panic!("{first:?}") };
    assert_eq!(DayJob::decode(raw), Ok(job));
    for body in [
        json!({}),
        json!({ "team": "T1", "channel": "C1", "day": "2026-11-31" }),
        json!({ "team": "T1", "channel": "C1", "day": "1999-01-01" }),
        json!({ "team": "T1", "channel": "c#", "day": "2026-11-20" }),
    ] {
        let raw = RawValue::from_string(body.to_string()).unwrap();
        assert!(DayJob::decode(&raw).is_err(), "{body}");
    }
}

#[test]
fn a_day_closes_two_days_later_and_its_bounds_enclose_its_messages() {
    let closed = |text: &str| {
        let now = text.parse::<Timestamp>().unwrap().as_millisecond();
        RollupDay::closed_at(TimestampMs(now)).map(RollupDay::text)
    };
    assert_eq!(closed("2026-11-22T00:00:00Z").as_deref(), Some("2026-11-20"));
    assert_eq!(closed("2026-11-21T23:59:59Z").as_deref(), Some("2026-11-19"));
    assert_eq!(closed("1970-01-01T00:00:00Z"), None);
    let day = RollupDay::parse("2026-11-20").unwrap();
    let next = day.next().unwrap();
    for (ts, within) in [
        ("1795132799.999999", false),
        ("1795132800.000000", true),
        ("1795219199.999999", true),
        ("1795219200.000000", false),
    ] {
        assert_eq!(day.bound().as_str() < ts && ts < next.bound().as_str(), within, "{ts}");
        assert_eq!(RollupDay::from_ts(&Ts::parse(ts).unwrap()) == Some(day), within, "{ts}");
    }
}

#[test]
fn a_change_after_a_count_began_is_counted_too() {
    let day = day("2026-11-20");
    let due = applied(&day.request_count(None, None, TimestampMs(1)), None).unwrap();
    let changed = applied(&day.request_count(Some(&due), None, TimestampMs(2)), Some(&due)).unwrap();
    assert_ne!(due, changed, "a worker that read the row before must not delete it");
    // Two requests at once: the second writer is rejected and reads again.
    assert_eq!(applied(&day.request_count(Some(&due), None, TimestampMs(3)), Some(&changed)), None);
    let figures = DayFigures { files: 1, ..DayFigures::default() };
    let rollup = applied(&day.rollup(&changed, &figures), None).unwrap();
    assert_eq!(super::figures(&rollup), Some(figures));
    // A late count for the earlier request changes nothing.
    assert_eq!(applied(&day.rollup(&due, &DayFigures::default()), Some(&rollup)), None);
    // After the row was deleted, a new request still has a greater number.
    let again = applied(&day.request_count(None, Some(&rollup), TimestampMs(4)), None).unwrap();
    assert!(applied(&day.rollup(&again, &DayFigures::default()), Some(&rollup)).is_some());
    assert_eq!(super::figures(&applied(&without_figures(&rollup), Some(&rollup)).unwrap()), None);
}

#[test]
fn the_first_post_is_the_earliest_unless_it_was_erased() {
    let user = UserId::parse("U1").unwrap();
    let at = |text: &str, ts: &str| day(text).first_post(&user, &Ts::parse(ts).unwrap());
    let later = applied(&at("2026-11-20", "1795132800.000200"), None).unwrap();
    let first = applied(&at("2026-11-19", "1795046400.000100"), Some(&later)).unwrap();
    assert_eq!(applied(&at("2026-11-20", "1795132800.000200"), Some(&first)), None);
    let expected = (ChannelId::parse("C1").unwrap(), Ts::parse("1795046400.000100").unwrap());
    assert_eq!(first_post(&first), Some(expected));
    let unsure = applied(&unsure_first_post(&first), Some(&first)).unwrap();
    assert_eq!(first_post(&unsure), None);
    assert_eq!(applied(&at("2026-11-20", "1795132800.000200"), Some(&unsure)), None, "it is not set again");
    assert!(!format!("{unsure:?}").contains("1795046400"), "{unsure:?}");
}
