//! Roll-ups during changes, compared with a recount of the rows, and reports with and without roll-ups.

mod closing;
mod fixture;
mod pages;
mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::erasure::{ErasureFact, ErasureScope};
use ports::archive::{ArchiveExt, Item, ItemKey, Update};
use ports::clock::Clock;
use ports::queue::{Queue, QueueName, ReceiveRequest};
use reader::figures::counting::count_day;
use rules::figures::day::DayFigures;
use rules::figures::rollup::{self, RollupDay};
use serde_json::json;
use slack::ids::{Ts, UserId};
use testkit::faults::{CallFault, CrashPoint, FaultSchedule, FaultyArchive, PortMethod};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::files::MemoryFiles;
use workers::eraser::EraserMode;
use workers::runtime::Worker;

use crate::eraser;
use fixture::{MONDAY, PEOPLE, StatisticianFixture, channel, team};

#[tokio::test(start_paused = true)]
async fn exactly_the_days_that_changed_late_are_counted_again() {
    let mut fixture = StatisticianFixture::with_messages(1, 400).await;
    fixture.settle().await;
    fixture.assert_recounted("at first").await;
    let before = fixture.rollups();
    let closed = RollupDay::closed_at(fixture.clock.now()).unwrap();
    let (mut touched, mut late) = (BTreeSet::new(), 0);
    while late < 100 {
        for day in fixture.change().await.into_iter().filter(|day| day.day <= closed) {
            touched.insert(day.rollup_key());
            late += 1;
        }
    }
    let days = fixture.rows("rollupdays#");
    fixture.settle().await;
    fixture.assert_recounted("after the changes").await;
    let counted: BTreeSet<ItemKey> = fixture
        .rollups()
        .into_iter()
        .filter(|(key, row)| before.get(key) != Some(row))
        .map(|(key, _)| key)
        .collect();
    assert_eq!(counted, touched);
    // A day's row over all channels gets a new version only if the figures of one of its channels changed.
    let figures = |row: Option<&Item>| row.and_then(|row| row.text("figures").map(str::to_owned));
    let changed = |key: &&ItemKey| figures(before.get(*key)) != figures(fixture.archive.item(key).as_ref());
    let days_changed: BTreeSet<&str> =
        counted.iter().filter(changed).map(|key| key.timestamp.as_str()).collect();
    let renewed: BTreeSet<ItemKey> = fixture
        .rows("rollupdays#")
        .into_iter()
        .filter(|(key, row)| days.get(key) != Some(row))
        .map(|(key, _)| key)
        .collect();
    assert_eq!(renewed.iter().map(|key| key.timestamp.as_str()).collect::<BTreeSet<_>>(), days_changed);
    assert!(touched.len() > 30 && touched.len() < before.len(), "{} of {}", touched.len(), before.len());
    let state = fixture.archive.items();
    fixture.settle().await;
    assert_eq!(fixture.archive.items(), state, "nothing is counted twice");
}

#[tokio::test(start_paused = true)]
async fn reports_are_the_same_with_and_without_roll_ups_at_any_time() {
    for seed in 0..6 {
        let mut fixture = StatisticianFixture::with_messages(seed, 120).await;
        assert!(fixture.assert_same_reports("before anything was counted").await.is_none());
        for round in 0..6 {
            fixture.settle().await;
            assert!(fixture.assert_same_reports("all is counted").await.is_some());
            let (_, valid) = fixture.assert_same_and_stored("all is as it was").await;
            assert!(valid >= 4, "{valid} stored reports hold: two weeks, of the workspace and of a channel");
            for _ in 0..20 {
                fixture.change().await;
            }
            // An account becomes a bot or a person, without a change to its messages.
            let (id, is_bot) = (fixture.random.choice(PEOPLE).unwrap(), fixture.random.bool());
            fixture.set_bot(id, is_bot).await;
            assert!(fixture.assert_same_reports("changes are not counted yet").await.is_some());
            if round == 3 {
                fixture.clock.advance(Duration::from_secs(3 * 86_400));
                assert!(fixture.assert_same_reports("days close").await.is_some());
            }
            fixture.statistician().poll().await;
            assert!(fixture.assert_same_reports("counts are asked for").await.is_some());
            // From now on, only the user rows have the change.
            fixture.set_bot(id, false).await;
            fixture.set_bot("U6", true).await;
        }
    }
}

/// Writes an update before the archive call number `at`.
struct ChangeAtCall {
    archive: Arc<MemoryArchive>,
    calls: AtomicU64,
    at: u64,
    change: Update,
}

