//! The whole suite of each port.

use std::future::ready;
use std::sync::Arc;

use embedded::Database;
use ports::clock::{ManualClock, SharedClock, TimestampMs};
use testkit::conformance::archive::{self, ArchiveFixture, ArchiveTraits};
use testkit::conformance::changes::{self, ChangesFixture, ChangesTraits};
use testkit::conformance::claims::{self, ClaimsFixture};
use testkit::conformance::existence::{self, ExistenceFixture};
use testkit::conformance::files::{self, FilesFixture};
use testkit::conformance::queue::{self, QueueFixture, QueueTraits};
use testkit::conformance::two_handles::{Turns, TwoArchives, TwoClaims, TwoFiles, TwoQueues};

const START: TimestampMs = TimestampMs(1_700_000_000_000);
const QUEUE: QueueTraits = QueueTraits { max_receive: 1000, ..QueueTraits::STRICTEST };

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_queue_conforms() {
    queue::suite(QUEUE, || {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(START);
        let database = Database::open(folder.path(), Arc::clone(&clock) as SharedClock).unwrap();
        ready(QueueFixture {
            queue: database.queue(),
            clock: Arc::clone(&clock) as SharedClock,
            advance: queue::advance(clock),
            keep: Box::new(folder),
        })
    })
    .await;
}

async fn two_embedded_queues_conform(turns: Turns) {
    queue::suite(QUEUE, || {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(START);
        let [first, second] =
            [(); 2].map(|()| Database::open(folder.path(), Arc::clone(&clock) as SharedClock).unwrap());
        ready(QueueFixture {
            queue: Arc::new(TwoQueues::new(first.queue(), second.queue(), turns)),
            clock: Arc::clone(&clock) as SharedClock,
            advance: queue::advance(clock),
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
async fn the_embedded_archive_conforms() {
    archive::suite(ArchiveTraits::LOCAL, || {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), ManualClock::starting_at(START)).unwrap();
        ArchiveFixture {
            archive: database.archive(),
            clock: ManualClock::starting_at(START),
            keep: Box::new(folder),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_archive_conforms_when_two_handles_take_turns() {
    archive::suite(ArchiveTraits::LOCAL, || {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] =
            [(); 2].map(|()| Database::open(folder.path(), ManualClock::starting_at(START)).unwrap());
        let archive = Arc::new(TwoArchives::new(first.archive(), second.archive()));
        ArchiveFixture { archive, clock: ManualClock::starting_at(START), keep: Box::new(folder) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_changes_conform() {
    changes::suite(ChangesTraits::LOCAL, || {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(START);
        let database = Database::open(folder.path(), Arc::clone(&clock) as SharedClock).unwrap();
        ready(ChangesFixture {
            archive: database.archive(),
            changes: database.changes(),
            clock,
            keep: Box::new((database, folder)),
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_changes_conform_when_other_processes_write() {
    changes::suite(ChangesTraits::LOCAL, || {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(START);
        let databases =
            [(); 3].map(|()| Database::open(folder.path(), Arc::clone(&clock) as SharedClock).unwrap());
        let archive = Arc::new(TwoArchives::new(databases[0].archive(), databases[1].archive()));
        let changes = databases[2].changes();
        ready(ChangesFixture { archive, changes, clock, keep: Box::new((databases, folder)) })
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
async fn the_embedded_files_conform() {
    files::suite(files::Creation::Atomic, || {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), ManualClock::starting_at(START)).unwrap();
        FilesFixture { files: database.files(), keep: Box::new((database, folder)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_files_conform_when_two_handles_take_turns() {
    files::suite(files::Creation::Atomic, || {
        let folder = tempfile::tempdir().unwrap();
        let databases =
            [(); 2].map(|()| Database::open(folder.path(), ManualClock::starting_at(START)).unwrap());
        let files = Arc::new(TwoFiles::new(databases[0].files(), databases[1].files()));
        FilesFixture { files, keep: Box::new((databases, folder)) }
    })
    .await;
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
