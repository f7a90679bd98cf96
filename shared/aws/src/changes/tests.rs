use ports::archive::{ArchiveExt, Attributes};
use ports::clock::{Clock, ManualClock};
use testkit::conformance::SuitePace;
use testkit::conformance::changes::{ChangesFixture, ChangesTraits, suite};
use testkit::faults::{CrashPoint, FaultPlan, FaultyArchive, RecordedCalls};
use testkit::memory::archive::MemoryArchive;

use super::*;
use ports::archive::{Item, Page, Update, WriteOutcome};

const START: TimestampMs = TimestampMs(1_700_000_000_000);
const HOUR: Duration = Duration::from_secs(3600);
const IDENTITY: &str = "bucket/SlackArchive";

fn message(ts: &str, text: &str) -> Update {
    let set: Attributes = [("text".to_owned(), text.into())].into_iter().collect();
    Update { set, ..Update::new(ItemKey::new("message#T1#C1", ts)) }
}

fn marks(memory: &MemoryArchive) -> Vec<String> {
    let rows = memory.items().into_iter().map(|row| row.key);
    rows.filter(|key| key.item_id == "changes#T1").map(|key| key.timestamp).collect()
}

/// The archive of a separate process.
fn process(memory: &Arc<MemoryArchive>, clock: &Arc<ManualClock>) -> MarkingArchive {
    MarkingArchive::new(Arc::clone(memory) as Arc<dyn Archive>, Arc::clone(clock) as SharedClock)
}

#[tokio::test(flavor = "multi_thread")]
async fn marked_parts_of_channels_conform() {
    let traits = ChangesTraits { by_row: false, histories: (12, 60), pace: SuitePace::ONE_BY_ONE };
    suite(traits, || {
        let (memory, clock) = (Arc::new(MemoryArchive::new()), ManualClock::starting_at(START));
        let changes = DynamoChanges::new(
            Arc::clone(&memory) as Arc<dyn Archive>,
            IDENTITY.to_owned(),
            Arc::clone(&clock) as SharedClock,
        );
        let archive = Arc::new(process(&memory, &clock));
        std::future::ready(ChangesFixture { archive, changes: Arc::new(changes), clock, keep: Box::new(()) })
    })
    .await;
}

#[tokio::test]
async fn each_process_marks_a_part_once_per_hour() {
    let (memory, clock) = (Arc::new(MemoryArchive::new()), ManualClock::starting_at(START));
    let archives = [process(&memory, &clock), process(&memory, &clock)];
    for _ in 0..3 {
        for archive in &archives {
            for ts in ["1700000000.000100", "1700000001.000100", "1600000000.000100"] {
                archive.write(&message(ts, &clock.now().0.to_string())).await.unwrap();
            }
        }
        clock.advance(HOUR);
    }
    let days = ["C1#2020-09-13", "C1#2023-11-14"];
    let expected: Vec<String> = ["22", "23"]
        .iter()
        .map(|hour| format!("2023-11-14T{hour}"))
        .chain(["2023-11-15T00".to_owned()])
        .flat_map(|hour| days.map(|day| format!("{hour}#{day}")))
        .collect();
    assert_eq!(marks(&memory), expected);
}

#[tokio::test]
async fn a_new_process_only_reads_a_mark_that_another_one_has_written() {
    let (memory, clock) = (Arc::new(MemoryArchive::new()), ManualClock::starting_at(START));
    for (text, writes) in [("first", 2), ("again", 1)] {
        let calls = Arc::new(RecordedCalls::default());
        let counted = FaultyArchive::with_schedule(Arc::clone(&memory) as Arc<dyn Archive>, calls.clone());
        let archive = MarkingArchive::new(Arc::new(counted), Arc::clone(&clock) as SharedClock);
        archive.write(&message("1700000000.000100", text)).await.unwrap();
        assert_eq!(calls.take_writes(), writes, "{text}");
    }
}

#[tokio::test]
async fn no_message_is_written_before_its_mark() {
    let clock = ManualClock::starting_at(START);
    for steps in 0..5 {
        let memory = Arc::new(MemoryArchive::new());
        let point = CrashPoint::after(steps);
        let crashing = FaultyArchive::with_crash_point(Arc::clone(&memory) as Arc<dyn Archive>, point);
        let archive = MarkingArchive::new(Arc::new(crashing), Arc::clone(&clock) as SharedClock);
        let written = archive.write(&message("1700000000.000100", "text")).await.is_ok();
        let exists = memory.item(&ItemKey::new("message#T1#C1", "1700000000.000100")).is_some();
        assert!(!written || exists);
        assert!(!exists || marks(&memory).len() == 1, "after {steps} steps");
    }
    // The next attempt writes a mark that could not be written before.
    let memory = Arc::new(MemoryArchive::new());
    let faulty = FaultyArchive::new(Arc::clone(&memory) as Arc<dyn Archive>, FaultPlan::fail_before(1));
    let archive = MarkingArchive::new(Arc::new(faulty), Arc::clone(&clock) as SharedClock);
    archive.write(&message("1700000000.000100", "text")).await.unwrap_err();
    assert_eq!(memory.items().len(), 0);
    archive.write(&message("1700000000.000100", "text")).await.unwrap();
    assert_eq!(memory.items().len(), 2);
}

/// An archive in which a write takes hours.
struct SlowArchive(Arc<MemoryArchive>, Arc<ManualClock>);

