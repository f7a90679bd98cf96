//! Every test double runs the whole suite of its port.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use ports::archive::Archive;
use ports::claims::Claims;
use ports::clock::{ManualClock, TimestampMs};
use ports::queue::{DedupId, GroupId, Outgoing, Queue, QueueName, ReceiveRequest};
use testkit::conformance::archive::{self, ArchiveFixture, ArchiveTraits};
use testkit::conformance::changes::{self, ChangesFixture, ChangesTraits};
use testkit::conformance::claims::{self, ClaimsFixture};
use testkit::conformance::existence::{self, ExistenceFixture};
use testkit::conformance::files::{self, FilesFixture};
use testkit::conformance::queue::{self, QueueFixture, QueueTraits};
use testkit::faults::{FaultPlan, FaultyArchive, FaultyClaims, FaultyFiles, FaultyQueue};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::claims::MemoryClaims;
use testkit::memory::existence::MemoryExistence;
use testkit::memory::files::MemoryFiles;
use testkit::memory::queue::MemoryQueue;

const START: TimestampMs = TimestampMs(1_700_000_000_000);

fn memory_queue(wrap: impl Fn(Arc<dyn Queue>) -> Arc<dyn Queue>) -> QueueFixture {
    let clock = ManualClock::starting_at(START);
    let queue = wrap(Arc::new(MemoryQueue::new(clock.clone())));
    QueueFixture {
        queue,
        clock: clock.clone(),
        local_clock: Some(clock.clone()),
        advance: queue::advance(clock),
        keep: Box::new(()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_queue_conforms() {
    queue::suite(QueueTraits::STRICTEST, || ready(memory_queue(|queue| queue))).await;
}

#[tokio::test]
async fn a_memory_queue_with_a_window_hides_what_is_behind_a_long_group() {
    let queue = MemoryQueue::new(ManualClock::starting_at(START));
    queue.set_window(3);
    let message = |number: usize, group: &str| Outgoing {
        queue: QueueName::Events,
        group: GroupId::from_parts(&[group]),
        dedup: DedupId::from_parts(&[number.to_string().as_bytes()]),
        body: number.to_string(),
    };
    let groups = ["long", "long", "long", "behind"];
    let sent = groups.iter().enumerate().map(|(number, group)| message(number, group));
    assert!(queue.send(sent.collect()).await.iter().all(Result::is_ok));
    let request = ReceiveRequest {
        queue: QueueName::Events.into(),
        max: 1,
        visibility_timeout: Duration::from_secs(30),
        wait: Duration::ZERO,
    };
    let first = queue.receive(request).await.unwrap();
    assert_eq!(first.len(), 1);
    // Its group is blocked, and the three messages in the window are all of this group.
    assert!(queue.receive(request).await.unwrap().is_empty());
    queue.ack(QueueName::Events.into(), &[first[0].receipt.clone()]).await.remove(0).unwrap();
    let all = queue.receive(ReceiveRequest { max: 10, ..request }).await.unwrap();
    assert_eq!(all.len(), 3);
}

#[tokio::test]
async fn a_memory_queue_with_a_retention_loses_a_message_that_it_has_kept_for_so_long() {
    let clock = ManualClock::starting_at(START);
    let queue = MemoryQueue::new(clock.clone());
    queue.set_retention(Duration::from_secs(100));
    let send = async |group: &str| {
        let message = Outgoing {
            queue: QueueName::Events,
            group: GroupId::from_parts(&[group]),
            dedup: DedupId::from_parts(&[group.as_bytes()]),
            body: group.to_owned(),
        };
        queue.send(vec![message]).await.remove(0).unwrap();
    };
    let request = ReceiveRequest {
        queue: QueueName::Events.into(),
        max: 10,
        visibility_timeout: Duration::from_secs(30),
        wait: Duration::ZERO,
    };
    let received = async || {
        let deliveries = queue.receive(request).await.unwrap();
        deliveries.into_iter().map(|delivery| delivery.body).collect::<Vec<String>>()
    };
    send("first").await;
    clock.advance(Duration::from_secs(60));
    send("second").await;
    // Receiving a message keeps it no longer.
    assert_eq!(received().await, ["first", "second"]);
    clock.advance(Duration::from_secs(39));
    assert_eq!(received().await, ["first", "second"]);
    clock.advance(Duration::from_secs(31));
    assert_eq!(received().await, ["second"]);
    clock.advance(Duration::from_secs(31));
    assert!(received().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_without_faults_conforms() {
    let wrap = |queue| Arc::new(FaultyQueue::new(queue, FaultPlan::none())) as Arc<dyn Queue>;
    queue::suite(QueueTraits::STRICTEST, || ready(memory_queue(wrap))).await;
}

fn memory_archive(wrap: impl Fn(Arc<dyn Archive>) -> Arc<dyn Archive>) -> ArchiveFixture {
    let archive = wrap(Arc::new(MemoryArchive::new()));
    ArchiveFixture { archive, clock: ManualClock::starting_at(TimestampMs(0)), keep: Box::new(()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_archive_conforms() {
    archive::suite(ArchiveTraits::LOCAL, || memory_archive(|archive| archive)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_without_faults_conforms() {
    let wrap = |archive| Arc::new(FaultyArchive::new(archive, FaultPlan::none())) as Arc<dyn Archive>;
    archive::suite(ArchiveTraits::LOCAL, || memory_archive(wrap)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_changes_conform() {
    let traits = ChangesTraits { histories: (100, 100), ..ChangesTraits::LOCAL };
    changes::suite(traits, || {
        let archive = Arc::new(MemoryArchive::new());
        let (changes, clock) = (Arc::clone(&archive), ManualClock::starting_at(START));
        ready(ChangesFixture { archive, changes, clock, keep: Box::new(()) })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_existence_cache_conforms() {
    let clock = ManualClock::starting_at(START);
    existence::suite(|| {
        let (existence, clock) = (Arc::new(MemoryExistence::new()), clock.clone());
        ready(ExistenceFixture { existence, clock, keep: Box::new(()) })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_files_conform() {
    files::suite(files::Creation::Atomic, || FilesFixture {
        files: Arc::new(MemoryFiles::new()),
        keep: Box::new(()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_without_faults_conform() {
    files::suite(files::Creation::Atomic, || FilesFixture {
        files: Arc::new(FaultyFiles::new(Arc::new(MemoryFiles::new()), FaultPlan::none())),
        keep: Box::new(()),
    })
    .await;
}

fn memory_claims(wrap: impl Fn(Arc<dyn Claims>) -> Arc<dyn Claims>) -> ClaimsFixture {
    let clock = ManualClock::starting_at(START);
    let claims = wrap(Arc::new(MemoryClaims::new(clock.clone())));
    ClaimsFixture { claims, clock, keep: Box::new(()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_claims_conform() {
    claims::suite(|| ready(memory_claims(|claims| claims))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_without_faults_conform() {
    let wrap = |claims| Arc::new(FaultyClaims::new(claims, FaultPlan::none())) as Arc<dyn Claims>;
    claims::suite(|| ready(memory_claims(wrap))).await;
}
