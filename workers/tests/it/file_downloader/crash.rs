//! A downloader that dies between any two steps, or is dropped in any of them.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use ports::archive::Archive;
use ports::files::Files;
use ports::queue::Delivery;
use ports::queue::job::{Job, Origin};
use serde_json::{Value, json};
use slack_api::{BotToken, Tokens};
use testkit::deliveries::delivery_of;
use testkit::faults::{
    CallFault, CrashPoint, FaultPlan, FaultyArchive, FaultyClaims, FaultyFiles, PortMethod,
};
use wiremock::MockServer;
use workers::file_downloader::FileDownloader;
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{DownloaderFixture, TOKEN, bytes, claimant, info, settings, slack, worker};

/// The jobs of two messages that share a file; the first message also has a deleted file.
async fn jobs(fixture: &DownloaderFixture, fields: &Value) -> Vec<Delivery> {
    let shared = fixture.file("F01", fields.clone());
    let mut jobs = Vec::new();
    for (channel, files) in [
        ("C01", vec![shared.clone(), fixture.file("F02", json!({ "mode": "tombstone" }))]),
        ("C02", vec![shared]),
    ] {
        let sends = fixture.message(channel, &files).await.sends;
        jobs.extend(sends.into_iter().map(delivery_of));
    }
    jobs
}

/// Runs the jobs with a process that dies at the point, then the unfinished ones with a process that lives.
async fn run(slack: &MockServer, point: &Arc<CrashPoint>, fields: &Value) -> DownloaderFixture {
    let fixture = DownloaderFixture::for_slack(slack);
    let jobs = jobs(&fixture, fields).await;
    let archive = FaultyArchive::with_crash_point(fixture.archive.clone(), Arc::clone(point));
    let files =
        FaultyFiles::with_crash_point(Arc::new(fixture.files.clone()) as Arc<dyn Files>, Arc::clone(point));
    let tokens = Tokens::one(BotToken::parse(TOKEN).unwrap());
    let claims = FaultyClaims::with_crash_point(fixture.claims.clone(), Arc::clone(point));
    let claimant = claimant("dying", Arc::new(claims), &fixture.clock);
    let dying = worker(&slack.uri(), (Arc::new(archive), Arc::new(files)), claimant, tokens, settings());
    for job in &jobs {
        let outcome = dying.handle(std::slice::from_ref(job)).await.remove(0);
        // Nothing is acked after the crash, nor in the step of the crash.
        if outcome != JobOutcome::Done || point.has_crashed() {
            fixture.run_until_done(&Delivery { receive_count: 2, ..job.clone() }).await;
        }
    }
    fixture
}

#[tokio::test]
async fn a_crash_between_any_two_steps_leaves_the_same_rows_and_one_file() {
    // Slack has a later version of a canvas than the messages name.
    let canvas = |updated: u64| json!({ "mode": "quip", "updated": updated });
    let hosted = json!({ "size": 5 });
    for (fields, current) in [(hosted.clone(), hosted), (canvas(1_700_000_000), canvas(1_700_000_100))] {
        let slack = slack().await;
        bytes(&slack, "F01", b"<p>hi").await;
        let current = DownloaderFixture::for_slack(&slack).file("F01", current);
        info(&slack, &json!({ "ok": true, "file": current })).await;
        let never = CrashPoint::never();
        let whole = run(&slack, &never, &fields).await;
        assert_eq!(whole.stored_bytes(), [b"<p>hi"]);
        assert!(whole.in_channel("C02").await["files_s3"].is_array());
        let steps = never.steps();
        assert!(steps > 10, "{steps} steps are too few to be all of them");
        for step in 0..steps {
            let point = CrashPoint::after(step);
            let healed = run(&slack, &point, &fields).await;
            assert!(point.has_crashed());
            assert_eq!(healed.archive.items(), whole.archive.items(), "after step {step}");
            assert_eq!(healed.files.published(), whole.files.published(), "after step {step}");
        }
    }
}

/// A second downloader, whose archive writes with these numbers fail.
fn with_failing_writes(
    slack: &MockServer,
    fixture: &DownloaderFixture,
    failing_writes: RangeInclusive<u64>,
) -> Arc<FileDownloader> {
    let plan = FaultPlan::none().with_rule(PortMethod::Write, failing_writes, CallFault::FailBefore);
    let archive = FaultyArchive::new(fixture.archive.clone(), plan);
    let stores = (Arc::new(archive) as Arc<dyn Archive>, Arc::new(fixture.files.clone()) as Arc<dyn Files>);
    let tokens = Tokens::one(BotToken::parse(TOKEN).unwrap());
    worker(&slack.uri(), stores, fixture.another_claimant("unlucky"), tokens, settings())
}