#[async_trait]
impl FaultSchedule for ChangeAtCall {
    async fn before(&self, _: PortMethod, _: usize) -> Option<CallFault> {
        if self.calls.fetch_add(1, Ordering::SeqCst) == self.at {
            self.archive.write(&self.change).await.unwrap();
        }
        None
    }
}

/// A small archive, counted once, with three later changes.
async fn small(random: u64) -> StatisticianFixture {
    let mut fixture = StatisticianFixture::with_messages(random, 60).await;
    fixture.settle().await;
    for _ in 0..3 {
        fixture.change().await;
    }
    fixture
}

#[tokio::test(start_paused = true)]
async fn a_change_between_any_two_steps_is_counted() {
    for at in (0..).step_by(3) {
        let fixture = small(7).await;
        let changed = fixture.written[0].key();
        let set = json!({ "text": "one two three four five six seven eight nine ten", "content_version": "999999999999.000000/000000000001.000000/x" });
        let change = Update { set: set.as_object().cloned().unwrap(), ..Update::new(changed) };
        let schedule =
            Arc::new(ChangeAtCall { archive: fixture.archive.clone(), calls: AtomicU64::new(0), at, change });
        let archive = FaultyArchive::with_schedule(fixture.archive.clone(), schedule.clone());
        let statistician = fixture.statistician_on(Arc::new(archive));
        statistician.poll().await;
        fixture.drain(&statistician).await;
        if schedule.calls.load(Ordering::SeqCst) <= at {
            assert!(at > 30, "{at} calls");
            return;
        }
        fixture.settle().await;
        fixture.assert_recounted(&format!("a change at {at}")).await;
        fixture.assert_same_reports("after it").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_any_two_steps_loses_no_change() {
    let whole = small(8).await;
    let counting = CrashPoint::never();
    let archive = Arc::new(FaultyArchive::with_crash_point(whole.archive.clone(), Arc::clone(&counting)));
    let statistician = whole.statistician_on(archive);
    statistician.poll().await;
    whole.drain(&statistician).await;
    assert!(counting.steps() > 20, "{} steps", counting.steps());
    for steps in 0..counting.steps() {
        let mut fixture = small(8).await;
        let crashing =
            Arc::new(FaultyArchive::with_crash_point(fixture.archive.clone(), CrashPoint::after(steps)));
        let crashing = fixture.statistician_on(crashing);
        crashing.poll().await;
        fixture.clock.advance(Duration::from_secs(91));
        let request = ReceiveRequest {
            queue: QueueName::Stats.into(),
            max: 10,
            visibility_timeout: Duration::from_secs(30),
            wait: Duration::ZERO,
        };
        // The jobs are lost with the process: their leases end after the test.
        let jobs = fixture.queue.receive(request).await.unwrap();
        crashing.handle(&jobs).await;
        fixture.assert_same_reports("after the crash").await;
        let late = fixture.change().await;
        fixture.clock.advance(Duration::from_secs(11 * 60));
        fixture.settle().await;
        fixture.assert_recounted(&format!("a crash after {steps}, a change of {late:?}")).await;
    }
}

/// The process that called last, and how often the caller changed.
#[derive(Default)]
struct TurnsTaken {
    last: AtomicU64,
    taken: AtomicU64,
}

/// Lets the other process run before each call.
struct InterleavedArchive {
    process: u64,
    turns: Arc<TurnsTaken>,
}

#[async_trait]
impl FaultSchedule for InterleavedArchive {
    async fn before(&self, _: PortMethod, _: usize) -> Option<CallFault> {
        tokio::task::yield_now().await;
        let last = self.turns.last.swap(self.process, Ordering::SeqCst);
        self.turns.taken.fetch_add(u64::from(last != self.process), Ordering::SeqCst);
        None
    }
}

#[tokio::test(start_paused = true)]
async fn two_statisticians_together_count_the_same_as_one() {
    for seed in 20..26 {
        let mut fixture = StatisticianFixture::new(seed).await;
        let turns = Arc::<TurnsTaken>::default();
        let [one, other] = [1, 2].map(|process| {
            let schedule = Arc::new(InterleavedArchive { process, turns: turns.clone() });
            fixture.statistician_on(Arc::new(FaultyArchive::with_schedule(fixture.archive.clone(), schedule)))
        });
        for _ in 0..8 {
            for _ in 0..30 {
                fixture.post().await;
            }
            tokio::join!(one.poll(), other.poll());
            tokio::join!(fixture.drain(&one), fixture.drain(&other));
        }
        fixture.assert_recounted(&format!("seed {seed}")).await;
        fixture.assert_same_reports(&format!("seed {seed}")).await.unwrap();
        let turns = turns.taken.load(Ordering::SeqCst);
        assert!(turns > 100, "seed {seed}: {turns} turns");
    }
}

#[tokio::test(start_paused = true)]
async fn a_day_that_no_row_can_hold_is_read_from_its_messages() {
    let fixture = StatisticianFixture::with_messages(3, 60).await;
    let sample = fixture.written[0].clone();
    for n in 0..1_000 {
        let reactions: BTreeMap<String, &str> =
            (0..30).map(|m| (format!("reaction#emoji-{n}-{m}#U2"), "000000000001.000000/added")).collect();
        let mut row = json!(reactions);
        let ts = Ts::parse(&format!("{}.{:06}", sample.ts.micros() / 1_000_000, 900_000 + n)).unwrap();
        row["user"] = "U1".into();
        row["content_version"] = "000000000001.000000/000000000001.000000/x".into();
        fixture.set(ItemKey::message(&team(), &channel(sample.channel), &ts), row).await;
    }
    fixture.settle().await;
    let row = fixture.archive.item(&sample.day().rollup_key()).unwrap();
    assert_eq!(rollup::figures(&row), None);
    assert_eq!(fixture.due().await, 0);
    fixture.assert_same_reports("with a large day").await.unwrap();
    assert_ne!(count_day(&*fixture.archive, &sample.day()).await.unwrap(), DayFigures::default());
}

#[tokio::test(start_paused = true)]
async fn a_stored_report_holds_until_something_that_it_shows_changes() {
    let mut fixture = StatisticianFixture::with_messages(11, 200).await;
    fixture.settle().await;
    let valid_reports =
        async |fixture: &StatisticianFixture, when: &str| fixture.assert_same_and_stored(when).await.1;
    assert_eq!(valid_reports(&fixture, "at first").await, 0);
    let all = valid_reports(&fixture, "again").await;
    assert!(all >= 4, "{all}");
    // No stored report contains a message of today, and every one contains the name.
    let today = Ts::parse(&format!("{}.000001", fixture.clock.now().0 / 1_000)).unwrap();
    let row = json!({ "user": "U1", "text": "now", "content_version": "000000000001.000000/000000000001.000000/x" });
    fixture.set(ItemKey::message(&team(), &channel("C1"), &today), row).await;
    assert_eq!(valid_reports(&fixture, "today").await, all);
    fixture.set_name("U1", "another").await;
    assert_eq!(valid_reports(&fixture, "a name").await, 0);
    assert_eq!(valid_reports(&fixture, "and again").await, all);
    // A late reply changes the list of threads with the most replies at once.
    let root = fixture.written.iter().filter(|written| !written.is_reply).max_by_key(|written| {
        fixture.written.iter().filter(|other| other.root.as_ref() == Some(&written.ts)).count()
    });
    let root = root.unwrap().clone();
    fixture.reply_now(&root).await;
    assert!(valid_reports(&fixture, "a late reply").await < all);
    // A change of a day before a report's end invalidates the report before the change is counted.
    let monday = RollupDay::new(MONDAY / 86_400).unwrap();
    while !fixture.change().await.iter().any(|changed| changed.day < monday) {}
    assert!(valid_reports(&fixture, "a late change").await < all);
}

#[tokio::test(start_paused = true)]
async fn an_erased_person_is_in_no_roll_up_and_in_no_stored_report() {
    let fixture = StatisticianFixture::with_messages(12, 200).await;
    fixture.settle().await;
    fixture.assert_same_and_stored("before").await;
    let first = fixture.archive.item(&ItemKey::first_post(&team(), &UserId::parse("U2").unwrap())).unwrap();
    assert!(rollup::first_post(&first).is_some());
    let user = UserId::parse("U2").unwrap();
    let until = Ts::parse(&format!("{}.000000", fixture.clock.now().0 / 1_000)).unwrap();
    let facts = [ErasureFact { team: team(), scope: ErasureScope::User(user.clone()), until }];
    let files = MemoryFiles::new();
    let counts = eraser::erase(&*fixture.archive, &files, &facts, EraserMode::Act).await.unwrap();
    assert!(counts.reports >= 4, "{counts:?}");
    let rows = fixture.archive.items();
    assert!(!rows.iter().any(|row| row.key.item_id.starts_with("report#")));
    let mentions = |row: &Item| row.text("figures").is_some_and(|figures| figures.contains("\"U2\""));
    assert!(!rows.iter().any(mentions), "no roll-up names them, even before it is counted again");
    let first = fixture.archive.item(&ItemKey::first_post(&team(), &user)).unwrap();
    assert_eq!(rollup::first_post(&first), None);
    fixture.assert_same_reports("before they are counted again").await;
    fixture.settle().await;
    fixture.assert_recounted("after the erasure").await;
    fixture.assert_same_reports("and after it").await.unwrap();
}
