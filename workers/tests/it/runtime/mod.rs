//! Tests of the consumer runtime on virtual time, with jobs that fail, crash, hang or are redelivered.

mod claims;
mod ended;
mod fixture;
mod invocation_queue;
mod permits;
mod waiting;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ports::archive::{ArchiveExt, ItemKey, Update};
use ports::queue::topology::MAX_RECEIVE_COUNT;
use ports::queue::{QueueName, QueueRef, ReceiveRequest};
use ports::requests::OpenRequest;
use testkit::faults::{CallFault, FaultPlan, PortMethod};
use tokio::time::{Instant, sleep, timeout};
use workers::quarantine;
use workers::runtime::{JobOutcome, JobRetry};

use fixture::{Act, RuntimeFixture, Scripted, done, settings};

#[tokio::test(start_paused = true)]
async fn jobs_of_a_group_are_done_in_order() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "b1", "a2", "a3", "b2"]).await;
    let worker = Scripted::new(|_, _| done());
    fixture.run_until_idle(&worker).await;
    let done_in =
        |group: char| worker.done().into_iter().filter(|job| job.starts_with(group)).collect::<Vec<_>>();
    assert_eq!(done_in('a'), ["a1", "a2", "a3"]);
    assert_eq!(done_in('b'), ["b1", "b2"]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_receives_nothing_while_ingest_answers_a_burst() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1"]).await;
    let settings = settings();
    let burst: Vec<OpenRequest> = (0..256).map(|_| settings.open_requests.open()).collect();
    let worker = Scripted::new(|_, _| done());
    let running = fixture.start(&worker, settings);
    sleep(Duration::from_secs(9)).await;
    assert!(worker.done().is_empty(), "{:?}", worker.done());
    drop(burst);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(worker.done(), ["a1"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_poison_message_does_not_block_other_groups_and_its_own_continues_after_it() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "a2", "b1", "a3", "b2"]).await;
    let worker = Scripted::new(|job, _| if job == "a2" { Act::Panic } else { done() });
    fixture.run_until_idle(&worker).await;
    assert_eq!(fixture.quarantined().await, [("a2".to_owned(), "it crashed its handler 5 times".to_owned())]);
    let finished = worker.done();
    for job in ["a1", "a3", "b1", "b2"] {
        assert!(finished.iter().any(|done| done == job), "{job} is done");
    }
    // Once in a batch, then alone until it is quarantined.
    let calls = worker.calls_with("a2");
    assert_eq!(calls[1..], vec![vec!["a2".to_owned()]; 5]);
    assert_eq!(fixture.marks(), 0);
}