#[tokio::test]
async fn a_message_never_shows_a_file_before_the_row_of_the_file_does() {
    let slack = slack().await;
    bytes(&slack, "F01", b"hello").await;
    let fixture = DownloaderFixture::for_slack(&slack);
    let file = fixture.file("F01", json!({ "size": 5 }));
    // The unfinished job has the greater address, and is replayed from quarantine when the other job is done.
    let (other, job) = (fixture.share("C01", &file).await, fixture.share("C02", &file).await);
    for writes in [2..=2, 1..=2, 1..=1] {
        let worker = with_failing_writes(&slack, &fixture, writes.clone());
        let outcome = worker.handle(std::slice::from_ref(&job)).await.remove(0);
        assert!(matches!(outcome, JobOutcome::Retry(_)), "{writes:?}: {outcome:?}");
        assert_eq!(fixture.in_channel("C02").await["files_s3"], json!(null), "{writes:?}");
    }
    fixture.run_until_done(&other).await;
    fixture.run_until_done(&job).await;
    let uri = fixture.row("F01").await["uri"].clone();
    for channel in ["C01", "C02"] {
        assert_eq!(fixture.in_channel(channel).await["files_s3"], json!([uri]), "{channel}");
    }
}

#[tokio::test]
async fn a_replayed_job_updates_the_messages_that_it_could_not_update_before() {
    let slack = slack().await;
    bytes(&slack, "F01", b"hello").await;
    let poor = DownloaderFixture::new(&slack.uri(), Tokens::empty(), settings());
    let file = poor.file("F01", json!({ "size": 5 }));
    let job = poor.share("C01", &file).await;
    for job in [&job, &poor.share("C02", &file).await] {
        assert_eq!(poor.handle(job).await, JobOutcome::Done);
    }
    // The job writes the row of the file, but neither message.
    let outcome =
        with_failing_writes(&slack, &poor, 3..=4).handle(std::slice::from_ref(&job)).await.remove(0);
    assert!(matches!(outcome, JobOutcome::Retry(_)), "{outcome:?}");
    assert_eq!(poor.row("F01").await["state"], "held");
    assert_eq!(poor.in_channel("C02").await["files_verdict"], json!({ "F01": "pending" }));

    let origin = Some(Origin { sent_at_ms: 1, message_id: "first".into(), trips: 0, trial: None });
    let body = Job { origin, ..Job::decode(&job.body).unwrap() }.encode().unwrap();
    assert_eq!(poor.handle(&Delivery { body, ..job }).await, JobOutcome::Done);
    for channel in ["C01", "C02"] {
        assert!(poor.in_channel(channel).await["files_s3"].is_array(), "{channel}");
    }
}

#[tokio::test]
async fn a_file_published_before_a_crash_is_not_requested_again() {
    let slack = slack().await;
    bytes(&slack, "F01", b"hello").await;
    let fixture = DownloaderFixture::for_slack(&slack);
    let file = fixture.file("F01", json!({ "size": 5 }));
    let whole = fixture.fetch(&file).await;

    let after_crash = DownloaderFixture::new(&slack.uri(), Tokens::empty(), settings());
    let job = after_crash.share("C01", &file).await;
    let fixture = DownloaderFixture {
        worker: worker(
            &slack.uri(),
            (after_crash.archive.clone(), Arc::new(fixture.files.clone())),
            after_crash.another_claimant("two"),
            Tokens::empty(),
            settings(),
        ),
        ..after_crash
    };
    fixture.run_until_done(&Delivery { receive_count: 2, ..job }).await;
    assert_eq!(fixture.row("F01").await, whole);
}

#[tokio::test]
async fn a_job_that_is_dropped_at_any_point_can_be_repeated() {
    let slack = slack().await;
    bytes(&slack, "F01", b"hello").await;
    let fixture = DownloaderFixture::for_slack(&slack);
    let job = fixture.share("C01", &fixture.file("F01", json!({ "size": 5 }))).await;
    // Each round polls the job once more than the round before.
    for polls in 0..200 {
        // The claim of the previous round expires.
        fixture.clock.advance(Duration::from_secs(31));
        let mut handling = Box::pin(fixture.handle(&job));
        for _ in 0..polls {
            if futures_util::poll!(&mut handling).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    fixture.run_until_done(&Delivery { receive_count: 2, ..job }).await;
    assert_eq!(fixture.row("F01").await["state"], "held");
    assert_eq!(fixture.stored_bytes(), [b"hello"]);
}
