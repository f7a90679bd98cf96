//! Stored reports: the changes that invalidate them, and the cost to find that they are valid.

use jiff::Timestamp;
use ports::archive::{Archive, ArchiveExt, ItemKey};
use ports::clock::Clock;
use reader::figures::json;
use reader::figures::making::{ReportScope, ReportSources};
use reader::figures::period::Period;
use reader::figures::rollups::Rollups;
use rules::filled::{SpanSource, filled_update};
use serde_json::{Value, json};
use slack::ids::Ts;
use testkit::memory::watched::WatchedArchive;
use workers::runtime::Worker;
use workers::statistician::store_report;

use super::fixture::{CHANNELS, DAY, MONDAY, StatisticianFixture, channel, team};

/// The report of 2026-W46, and whether it was stored.
async fn report(fixture: &StatisticianFixture, archive: &dyn Archive) -> (Value, bool) {
    let team = team();
    let rollups = Rollups::read(archive, &*fixture.archive, &team).await.unwrap();
    let now = Timestamp::from_millisecond(fixture.clock.now().0).unwrap();
    let week = Period::week("2026-W46").unwrap();
    let sources =
        ReportSources::read(archive, &team, ReportScope::Team, week, rollups.as_ref(), now).await.unwrap();
    if let Some(stored) = sources.stored().await.unwrap() {
        return (serde_json::from_str(&stored).unwrap(), true);
    }
    let stamp = sources.stamp();
    let made = sources.make().await.unwrap();
    let found = json::report_json(&made.report);
    if let Some(stamp) = stamp {
        let kept = made.to_kept_report(stamp, found.to_string(), now);
        assert!(store_report(&*fixture.archive, &kept).await.unwrap());
    }
    (found, false)
}

/// The number of first-time posters in the report, and whether it was stored.
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
async fn a_change_long_before_the_period_that_affects_first_time_posters_invalidates_the_report() {
    let fixture = StatisticianFixture::new(1).await;
    for (index, user) in ["U1", "U2", "U3"].into_iter().enumerate() {
        post(&fixture, &message(MONDAY + index as i64 * DAY, "C1"), user, None).await;
    }
    let joined = message(MONDAY - 300 * DAY, "C2");
    post(&fixture, &joined, "U1", Some("channel_join")).await;
    fixture.settle().await;
    assert_eq!(newcomers(&fixture).await, (3, false));
    assert_eq!(newcomers(&fixture).await, (3, true));

    // Another day is imported, an edit turns a notice into a message, and a message is erased: each long ago.
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
        assert_eq!(
            newcomers(&fixture).await,
            (expected, false),
            "{step}: before the statistician has seen it"
        );
        fixture.statistician().poll().await;
        assert_eq!(newcomers(&fixture).await, (expected, false), "{step}: after the count is requested");
        fixture.settle().await;
        assert_eq!(newcomers(&fixture).await, (expected, false), "{step}: counted");
        assert_eq!(newcomers(&fixture).await, (expected, true), "{step}: and stored again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stored_report_reads_one_row_for_each_day_and_no_message_or_roll_up() {
    let fixture = StatisticianFixture::with_messages(2, 200).await;
    let ts = |second: i64| Ts::parse(&format!("{second}.000000")).unwrap();
    for id in CHANNELS {
        let (from, to) = (ts(MONDAY - 400 * DAY), ts(MONDAY + 13 * DAY));
        fixture
            .archive
            .write(&filled_update(&team(), &channel(id), &from, &to, SpanSource::Import))
            .await
            .unwrap();
    }
    let read = async |fixture: &StatisticianFixture| {
        assert!(!report(fixture, &*fixture.archive).await.1);
        let watched = WatchedArchive::new(fixture.archive.clone());
        assert!(report(fixture, &watched).await.1);
        watched.read()
    };
    fixture.settle().await;
    let few = read(&fixture).await;
    for row in &few {
        assert!(!row.starts_with("message#") && !row.starts_with("rollup#"), "{row} is read");
    }
    // A hundred more days in each channel.
    for day in 100..200 {
        for id in CHANNELS {
            post(&fixture, &message(MONDAY - day * DAY, id), "U1", None).await;
        }
    }
    fixture.settle().await;
    let many = read(&fixture).await;
    assert_eq!(many.len(), few.len() + 100, "{many:?}");
}