#[async_trait]
impl Archive for SlowArchive {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>> {
        if updates.iter().any(|update| update.key.item_id.starts_with("message#")) {
            self.1.advance(5 * HOUR);
        }
        self.0.apply_once(updates).await
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        self.0.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        self.0.query(query).await
    }

    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError> {
        self.0.delete_unchanged(expected).await
    }

    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.0.erase(key).await
    }

    async fn expire(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.0.expire(key).await
    }

    async fn ready(&self) -> Result<(), ArchiveError> {
        self.0.ready().await
    }
}

#[tokio::test]
async fn a_suspended_process_also_marks_the_hour_in_which_it_resumes() {
    let (memory, clock) = (Arc::new(MemoryArchive::new()), ManualClock::starting_at(START));
    let slow = Arc::new(SlowArchive(Arc::clone(&memory), Arc::clone(&clock)));
    let archive = MarkingArchive::new(slow, Arc::clone(&clock) as SharedClock);
    archive.write(&message("1700000000.000100", "text")).await.unwrap();
    assert_eq!(marks(&memory), ["2023-11-14T22#C1#2023-11-14", "2023-11-15T03#C1#2023-11-14"]);
}

#[tokio::test]
async fn a_pass_reads_only_the_marks_of_the_last_hours() {
    let (memory, clock) = (Arc::new(MemoryArchive::new()), ManualClock::starting_at(START));
    let archive = process(&memory, &clock);
    let shared = Arc::clone(&memory) as Arc<dyn Archive>;
    let changes = DynamoChanges::new(shared, IDENTITY.to_owned(), Arc::clone(&clock) as SharedClock);
    let team = TeamId::parse("T1").unwrap();
    archive.write(&Update::mark(ItemKey::team(&team))).await.unwrap();
    let pass = async |mut cursor: Option<ChangeCursor>| {
        let mut days = Vec::new();
        loop {
            let ChangeBatch::Spans { spans, next } = changes.since(cursor.as_ref(), 2).await.unwrap() else {
                panic!("no spans");
            };
            cursor = Some(next);
            if spans.is_empty() {
                return (days, cursor);
            }
            days.extend(spans.into_iter().map(|span| span.day.unwrap().to_string()));
        }
    };
    let (found, cursor) = pass(None).await;
    assert!(found.is_empty());
    archive.write(&message("1700000000.000100", "text")).await.unwrap();
    archive.write(&message("1600000000.000100", "text")).await.unwrap();
    archive.write(&message("1500000000.000100", "text")).await.unwrap();
    let (found, cursor) = pass(cursor).await;
    assert_eq!(found, ["2017-07-14", "2020-09-13", "2023-11-14"]);
    clock.advance(HOUR);
    archive.write(&message("1600000000.000100", "again")).await.unwrap();
    let (found, cursor) = pass(cursor).await;
    assert_eq!(found.len(), 4);
    clock.advance(3 * HOUR);
    let (found, cursor) = pass(cursor).await;
    assert_eq!(found.len(), 4, "the previous pass ended in the hour of these marks");
    let (found, cursor) = pass(cursor).await;
    assert!(found.is_empty());
    // The follower is a laptop that was off for weeks.
    archive.write(&message("1700000000.000100", "again")).await.unwrap();
    clock.advance(600 * HOUR);
    let (found, cursor) = pass(cursor).await;
    assert_eq!(found, ["2023-11-14"]);
    let (found, cursor) = pass(cursor).await;
    assert!(found.is_empty());
    // After a month, marks have expired.
    clock.advance(30 * 24 * HOUR);
    let late = changes.since(cursor.as_ref(), 2).await.unwrap();
    assert!(matches!(late, ChangeBatch::Rebuild), "{late:?}");
}

#[tokio::test]
async fn a_cursor_of_another_archive_requires_a_rebuild() {
    let shared = Arc::new(MemoryArchive::new()) as Arc<dyn Archive>;
    let changes_of = |identity: &str| {
        DynamoChanges::new(Arc::clone(&shared), identity.to_owned(), ManualClock::starting_at(START))
    };
    let ChangeBatch::Spans { next, .. } = changes_of("bucket-one/SlackArchive").since(None, 1).await.unwrap()
    else {
        panic!("no spans");
    };
    let other = changes_of("bucket-two/SlackArchive").since(Some(&next), 1).await.unwrap();
    assert!(matches!(other, ChangeBatch::Rebuild), "{other:?}");
}

#[tokio::test]
async fn the_first_pass_returns_one_channel_per_batch() {
    let memory = Arc::new(MemoryArchive::new());
    let shared = Arc::clone(&memory) as Arc<dyn Archive>;
    let changes = DynamoChanges::new(shared, IDENTITY.to_owned(), ManualClock::starting_at(START));
    for team in ["T1", "T2"].map(|id| TeamId::parse(id).unwrap()) {
        memory.write(&Update::mark(ItemKey::team(&team))).await.unwrap();
        for channel in ["C1", "C2"].map(|id| ChannelId::parse(id).unwrap()) {
            memory.write(&Update::mark(ItemKey::public_mark(&team, &channel))).await.unwrap();
        }
    }
    let (mut cursor, mut found) = (None, Vec::new());
    loop {
        let batch = changes.since(cursor.as_ref(), 1_000).await.unwrap();
        let ChangeBatch::Spans { mut spans, next } = batch else { panic!("no spans") };
        cursor = Some(next);
        let Some(span) = spans.pop() else { break };
        assert_eq!((spans.len(), span.day), (0, None));
        found.push(format!("{}/{}", span.team, span.channel));
    }
    assert_eq!(found, ["T1/C1", "T1/C2", "T2/C1", "T2/C2"]);
}
