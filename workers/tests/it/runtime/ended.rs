//! Processes that end in the middle of a job: from outside, or because of the job.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::fixture::{Act, RuntimeFixture, Scripted, done, settings};

#[tokio::test(start_paused = true)]
async fn a_job_whose_process_is_ended_from_outside_is_never_poison() {
    let (minute, step) = (Duration::from_secs(60), Duration::from_millis(2_000));
    for (what, lives) in
        [("waits", step), ("waits for a moment", Duration::from_millis(150)), ("makes progress", step)]
    {
        let fixture = RuntimeFixture::new();
        fixture.send(&["a1", "a2"]).await;
        let worker = Scripted::new(move |job, tries| match (job, what) {
            ("a1", "makes progress") if tries <= 12 => Act::Progress(minute),
            ("a1", _) if tries <= 12 => Act::Hang(minute),
            _ => done(),
        });
        for ended in 1..=12 {
            let running = fixture.start(&worker, settings());
            while worker.calls_with("a1").len() < ended {
                sleep(Duration::from_millis(10)).await;
            }
            sleep(lives).await;
            running.kill().await;
        }
        fixture.run_until_idle(&worker).await;
        assert_eq!(worker.done(), ["a1", "a2"], "{what}");
        assert!(fixture.quarantined().await.is_empty(), "{what}");
        assert_eq!(fixture.marks(), 0, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_not_begun_in_some_of_the_processes_that_ended_is_not_poison() {
    let fixture = RuntimeFixture::new();
    fixture.send(&["a1", "a2"]).await;
    // Every second process ends in `a1`, and `a2` is received only.
    let worker = Scripted::new(move |job, tries| match job {
        "a1" if tries <= 16 && tries % 2 == 0 => Act::Hang(Duration::from_secs(60)),
        "a2" if tries <= 8 => Act::Hang(Duration::from_secs(60)),
        _ => done(),
    });
    for _ in 0..16 {
        let running = fixture.start(&worker, settings());
        let calls = worker.calls_with("a1").len();
        let begun = async {
            while worker.calls_with("a1").len() == calls {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(600), begun).await.expect("the group goes on");
        sleep(Duration::from_millis(20)).await;
        running.kill().await;
    }
    fixture.run_until_idle(&worker).await;
    assert_eq!(worker.done().last().map(String::as_str), Some("a2"));
    assert!(fixture.quarantined().await.is_empty());
    assert_eq!(fixture.marks(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_ends_its_process_is_poison_however_long_it_waited_before() {
    for waits in
        [Duration::ZERO, Duration::from_millis(90), Duration::from_millis(250), Duration::from_secs(20)]
    {
        let fixture = RuntimeFixture::new();
        fixture.send(&["a1", "a2", "b1"]).await;
        let worker = Scripted::new(move |job, _| if job == "a1" { Act::CrashAfter(waits) } else { done() });
        // The first delivery has no marker.
        for _ in 0..6 {
            let running = fixture.start(&worker, settings());
            worker.crashed.notified().await;
            running.kill().await;
        }
        fixture.run_until_idle(&worker).await;
        // Each process has done `b1` before it could say so.
        let done = worker.done();
        assert!(
            done.last().is_some_and(|job| job == "a2") && !done.contains(&"a1".to_owned()),
            "{waits:?}: {done:?}"
        );
        let reason = "it crashed its handler 5 times".to_owned();
        assert_eq!(fixture.quarantined().await, [("a1".to_owned(), reason)], "{waits:?}");
        assert_eq!(fixture.marks(), 0, "{waits:?}");
    }
}
