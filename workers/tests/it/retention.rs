//! The nights of retention, on an archive filled by events.

use std::sync::Arc;
use std::time::Duration;

use ports::archive::{Archive, ArchiveExt, Item, ItemKey, Query, query_all};
use ports::clock::{ManualClock, TimestampMs};
use ports::files::{FileKey, Files};
use rules::retention::{RetentionPeriod, RetentionRule};
use slack::ids::Ts;
use slack_api::{ApiUrl, Tokens, WebApi};
use testkit::deliveries::delivery_of;
use testkit::faults::{CrashPoint, FaultyArchive};
use testkit::memory::queue::MemoryQueue;
use workers::keeper::RetentionPlan;
use workers::runtime::{JobOutcome, Ports, Worker};

use crate::eraser::{EraserFixture, SECRET, channel, team, ts};
use crate::keeper::{keeper, night_job};

/// A day after the events of the fixture, but before the message that is "said after it".
const NIGHT: TimestampMs = TimestampMs(1_700_100_000_000);

async fn set_rule(fixture: &EraserFixture, id: Option<&str>, period: RetentionPeriod, at: TimestampMs) {
    let set_at = Ts::parse(&format!("{}.000000", at.0 / 1_000)).unwrap();
    let channel = id.map(channel);
    let rule = RetentionRule { team: team(), channel, period, by: None, set_at };
    fixture.archive.write(&rule.update()).await.unwrap();
}

async fn night_of(archive: Arc<dyn Archive>, files: Arc<dyn Files>) -> JobOutcome {
    let clock = ManualClock::starting_at(NIGHT);
    let queue = Arc::new(MemoryQueue::new(clock.clone()));
    let web = Arc::new(WebApi::new(ApiUrl::default(), Tokens::empty()));
    let keeper = keeper(Ports { archive, queue, clock }, files, web);
    keeper.handle(&[delivery_of(night_job(team(), NIGHT).outgoing())]).await.remove(0)
}

async fn night(fixture: &EraserFixture) {
    let done = night_of(fixture.archive.clone(), Arc::new(fixture.files.clone())).await;
    assert_eq!(done, JobOutcome::Done);
}

/// What expires with messages.
fn messages_and_files(fixture: &EraserFixture) -> Vec<String> {
    let is_of_message = |row: &Item| {
        ["message#", "revision#", "file#", "quarantine#"].iter().any(|kind| row.key.item_id.starts_with(kind))
    };
    let rows = fixture.archive.items().into_iter().filter(|row| is_of_message(row) && !row.is_erased());
    let files =
        fixture.files.published().into_keys().filter(|key: &FileKey| !key.as_str().contains("/images/"));
    rows.map(|row| format!("{} {}", row.key.item_id, row.key.timestamp))
        .chain(files.map(|key| key.to_string()))
        .collect()
}

#[tokio::test]
async fn a_night_removes_messages_with_their_versions_files_and_quarantined_jobs() {
    let fixture = EraserFixture::filled().await;
    set_rule(&fixture, None, RetentionPeriod::Days(1), TimestampMs(0)).await;
    set_rule(&fixture, Some("C2"), RetentionPeriod::Forever, TimestampMs(0)).await;
    night(&fixture).await;
    let left = messages_and_files(&fixture);
    let is_left = |what: &str| left.iter().any(|left| left.contains(what));
    assert!(is_left(&format!("message#{}#C1 1760000000.000100", team())));
    assert!(is_left(&format!("message#{}#C2 {}", team(), ts(3))));
    // It is also shared in the other channel.
    assert!(is_left("F2"), "{left:?}");
    for gone in [&format!("#C1 {}", ts(1)), "revision#", "F1", "F3", "quarantine#"] {
        assert!(!is_left(gone), "{gone}: {left:?}");
    }
    let row = fixture.row(&ItemKey::message(&team(), &channel("C1"), &ts(4)));
    assert!(row.has_flag("expired") && row.attributes.len() == 2, "{row:?}");
    let records =
        query_all(&*fixture.archive, Query::partition(format!("erasure#{}", team()))).await.unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].text("scope"), Some("retention"));
    assert!(!records[0].to_json().to_string().contains(SECRET));
}

#[tokio::test]
async fn a_rule_that_was_set_since_the_night_began_waits_for_the_next_one() {
    let fixture = EraserFixture::filled().await;
    set_rule(&fixture, None, RetentionPeriod::Days(1), TimestampMs(NIGHT.0 + 1_000)).await;
    let before = messages_and_files(&fixture);
    night(&fixture).await;
    assert_eq!(messages_and_files(&fixture), before);
}

#[tokio::test]
async fn a_night_reads_only_what_became_due_since_the_last_one() {
    let fixture = EraserFixture::filled().await;
    let rules = || {
        let period = RetentionPeriod::Days(1);
        let set_at = Ts::parse("1.000000").unwrap();
        [RetentionRule { team: team(), channel: None, period, by: None, set_at }].into_iter().collect()
    };
    let mut read = Vec::new();
    for days in [0, 0, 1] {
        let now = TimestampMs(NIGHT.0 + days * 86_400_000);
        let plan = RetentionPlan::read(&*fixture.archive, &team(), rules(), now).await.unwrap();
        let done = plan.apply(&*fixture.archive, &fixture.files, now, None, Duration::ZERO).await.unwrap();
        read.push((done.1.messages, done.1.rows_read));
    }
    assert!(read[0].0 == 4 && read[0].1 > 6, "{read:?}");
    assert_eq!(read[1..], [(0, 0), (0, 0)]);
}

#[tokio::test]
async fn a_night_that_was_killed_at_any_step_is_completed_by_the_next_one() {
    let whole = EraserFixture::filled().await;
    set_rule(&whole, None, RetentionPeriod::Days(1), TimestampMs(0)).await;
    night(&whole).await;
    let mut steps = 0;
    loop {
        let fixture = EraserFixture::filled().await;
        set_rule(&fixture, None, RetentionPeriod::Days(1), TimestampMs(0)).await;
        let point = CrashPoint::after(steps);
        let archive = FaultyArchive::with_crash_point(fixture.archive.clone(), Arc::clone(&point));
        let died = night_of(Arc::new(archive), Arc::new(fixture.files.clone())).await;
        assert_eq!(died != JobOutcome::Done, point.has_crashed(), "step {steps}: {died:?}");
        night(&fixture).await;
        assert_eq!(messages_and_files(&fixture), messages_and_files(&whole), "step {steps}");
        if died == JobOutcome::Done {
            break;
        }
        steps += 1;
    }
    assert!(steps > 10, "{steps} steps");
}