#[tokio::test(start_paused = true)]
async fn attempts_are_counted_for_each_workspace_and_those_of_an_earlier_version_go_on() {
    let ours = "meta#attempts#events#T1";
    for (earlier, tries, expected) in [(None, 6, ours), (Some("000002"), 4, "meta#attempts#events")] {
        let fixture = RuntimeFixture::new();
        waiting::send(&fixture, [("T1#C1", "a1".to_owned())]).await;
        if let Some(attempts) = earlier {
            let mut stored = Update::new(ItemKey::new("meta#attempts#events", "memory-1"));
            stored.set.insert("attempts".to_owned(), attempts.into());
            fixture.archive.write(&stored).await.unwrap();
        }
        let memory = Arc::clone(&fixture.memory);
        let partitions = Arc::new(Mutex::new(BTreeSet::new()));
        let seen = Arc::clone(&partitions);
        let worker = Scripted::new(move |_, _| {
            let stored = memory.items().into_iter().map(|item| item.key.item_id);
            seen.lock().unwrap().extend(stored.filter(|partition| partition.contains("attempts")));
            Act::Panic
        });
        fixture.run_until_idle(&worker).await;
        // The first try is in a batch, and not counted.
        assert_eq!(worker.calls_with("a1").len(), tries, "{earlier:?}");
        assert_eq!(*partitions.lock().unwrap(), BTreeSet::from([expected.to_owned()]), "{earlier:?}");
        assert_eq!(fixture.quarantined().await.len(), 1, "{earlier:?}");
        assert_eq!(fixture.marks(), 0, "{earlier:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_behind_poison_is_never_charged() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "a2"]).await;
    // The second job fails for a while, so that it is received again and again, but it never crashes.
    let worker = Scripted::new(|job, tries| match (job, tries) {
        ("a1", _) => Act::Panic,
        ("a2", 1..=10) => Act::Finish(JobOutcome::retry("not yet")),
        _ => done(),
    });
    fixture.run_until_idle(&worker).await;
    assert_eq!(fixture.quarantined().await.len(), 1);
    assert_eq!(worker.done(), ["a2"]);
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_retried_until_it_ends_and_its_group_waits() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "a2", "b1"]).await;
    let began = Instant::now();
    let worker = Scripted::new(|job, tries| {
        if job == "a1" && tries <= 12 { Act::Finish(JobOutcome::retry("down")) } else { done() }
    });
    fixture.run_until_idle(&worker).await;
    assert!(worker.done().ends_with(&["a1".to_owned(), "a2".to_owned()]), "{:?}", worker.done());
    assert!(fixture.quarantined().await.is_empty(), "transient failures never quarantine");
    assert!(began.elapsed() > Duration::from_secs(120), "it backed off: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1"]).await;
    let began = Instant::now();
    let retry = JobRetry { reason: "429".into(), after: Some(Duration::from_secs(77)) };
    let worker =
        Scripted::new(
            move |_, tries| {
                if tries == 1 { Act::Finish(JobOutcome::Retry(retry.clone())) } else { done() }
            },
        );
    fixture.run_until_idle(&worker).await;
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(77) && waited < Duration::from_secs(79), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_long_job_keeps_its_lease() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "a2"]).await;
    let worker =
        Scripted::new(|job, _| if job == "a1" { Act::Hang(Duration::from_secs(600)) } else { done() });
    fixture.run_until_idle(&worker).await;
    assert_eq!(worker.done(), ["a1", "a2"], "no other consumer received them meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_stopped_before_its_lease_ends() {
    // No renewal gets through for a while.
    let fixture = RuntimeFixture::faulty(
        FaultPlan::none().with_rule(PortMethod::ChangeVisibility, 1..=40, CallFault::FailBefore),
        FaultPlan::none(),
    );
    fixture.send(&["a1"]).await;
    let worker =
        Scripted::new(|_, tries| if tries == 1 { Act::Hang(Duration::from_secs(40)) } else { done() });
    let began = Instant::now();
    fixture.run_until_idle(&worker).await;
    assert_eq!(worker.done(), ["a1"], "the first try never finished");
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_not_a_crash() {
    let fixture = RuntimeFixture::faulty(
        FaultPlan::none().with_rule(PortMethod::ChangeVisibility, 1..=1000, CallFault::FailBefore),
        FaultPlan::none(),
    );
    fixture.send(&["a1"]).await;
    let worker =
        Scripted::new(|_, tries| if tries <= 8 { Act::Hang(Duration::from_secs(40)) } else { done() });
    fixture.run_until_idle(&worker).await;
    assert_eq!(worker.done(), ["a1"]);
    assert!(fixture.quarantined().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_running_job_is_not_treated_as_poison() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "a2"]).await;
    // Two crashes under a marker, and then a slow run.
    let worker = Scripted::new(|job, tries| match (job, tries) {
        ("a1", 1..=3) => Act::Panic,
        ("a1", 4) => Act::Hang(Duration::from_secs(3600)),
        _ => done(),
    });
    let holder = fixture.start(&worker, settings());
    let begun = async {
        while worker.calls_with("a1").len() < 4 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(60), begun).await.expect("it is running under its third marker");
    // The lease ends early, as after a jump of a clock: another consumer can receive the job.
    assert!(fixture.memory_queue.end_lease(|_| 0).is_some());
    fixture.run_until_idle(&worker).await;
    holder.stop().await;
    assert!(fixture.quarantined().await.is_empty(), "a replay would run it after the jobs behind it");
    assert!(worker.done().ends_with(&["a1".to_owned(), "a2".to_owned()]), "{:?}", worker.done());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_marker_that_could_not_be_removed_is_not_a_crash() {
    let fixture = RuntimeFixture::faulty(
        FaultPlan::none(),
        FaultPlan::none().with_rule(PortMethod::DeleteUnchanged, 1..=12, CallFault::FailBefore),
    );
    fixture.send(&["a1", "a2"]).await;
    // The handler returns each time, but the archive fails to remove the marker.
    let worker = Scripted::new(|job, tries| match (job, tries) {
        ("a1", 1..=6) => Act::Finish(JobOutcome::retry("the archive is away")),
        _ => done(),
    });
    fixture.run_until_idle(&worker).await;
    assert!(fixture.quarantined().await.is_empty());
    assert!(worker.done().ends_with(&["a1".to_owned(), "a2".to_owned()]), "{:?}", worker.done());
    assert_eq!(fixture.marks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_job_is_acked_only_after_its_quarantine_row_is_written() {
    let fixture = RuntimeFixture::faulty(
        FaultPlan::none(),
        FaultPlan::none().with_rule(PortMethod::Write, 1..=3, CallFault::FailBefore),
    );
    fixture.send(&["a1", "a2"]).await;
    let worker = Scripted::new(|job, _| {
        if job == "a1" { Act::Finish(JobOutcome::Quarantine("malformed".into())) } else { done() }
    });
    fixture.run_until_idle(&worker).await;
    assert_eq!(fixture.quarantined().await, [("a1".to_owned(), "malformed".to_owned())]);
    assert_eq!(worker.done().last().unwrap(), "a2");
}

#[tokio::test(start_paused = true)]
async fn a_lost_ack_changes_nothing_but_the_number_of_deliveries() {
    let fixture = RuntimeFixture::faulty(
        FaultPlan::none().with_rule(PortMethod::Ack, 1..=3, CallFault::FailBefore),
        FaultPlan::none(),
    );
    fixture.send(&["a1", "b1"]).await;
    let worker = Scripted::new(|_, _| done());
    fixture.run_until_idle(&worker).await;
    let finished = worker.done();
    for job in ["a1", "b1"] {
        assert!(finished.iter().any(|done| done == job));
    }
    assert!(fixture.quarantined().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn shutdown_lets_running_jobs_finish_and_receives_nothing_more() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1"]).await;
    let worker = Scripted::new(|_, _| Act::Hang(Duration::from_secs(5)));
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(1)).await;
    fixture.send(&["b1"]).await;
    sleep(Duration::from_secs(1)).await;
    let calls_before = worker.calls.lock().unwrap().len();
    running.stop().await;
    assert_eq!(worker.calls.lock().unwrap().len(), calls_before);
    assert!(worker.done().iter().any(|job| job == "a1"));
    assert!(fixture.queue.depth(QueueName::Events.into()).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_at_its_deadline() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1"]).await;
    let worker = Scripted::new(|_, _| Act::Hang(Duration::from_secs(3600)));
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    running.stop().await;
    assert!(began.elapsed() <= settings().drain_deadline + Duration::from_millis(100));
    assert!(worker.done().is_empty());
    assert!(!fixture.queue.depth(QueueName::Events.into()).await.unwrap().is_empty(), "it comes back");
}

#[tokio::test(start_paused = true)]
async fn a_slow_or_unreachable_queue_does_not_delay_the_shutdown() {
    // Docker kills the process after this time.
    let time_limit = Duration::from_secs(10);
    for (method, fault) in [
        (PortMethod::Depth, CallFault::Delay(Duration::from_secs(600))),
        (PortMethod::Receive, CallFault::FailBefore),
    ] {
        let fixture = RuntimeFixture::faulty(
            FaultPlan::none().with_rule(method, 1..=u64::MAX, fault),
            FaultPlan::none(),
        );
        let running = fixture.start(&Scripted::new(|_, _| done()), settings());
        sleep(Duration::from_secs(5)).await;
        timeout(time_limit, running.stop()).await.unwrap_or_else(|_| panic!("{method:?} holds it up"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_drain_cuts_off_is_returned_at_once_and_is_not_a_crash() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "a2"]).await;
    // The first try fails, so that the second one runs alone, under an attempt marker.
    let worker = Scripted::new(|job, tries| match (job, tries) {
        ("a1", 1) => Act::Finish(JobOutcome::retry("not yet")),
        ("a1", 2) => Act::Hang(Duration::from_secs(3600)),
        _ => done(),
    });
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(2)).await;
    running.stop().await;
    assert_eq!(fixture.marks(), 0);
    assert_eq!(worker.calls_with("a1").len(), 2);
    let began = Instant::now();
    fixture.run_until_idle(&worker).await;
    assert!(worker.done().ends_with(&["a1".to_owned(), "a2".to_owned()]), "{:?}", worker.done());
    assert!(began.elapsed() < settings().visibility_timeout / 2, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn dead_letters_end_up_in_quarantine() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1"]).await;
    let request = ReceiveRequest {
        queue: QueueName::Events.into(),
        max: 1,
        visibility_timeout: Duration::from_millis(1),
        wait: Duration::ZERO,
    };
    for _ in 0..MAX_RECEIVE_COUNT {
        assert_eq!(fixture.queue.receive(request).await.unwrap().len(), 1);
        sleep(Duration::from_millis(2)).await;
    }
    let worker = Scripted::new(|_, _| done());
    let running = fixture.start(&worker, settings());
    let dead = QueueRef::dead_letters(QueueName::Events);
    let arrived = async {
        while fixture.quarantined().await.is_empty() || !fixture.queue.depth(dead).await.unwrap().is_empty() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(60), arrived).await.unwrap();
    running.stop().await;
    assert!(worker.done().is_empty());
    assert_eq!(
        fixture.quarantined().await,
        [("a1".to_owned(), "received 1000 times without success".to_owned())]
    );
}

#[tokio::test(start_paused = true)]
async fn a_replayed_job_that_fails_again_keeps_its_one_row() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1"]).await;
    let bad = Scripted::new(|_, _| Act::Finish(JobOutcome::Quarantine("bad".into())));
    fixture.run_until_idle(&bad).await;
    let first = quarantine::list(&*fixture.memory).await.unwrap().remove(0);

    sleep(Duration::from_secs(1)).await;
    quarantine::replay(&*fixture.queue, &*fixture.archive, &*fixture.clock, &first).await.unwrap();
    assert!(fixture.quarantined().await.is_empty());
    fixture.run_until_idle(&bad).await;
    let again = quarantine::list(&*fixture.memory).await.unwrap().remove(0);
    assert_eq!(again.id, first.id);
    assert!(again.last_seen > first.last_seen);
    let row = fixture.memory.items().into_iter().find(|row| row.key.item_id == "quarantine#events").unwrap();
    let times = ["first_seen", "last_seen"].map(|name| row.text(name).unwrap().parse::<i64>().unwrap());
    assert_eq!(times, [again.first_seen.0, again.last_seen.0], "the row has both times in milliseconds");

    let good = Scripted::new(|_, _| done());
    quarantine::replay(&*fixture.queue, &*fixture.archive, &*fixture.clock, &again).await.unwrap();
    fixture.run_until_idle(&good).await;
    assert_eq!(good.done(), ["a1"]);
    assert!(fixture.quarantined().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_replay_does_not_delete_the_row_of_a_job_that_failed_again() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1"]).await;
    let bad = Scripted::new(|_, _| Act::Finish(JobOutcome::Quarantine("bad".into())));
    fixture.run_until_idle(&bad).await;
    let seen = quarantine::list(&*fixture.memory).await.unwrap().remove(0);
    // The job fails again between the replay's send and its delete, so the row is not the one that was read.
    quarantine::replay(&*fixture.queue, &*fixture.archive, &*fixture.clock, &seen).await.unwrap();
    fixture.run_until_idle(&bad).await;
    assert!(!quarantine::discard(&*fixture.archive, &seen).await.unwrap());
    assert_eq!(fixture.quarantined().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_the_worker_forgets_is_retried_before_later_jobs() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "a2", "b1"]).await;
    let worker = Scripted::new(|job, tries| if job == "a1" && tries <= 2 { Act::Forget } else { done() });
    fixture.run_until_idle(&worker).await;
    assert!(worker.done().ends_with(&["a1".to_owned(), "a2".to_owned()]), "{:?}", worker.done());
    assert!(fixture.quarantined().await.is_empty());
    assert_eq!(fixture.marks(), 0);
}

#[tokio::test(start_paused = true)]
async fn jobs_finished_before_a_drain_cuts_off_their_batch_are_acked() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "a2", "a3"]).await;
    let worker =
        Scripted::new(
            |job, tries| {
                if (job, tries) == ("a2", 1) { Act::Hang(Duration::from_secs(3600)) } else { done() }
            },
        );
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(2)).await;
    running.stop().await;
    fixture.run_until_idle(&worker).await;
    assert_eq!(worker.done(), ["a1", "a2", "a3"], "the first was not delivered again");
    assert_eq!(worker.calls_with("a1").len(), 1);
}
