//! Runs the whole conformance suite of each port.

use std::future::ready;
use std::sync::Arc;

use embedded::Database;
use ports::clock::{ManualClock, SharedClock, TimestampMs};
use tempfile::TempDir;
use testkit::conformance::archive::{self, ArchiveFixture, ArchiveTraits};
use testkit::conformance::changes::{self, ChangesFixture, ChangesTraits};
use testkit::conformance::claims::{self, ClaimsFixture};
use testkit::conformance::existence::{self, ExistenceFixture};
use testkit::conformance::files::{self, FilesFixture};
use testkit::conformance::queue::{self, QueueFixture, QueueTraits};
use testkit::conformance::two_handles::{AlternatingHandles, HandleTurns, TwoQueues};

const START: TimestampMs = TimestampMs(1_700_000_000_000);
const QUEUE: QueueTraits = QueueTraits { max_receive: 1000, ..QueueTraits::STRICTEST };

/// A folder that is opened `N` times, and the shared clock.
fn opened<const N: usize>() -> ([Database; N], Arc<ManualClock>, TempDir) {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::starting_at(START));
    let open = |()| Database::open(folder.path(), Arc::clone(&clock) as SharedClock).unwrap();
    ([(); N].map(open), clock, folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_queue_conforms() {
    queue::suite(QUEUE, || {
        let ([database], clock, folder) = opened();
        ready(QueueFixture {
            queue: database.queue(),
            clock: Arc::clone(&clock) as SharedClock,
            local_clock: Some(Arc::clone(&clock)),
            advance: queue::advance(clock),
            keep: Box::new(folder),
        })
    })
    .await;
}

async fn two_embedded_queues_conform(turns: HandleTurns) {
    queue::suite(QUEUE, || {
        let ([first, second], clock, folder) = opened();
        ready(QueueFixture {
            queue: Arc::new(TwoQueues::new(first.queue(), second.queue(), turns)),
            clock: Arc::clone(&clock) as SharedClock,
            local_clock: Some(Arc::clone(&clock)),
            advance: queue::advance(clock),
            keep: Box::new(folder),
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_queue_conforms_when_one_handle_sends_and_another_receives() {
    two_embedded_queues_conform(HandleTurns::SenderAndReceiver).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_queue_conforms_when_two_handles_take_turns() {
    two_embedded_queues_conform(HandleTurns::Alternating).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_archive_conforms() {
    archive::suite(ArchiveTraits::LOCAL, || {
        let ([database], clock, folder) = opened();
        ArchiveFixture { archive: database.archive(), clock, keep: Box::new(folder) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_archive_conforms_when_two_handles_take_turns() {
    archive::suite(ArchiveTraits::LOCAL, || {
        let ([first, second], clock, folder) = opened();
        let archive = Arc::new(AlternatingHandles::new(first.archive(), second.archive()));
        ArchiveFixture { archive, clock, keep: Box::new(folder) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_changes_conform() {
    changes::suite(ChangesTraits::LOCAL, || {
        let ([database], clock, folder) = opened();
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
        let (databases, clock, folder) = opened::<3>();
        let archive = Arc::new(AlternatingHandles::new(databases[0].archive(), databases[1].archive()));
        let changes = databases[2].changes();
        ready(ChangesFixture { archive, changes, clock, keep: Box::new((databases, folder)) })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_existence_cache_conforms() {
    existence::suite(|| {
        let ([database], clock, folder) = opened();
        ready(ExistenceFixture { existence: database.existence(), clock, keep: Box::new((database, folder)) })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_files_conform() {
    files::suite(files::Creation::Atomic, || {
        let ([database], _, folder) = opened();
        FilesFixture { files: database.files(), keep: Box::new((database, folder)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_files_conform_when_two_handles_take_turns() {
    files::suite(files::Creation::Atomic, || {
        let (databases, _, folder) = opened::<2>();
        let files = Arc::new(AlternatingHandles::new(databases[0].files(), databases[1].files()));
        FilesFixture { files, keep: Box::new((databases, folder)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_a_folder_and_a_bucket_conform() {
    files::suite(files::Creation::Atomic, || {
        let (folder, _, of_folder) = opened::<1>();
        let (bucket, _, of_bucket) = opened::<1>();
        let files = folder[0].files_in(bucket[0].files());
        FilesFixture { files, keep: Box::new((folder, bucket, of_folder, of_bucket)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_claims_conform() {
    claims::suite(|| {
        let ([database], clock, folder) = opened();
        ready(ClaimsFixture { claims: database.claims(), clock, keep: Box::new((database, folder)) })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_claims_conform_when_two_handles_take_turns() {
    claims::suite(|| {
        let (databases, clock, folder) = opened::<2>();
        let claims = Arc::new(AlternatingHandles::new(databases[0].claims(), databases[1].claims()));
        ready(ClaimsFixture { claims, clock, keep: Box::new((databases, folder)) })
    })
    .await;
}
