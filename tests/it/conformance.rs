//! Every backend and every double runs the whole suite of its port.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use embedded::Database;
use ports::claims::Claims;
use ports::clock::{ManualClock, SharedClock, TimestampMs};
use ports::queue::{MAX_MESSAGE_BYTES, Queue};
use testkit::conformance::Pace;
use testkit::conformance::archive::{self, ArchiveFixture, ArchiveTraits};
use testkit::conformance::claims::{self, ClaimsFixture};
use testkit::conformance::existence::{self, ExistenceFixture};
use testkit::conformance::files::{self, FilesFixture};
use testkit::conformance::queue::{
    self, Advance, DedupScope, GivenBackWaits, QueueFixture, QueueTraits, ReceiptEnd,
};
use testkit::conformance::two_handles::{Turns, TwoArchives, TwoClaims, TwoFiles, TwoQueues};
use testkit::faults::{
    CrashPoint, CrashingArchive, CrashingQueue, FaultyArchive, FaultyClaims, FaultyFiles, FaultyQueue, Plan,
};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::claims::MemoryClaims;
use testkit::memory::existence::MemoryExistence;
use testkit::memory::files::MemoryFiles;
use testkit::memory::queue::MemoryQueue;

const START: TimestampMs = TimestampMs(1_700_000_000_000);

/// The contract at its strictest.
const MEMORY_QUEUE: QueueTraits = QueueTraits {
    max_receive: usize::MAX,
    tells_age: true,
    max_message_bytes: MAX_MESSAGE_BYTES,
    moment: Duration::from_millis(1),
    expiry_lag: Duration::ZERO,
    clock_skew: Duration::ZERO,
    dedup_scope: DedupScope::Queue,
    receipt_end: ReceiptEnd::Lease,
    ack_twice_is_refused: true,
    given_back_waits: GivenBackWaits::ForThoseBefore,
    pace: Pace::ONE_BY_ONE,
};
const EMBEDDED_QUEUE: QueueTraits = QueueTraits { max_receive: 1000, ..MEMORY_QUEUE };
const LOCAL_ARCHIVE: ArchiveTraits =
    ArchiveTraits { parent_lag: Duration::ZERO, orders_equal_timestamps_of_a_parent: true };

fn advance(clock: Arc<ManualClock>) -> Advance {
    Box::new(move |by| {
        let clock = Arc::clone(&clock);
        Box::pin(async move { clock.advance(by) })
    })
}

