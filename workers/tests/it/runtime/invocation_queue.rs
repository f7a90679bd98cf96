//! The failures that a Lambda function reports for a batch, on virtual time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ports::queue::{Delivery, QueueName, QueueRef, ReceiveRequest};
use proptest::prelude::*;
use tokio::time::{Instant, sleep};
use workers::runtime::{JobOutcome, RuntimeSettings, Worker, handle_messages};

use super::fixture::{Act, RuntimeFixture, Scripted, done, name};

const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Receives a batch as Lambda's poller does.
async fn receive(fixture: &RuntimeFixture) -> Vec<Delivery> {
    let request = ReceiveRequest {
        queue: QueueName::Events.into(),
        max: 10,
        visibility_timeout: 6 * FUNCTION_TIMEOUT,
        wait: Duration::ZERO,
    };
    fixture.queue.receive(request).await.unwrap()
}

/// Runs one invocation and deletes the jobs that succeeded, as Lambda does. Returns the jobs reported as
/// failed.
async fn invoke(fixture: &RuntimeFixture, worker: &Arc<Scripted>, batch: &[Delivery]) -> Vec<String> {
    let settings = RuntimeSettings {
        visibility_timeout: 6 * FUNCTION_TIMEOUT,
        drain_deadline: Duration::from_secs(1),
        seed: 7,
        ..RuntimeSettings::default()
    };
    let worker = Arc::clone(worker) as Arc<dyn Worker>;
    let queue = QueueRef::from(QueueName::Events);
    let until = Instant::now() + FUNCTION_TIMEOUT;
    let failed = handle_messages(&worker, &fixture.ports(), settings, queue, batch.to_vec(), until).await;
    let done = batch.iter().filter(|delivery| !failed.contains(&delivery.message_id));
    let receipts: Vec<_> = done.map(|delivery| delivery.receipt.clone()).collect();
    for acked in fixture.queue.ack(queue, &receipts).await {
        acked.unwrap();
    }
    let failed_job =
        |message_id| batch.iter().find(|delivery| delivery.message_id == message_id).map(job).unwrap();
    failed.into_iter().map(failed_job).collect()
}

fn job(delivery: &Delivery) -> String {
    name(&delivery.body).to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_succeeds_reports_no_failures() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "b1", "a2"]).await;
    let worker = Scripted::new(|_, _| done());
    let batch = receive(&fixture).await;
    assert!(invoke(&fixture, &worker, &batch).await.is_empty());
    assert_eq!(worker.done().len(), 3);
    assert!(fixture.queue.depth(QueueName::Events.into()).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failure_and_all_later_jobs_of_its_group_are_reported_while_other_groups_continue() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "b1", "a2", "c1", "a3", "b2"]).await;
    let worker =
        Scripted::new(|job, _| if job == "a2" { Act::Finish(JobOutcome::retry("down")) } else { done() });
    let batch = receive(&fixture).await;
    assert_eq!(invoke(&fixture, &worker, &batch).await, ["a2", "a3"]);
    // The head's backoff ends long before its lease would; the jobs behind it wait for it.
    let began = Instant::now();
    let again = loop {
        let again = receive(&fixture).await;
        if !again.is_empty() {
            break again;
        }
        sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(again.iter().map(job).collect::<Vec<_>>(), ["a2", "a3"]);
    assert!(
        (Duration::from_millis(100)..Duration::from_secs(2)).contains(&began.elapsed()),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_the_whole_batch_and_then_only_its_own_job() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "b1"]).await;
    let worker = Scripted::new(|job, _| if job == "a1" { Act::Panic } else { done() });
    let batch = receive(&fixture).await;
    assert_eq!(invoke(&fixture, &worker, &batch).await, ["a1", "b1"]);
    let again = receive(&fixture).await;
    assert_eq!(invoke(&fixture, &worker, &again).await, ["a1"]);
}

#[tokio::test(start_paused = true)]
async fn poison_ends_in_quarantine_and_is_reported_as_done() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "a2"]).await;
    let worker = Scripted::new(|job, _| if job == "a1" { Act::Panic } else { done() });
    let mut invocations = 0;
    while !fixture.queue.depth(QueueName::Events.into()).await.unwrap().is_empty() {
        let batch = receive(&fixture).await;
        if batch.is_empty() {
            sleep(Duration::from_millis(100)).await;
            continue;
        }
        invoke(&fixture, &worker, &batch).await;
        invocations += 1;
    }
    assert_eq!(fixture.quarantined().await, [("a1".to_owned(), "it crashed its handler 5 times".to_owned())]);
    assert_eq!(worker.done(), ["a2"]);
    assert_eq!(invocations, 7, "once in company, five times alone, and once for the verdict");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_exceeds_the_function_timeout_is_returned_before_the_function_ends() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "a2", "b1"]).await;
    let worker =
        Scripted::new(|job, _| if job == "b1" { done() } else { Act::Hang(Duration::from_secs(3600)) });
    let began = Instant::now();
    let batch = receive(&fixture).await;
    // They run together, so no job of the batch is known to be done.
    assert_eq!(invoke(&fixture, &worker, &batch).await, ["a1", "a2", "b1"]);
    assert!(began.elapsed() < FUNCTION_TIMEOUT + Duration::from_secs(3), "{:?}", began.elapsed());
    // Longer than the first backoff, and far less than the lease.
    sleep(Duration::from_secs(2)).await;
    let again = receive(&fixture).await;
    // When received again, each group runs alone, so `b1` succeeds.
    assert_eq!(invoke(&fixture, &worker, &again).await, ["a1", "a2"]);
    assert_eq!(fixture.marks(), 0, "running out of time is no crash");
}

/// Runs a batch of random groups with a worker that fails at random. The function must report, in each group,
/// the first failure and every job after it, and nothing else.
fn check_report(groups: &[u8], failing: &BTreeSet<usize>) -> Result<(), TestCaseError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let fixture = RuntimeFixture::new();
        let mut numbers: HashMap<u8, u32> = HashMap::new();
        let jobs: Vec<String> = groups
            .iter()
            .map(|group| {
                let number = numbers.entry(*group).or_default();
                *number += 1;
                format!("{}{number}", char::from(b'a' + group))
            })
            .collect();
        let names: Vec<&str> = jobs.iter().map(String::as_str).collect();
        fixture.send(&names).await;
        let fails: BTreeSet<String> = failing.iter().filter_map(|index| jobs.get(*index).cloned()).collect();
        let script = fails.clone();
        let worker = Scripted::new(move |job, _| {
            if script.contains(job) { Act::Finish(JobOutcome::retry("at random")) } else { done() }
        });
        let batch = receive(&fixture).await;
        let reported = invoke(&fixture, &worker, &batch).await;

        let mut stopped: BTreeMap<char, bool> = BTreeMap::new();
        let expected: Vec<String> = batch
            .iter()
            .map(job)
            .filter(|job| {
                let stopped = stopped.entry(job.chars().next().unwrap()).or_default();
                *stopped |= fails.contains(job);
                *stopped
            })
            .collect();
        prop_assert_eq!(&reported, &expected);
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_group_reports_its_first_failure_and_all_later_jobs(
        groups in prop::collection::vec(0_u8..4, 1..=10),
        failing in prop::collection::btree_set(0_usize..10, 0..4),
    ) {
        check_report(&groups, &failing)?;
    }
}
