//! Stored reports: what makes them again, and what it costs to see that nothing does.

use jiff::Timestamp;
use ports::archive::{Archive, ArchiveExt, ItemKey};
use ports::clock::Clock;
use reader::figures::json;
use reader::figures::making::{ReportScope, ReportSources};
use reader::figures::period::Period;
use reader::figures::rollups::Rollups;
use rules::filled::{SpanSource, reached};
use serde_json::{Value, json};
use slack::ids::Ts;
use testkit::memory::watched::WatchedArchive;
use workers::runtime::Worker;
use workers::statistician::store_report;

use super::fixture::{CHANNELS, StatisticianFixture, channel, team};

const DAY: i64 = 86_400;
/// Monday of 2026-W46.
const MONDAY: i64 = 1_794_182_400;

/// The report of that week, and whether it was stored.
async fn report(fixture: &StatisticianFixture, archive: &dyn Archive) -> (Value, bool) {
    let team = team();
    let rollups = Rollups::read(archive, &*fixture.archive, &team).await.unwrap();
    let now = Timestamp::from_millisecond(fixture.clock.now().0).unwrap();
    let week = Period::week("2026-W46").unwrap();
    let asked =
        ReportSources::begin(archive, &team, ReportScope::Team, week, rollups.as_ref(), now).await.unwrap();
    if let Some(stored) = asked.stored().await.unwrap() {
        return (serde_json::from_str(&stored.text).unwrap(), true);
    }
    let keeping = asked.keeping();
    let made = asked.make().await.unwrap();
    let found = json::of(&made.report);
    if let Some(keeping) = keeping {
        let kept = keeping.of(&made, found.to_string(), now);
        assert!(store_report(&*fixture.archive, &kept).await.unwrap());
    }
    (found, false)
}

/// How many people are new in it, and whether it was stored.
async fn newcomers(fixture: &StatisticianFixture) -> (u64, bool) {
    let (report, is_stored) = report(fixture, &*fixture.archive).await;
    (report["figures"]["first_time_posters"]["value"].as_u64().unwrap(), is_stored)
}

fn message(second: i64, id: &str) -> ItemKey {
    ItemKey::message(&team(), &channel(id), &Ts::parse(&format!("{second}.000100")).unwrap())
}

async fn post(fixture: &StatisticianFixture, key: &ItemKey, user: &str, subtype: Option<&str>) {
    let ts = Ts::parse(&key.timestamp).unwrap().padded();
    let version = format!("{ts}/{ts}/{}", subtype.unwrap_or("x"));
    let row = json!({ "ts": key.timestamp, "user": user, "text": "word", "raw_event": "{}", "subtype": subtype,
        "content_version": version });
    fixture.set(key.clone(), row).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_long_before_the_period_that_says_who_is_new_makes_the_report_again() {
    let fixture = StatisticianFixture::new(1).await;
    for (place, user) in ["U1", "U2", "U3"].into_iter().enumerate() {
        post(&fixture, &message(MONDAY + place as i64 * DAY, "C1"), user, None).await;
    }
    let joined = message(MONDAY - 300 * DAY, "C2");
    post(&fixture, &joined, "U1", Some("channel_join")).await;
    fixture.settle().await;
    assert_eq!(newcomers(&fixture).await, (3, false));
    assert_eq!(newcomers(&fixture).await, (3, true));

    // Another day is imported, an edit makes a message of a notice, and a message is erased: each long ago.
    let imported = message(MONDAY - 200 * DAY, "C3");
    for step in 0..3 {
        let expected = match step {
            0 => {
                post(&fixture, &imported, "U2", None).await;
                2
            }
            1 => {
                post(&fixture, &joined, "U1", Some("me_message")).await;
                1
            }
            _ => {
                fixture.archive.erase(&imported).await.unwrap();
                2
            }
        };
        assert_eq!(newcomers(&fixture).await, (expected, false), "{step}: before anything has followed it");
        fixture.statistician().look().await;
        assert_eq!(newcomers(&fixture).await, (expected, false), "{step}: asked for");
        fixture.settle().await;
        assert_eq!(newcomers(&fixture).await, (expected, false), "{step}: counted");
        assert_eq!(newcomers(&fixture).await, (expected, true), "{step}: and stored again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stored_report_is_shown_without_a_message_or_a_roll_up_and_reads_a_row_for_each_day() {
    let fixture = StatisticianFixture::filled(2, 200).await;
    let ts = |second: i64| Ts::parse(&format!("{second}.000000")).unwrap();
    for id in CHANNELS {
        let (from, to) = (ts(MONDAY - 400 * DAY), ts(MONDAY + 13 * DAY));
        fixture.archive.write(&reached(&team(), &channel(id), &from, &to, SpanSource::Import)).await.unwrap();
    }
    let read = async |fixture: &StatisticianFixture| {
        assert!(!report(fixture, &*fixture.archive).await.1);
        let watched = WatchedArchive::of(fixture.archive.clone());
        assert!(report(fixture, &watched).await.1);
        watched.read()
    };
    fixture.settle().await;
    let few = read(&fixture).await;
    for row in &few {
        assert!(!row.starts_with("message#") && !row.starts_with("rollup#"), "{row} is read");
    }
    // A hundred days more, in each channel.
    for day in 100..200 {
        for id in CHANNELS {
            post(&fixture, &message(MONDAY - day * DAY, id), "U1", None).await;
        }
    }
    fixture.settle().await;
    let many = read(&fixture).await;
    assert_eq!(many.len(), few.len() + 100, "{many:?}");
}