fn memory_queue(wrap: impl Fn(Arc<dyn Queue>) -> Arc<dyn Queue>) -> QueueFixture {
    let clock = ManualClock::starting_at(START);
    let queue = wrap(Arc::new(MemoryQueue::new(Arc::clone(&clock) as SharedClock)));
    QueueFixture {
        queue,
        clock: Arc::clone(&clock) as SharedClock,
        advance: advance(clock),
        keep: Box::new(()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_queue_conforms() {
    queue::suite(MEMORY_QUEUE, || ready(memory_queue(|queue| queue))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_without_faults_conforms() {
    let wrap = |queue| Arc::new(FaultyQueue::new(queue, Plan::none())) as Arc<dyn Queue>;
    queue::suite(MEMORY_QUEUE, || ready(memory_queue(wrap))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_never_crashes_conforms() {
    let wrap = |queue| Arc::new(CrashingQueue::new(queue, CrashPoint::never())) as Arc<dyn Queue>;
    queue::suite(MEMORY_QUEUE, || ready(memory_queue(wrap))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_queue_conforms() {
    queue::suite(EMBEDDED_QUEUE, || {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(START);
        let database = Database::open(folder.path(), Arc::clone(&clock) as SharedClock).unwrap();
        ready(QueueFixture {
            queue: database.queue(),
            clock: Arc::clone(&clock) as SharedClock,
            advance: advance(clock),
            keep: Box::new(folder),
        })
    })
    .await;
}

async fn two_embedded_queues_conform(turns: Turns) {
    queue::suite(EMBEDDED_QUEUE, || {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(START);
        let [first, second] =
            [(); 2].map(|()| Database::open(folder.path(), Arc::clone(&clock) as SharedClock).unwrap());
        ready(QueueFixture {
            queue: Arc::new(TwoQueues::new(first.queue(), second.queue(), turns)),
            clock: Arc::clone(&clock) as SharedClock,
            advance: advance(clock),
            keep: Box::new(folder),
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_queue_conforms_when_one_handle_sends_and_another_receives() {
    two_embedded_queues_conform(Turns::SenderAndReceiver).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_queue_conforms_when_two_handles_take_turns() {
    two_embedded_queues_conform(Turns::Alternating).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_archive_conforms() {
    let fixture = || ArchiveFixture { archive: Arc::new(MemoryArchive::new()), keep: Box::new(()) };
    archive::suite(LOCAL_ARCHIVE, fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_without_faults_conforms() {
    let fixture = || ArchiveFixture {
        archive: Arc::new(FaultyArchive::new(Arc::new(MemoryArchive::new()), Plan::none())),
        keep: Box::new(()),
    };
    archive::suite(LOCAL_ARCHIVE, fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_never_crashes_conforms() {
    let fixture = || ArchiveFixture {
        archive: Arc::new(CrashingArchive::new(Arc::new(MemoryArchive::new()), CrashPoint::never())),
        keep: Box::new(()),
    };
    archive::suite(LOCAL_ARCHIVE, fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_archive_conforms() {
    archive::suite(LOCAL_ARCHIVE, || {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), ManualClock::starting_at(START)).unwrap();
        ArchiveFixture { archive: database.archive(), keep: Box::new(folder) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_archive_conforms_when_two_handles_take_turns() {
    archive::suite(LOCAL_ARCHIVE, || {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] =
            [(); 2].map(|()| Database::open(folder.path(), ManualClock::starting_at(START)).unwrap());
        let archive = Arc::new(TwoArchives::new(first.archive(), second.archive()));
        ArchiveFixture { archive, keep: Box::new(folder) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_existence_cache_conforms() {
    let clock = ManualClock::starting_at(START);
    existence::suite(|| {
        let (existence, clock) = (Arc::new(MemoryExistence::new()), Arc::clone(&clock) as SharedClock);
        ready(ExistenceFixture { existence, clock, keep: Box::new(()) })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_existence_cache_conforms() {
    existence::suite(|| {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(START) as SharedClock;
        let database = Database::open(folder.path(), Arc::clone(&clock)).unwrap();
        ready(ExistenceFixture { existence: database.existence(), clock, keep: Box::new((database, folder)) })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_files_conform() {
    files::suite(|| FilesFixture { files: Arc::new(MemoryFiles::new()), keep: Box::new(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_without_faults_conform() {
    files::suite(|| FilesFixture {
        files: Arc::new(FaultyFiles::new(Arc::new(MemoryFiles::new()), Plan::none())),
        keep: Box::new(()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_never_crash_conform() {
    files::suite(|| FilesFixture {
        files: Arc::new(FaultyFiles::until(Arc::new(MemoryFiles::new()), CrashPoint::never())),
        keep: Box::new(()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_files_conform() {
    files::suite(|| {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), ManualClock::starting_at(START)).unwrap();
        FilesFixture { files: database.files(), keep: Box::new((database, folder)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_files_conform_when_two_handles_take_turns() {
    files::suite(|| {
        let folder = tempfile::tempdir().unwrap();
        let databases =
            [(); 2].map(|()| Database::open(folder.path(), ManualClock::starting_at(START)).unwrap());
        let files = Arc::new(TwoFiles::new(databases[0].files(), databases[1].files()));
        FilesFixture { files, keep: Box::new((databases, folder)) }
    })
    .await;
}

fn memory_claims(wrap: impl Fn(Arc<dyn Claims>) -> Arc<dyn Claims>) -> ClaimsFixture {
    let clock = ManualClock::starting_at(START);
    let claims = wrap(Arc::new(MemoryClaims::new(Arc::clone(&clock) as SharedClock)));
    ClaimsFixture { claims, clock, keep: Box::new(()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_claims_conform() {
    claims::suite(|| ready(memory_claims(|claims| claims))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_without_faults_conform() {
    let wrap = |claims| Arc::new(FaultyClaims::new(claims, Plan::none())) as Arc<dyn Claims>;
    claims::suite(|| ready(memory_claims(wrap))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_never_crash_conform() {
    let wrap = |claims| Arc::new(FaultyClaims::until(claims, CrashPoint::never())) as Arc<dyn Claims>;
    claims::suite(|| ready(memory_claims(wrap))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_claims_conform() {
    claims::suite(|| {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(START);
        let database = Database::open(folder.path(), Arc::clone(&clock) as SharedClock).unwrap();
        ready(ClaimsFixture { claims: database.claims(), clock, keep: Box::new((database, folder)) })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_claims_conform_when_two_handles_take_turns() {
    claims::suite(|| {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(START);
        let databases =
            [(); 2].map(|()| Database::open(folder.path(), Arc::clone(&clock) as SharedClock).unwrap());
        let claims = Arc::new(TwoClaims::new(databases[0].claims(), databases[1].claims()));
        ready(ClaimsFixture { claims, clock, keep: Box::new((databases, folder)) })
    })
    .await;
}
