//! A file of a message is requested once, by one downloader.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ports::claims::{ClaimContext, ClaimKey, ClaimMode};
use ports::queue::Delivery;
use serde_json::json;
use slack::ids::{FileId, Ts};
use testkit::faults::{CallFault, FaultPlan, FaultyClaims, PortMethod};
use wiremock::matchers::{method, path};
use wiremock::{Mock, ResponseTemplate};
use workers::claims::{ClaimGuard, ClaimOutcome, Claimant, Sink};
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{DownloaderFixture, TS, answer, bytes, claimant, downloads, info, team, with_slack};

fn key(file: &str) -> ClaimKey {
    ClaimKey::for_file(&FileId::parse(file).unwrap(), &Ts::parse(TS).unwrap())
}

async fn claim<'c>(claimant: &'c Claimant, file: &str) -> ClaimGuard<'c> {
    match claimant.claim(key(file), ClaimContext::default(), Sink::Idempotent, ClaimMode::IfFree).await {
        Ok(ClaimOutcome::Ours(guard)) => guard,
        Ok(_) | Err(_) => panic!("{file} is not free"),
    }
}

/// Whether the claim of a file is completed, if there is one.
fn completed(fixture: &DownloaderFixture, file: &str) -> Option<bool> {
    fixture.claims.rows().get(&key(file)).map(|row| row.completed)
}

/// Two jobs for one file in one message; the second has more fields of the file.
async fn two_jobs(fixture: &DownloaderFixture, file: &str) -> [Delivery; 2] {
    let first = fixture.share("C01", &fixture.file(file, json!({ "size": 5 }))).await;
    let second =
        fixture.share("C01", &fixture.file(file, json!({ "size": 5, "title": "a", "user": "U01" }))).await;
    assert_ne!(first.body, second.body);
    [first, second]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_downloaders_of_a_file_request_it_once() {
    let (slack, fixture) = with_slack().await;
    for round in 0..4 {
        let file = format!("F{round:02}");
        bytes(&slack, &file, b"hello").await;
        let jobs = two_jobs(&fixture, &file).await;
        let tasks = (0..8).map(|number| {
            let downloader = fixture.another_worker(fixture.another_claimant(&format!("{number}")));
            let job = jobs[number % 2].clone();
            tokio::spawn(async move { downloader.handle(&[job]).await.remove(0) })
        });
        for outcome in join_all(tasks).await.into_iter().map(Result::unwrap) {
            match outcome {
                JobOutcome::Done => {}
                // A job that finds the claim taken is retried when the lease may have ended, and not before.
                JobOutcome::Retry(retry) => {
                    assert_eq!(retry.after, Some(Duration::from_secs(30)), "{retry:?}")
                }
                JobOutcome::Wait(_, reason) | JobOutcome::Quarantine(reason) => panic!("{reason}"),
            }
        }
        for job in &jobs {
            fixture.run_until_done(job).await;
        }
        assert_eq!(fixture.row(&file).await["state"], "held");
        assert_eq!(completed(&fixture, &file), Some(true));
        assert_eq!(downloads(&slack).await.len(), round + 1);
    }
}

#[tokio::test]
async fn a_file_that_another_process_fetches_waits_and_is_shown_as_pending() {
    let (slack, fixture) = with_slack().await;
    bytes(&slack, "F01", b"hello").await;
    let job = fixture.share("C01", &fixture.file("F01", json!({}))).await;
    let other = fixture.another_claimant("other");
    let theirs = claim(&other, "F01").await;
    fixture.clock.advance(Duration::from_secs(12));
    let JobOutcome::Retry(retry) = fixture.handle(&job).await else { panic!("it is theirs") };
    assert_eq!(retry.after, Some(Duration::from_secs(18)), "{}", retry.reason);
    assert_eq!(fixture.row("F01").await["state"], "pending");
    assert!(downloads(&slack).await.is_empty());

    // The other process releases its claim.
    theirs.release().await;
    assert_eq!(fixture.handle(&job).await, JobOutcome::Done);
    assert_eq!(fixture.row("F01").await["state"], "held");
}

#[tokio::test]
async fn a_file_claimed_by_a_dead_downloader_is_fetched_after_the_lease() {
    let (slack, fixture) = with_slack().await;
    bytes(&slack, "F01", b"hello").await;
    let job = fixture.share("C01", &fixture.file("F01", json!({}))).await;
    let dead = fixture.another_claimant("dead");
    drop(claim(&dead, "F01").await);
    fixture.run_until_done(&job).await;
    assert_eq!(fixture.row("F01").await["state"], "held");
    assert_eq!(downloads(&slack).await.len(), 1);
}

#[tokio::test]
async fn a_file_that_is_not_stored_releases_its_claim_and_can_be_retried_at_once() {
    let (slack, fixture) = with_slack().await;
    answer(&slack, "F01", ResponseTemplate::new(410)).await;
    assert_eq!(fixture.fetch(&fixture.file("F01", json!({}))).await["verdict"], "gone");
    answer(&slack, "F02", ResponseTemplate::new(401)).await;
    assert_eq!(fixture.fetch(&fixture.file("F02", json!({}))).await["state"], "failed");
    answer(&slack, "F03", ResponseTemplate::new(503)).await;
    let job = fixture.share("C01", &fixture.file("F03", json!({}))).await;
    for _ in 0..2 {
        let JobOutcome::Retry(retry) = fixture.handle(&job).await else { panic!("503 is no answer") };
        assert_eq!(retry.after, None, "no other process works on it: {}", retry.reason);
    }
    assert!(fixture.claims.rows().is_empty());
}

#[tokio::test]
async fn a_completed_claim_does_not_prevent_a_retry() {
    let (slack, fixture) = with_slack().await;
    let file = fixture.file("F01", json!({ "size": 5 }));
    let job = fixture.share("C01", &file).await;
    // The claim is completed, but the row is not: another workspace that shares the channel has fetched the
    // file.
    claim(&fixture.another_claimant("elsewhere"), "F01").await.complete().await.unwrap();
    answer(&slack, "F01", ResponseTemplate::new(401)).await;
    assert_eq!(fixture.handle(&job).await, JobOutcome::Done);
    assert_eq!(fixture.row("F01").await["state"], "failed");
    assert_eq!(completed(&fixture, "F01"), None);

    claim(&fixture.another_claimant("elsewhere"), "F01").await.complete().await.unwrap();
    slack.reset().await;
    Mock::given(method("POST"))
        .and(path("/api/auth.test"))
        .respond_with(
            ResponseTemplate::new(200).set_body_json(json!({ "ok": true, "team_id": team().as_str() })),
        )
        .mount(&slack)
        .await;
    bytes(&slack, "F01", b"hello").await;
    info(&slack, &json!({ "ok": true, "file": file })).await;
    let retry = fixture.retry_job("F01").await;
    assert_eq!(fixture.handle(&retry).await, JobOutcome::Done);
    assert_eq!(fixture.row("F01").await["state"], "held");
    assert_eq!(completed(&fixture, "F01"), Some(true));
}

#[tokio::test]
async fn a_file_that_needs_no_request_needs_no_claim() {
    let (_slack, fixture) = with_slack().await;
    let _theirs = claim(&fixture.another_claimant("other"), "F01").await;
    assert_eq!(
        fixture.fetch(&fixture.file("F01", json!({ "mode": "tombstone" }))).await["verdict"],
        "tombstone"
    );
}

#[tokio::test]
async fn files_are_fetched_without_the_table_which_is_tried_again_after_a_minute() {
    let (slack, fixture) = with_slack().await;
    let table = Arc::new(FaultyClaims::new(fixture.claims.clone(), FaultPlan::fail_first(2)));
    let downloader = fixture.another_worker(claimant("one", table.clone(), &fixture.clock));
    for (file, after_s, calls) in
        [("F01", 0, 1), ("F02", 0, 1), ("F03", 59, 1), ("F04", 1, 2), ("F05", 60, 4)]
    {
        fixture.clock.advance(Duration::from_secs(after_s));
        bytes(&slack, file, b"hello").await;
        let job = fixture.share("C01", &fixture.file(file, json!({ "size": 5 }))).await;
        assert_eq!(downloader.handle(&[job]).await, [JobOutcome::Done]);
        assert_eq!(fixture.row(file).await["state"], "held");
        assert_eq!(table.calls(), calls, "{file}");
    }
    assert_eq!(completed(&fixture, "F04"), None);
    assert_eq!(completed(&fixture, "F05"), Some(true));
}

#[tokio::test]
async fn a_file_is_stored_even_if_its_claim_fails() {
    let (slack, fixture) = with_slack().await;
    for (number, (call, fault)) in [
        (PortMethod::Claim, CallFault::FailBefore),
        (PortMethod::Claim, CallFault::FailAfter),
        (PortMethod::Complete, CallFault::FailBefore),
        (PortMethod::Complete, CallFault::FailAfter),
    ]
    .into_iter()
    .enumerate()
    {
        let plan = FaultPlan::none().with_rule(call, 1..=1, fault);
        let table = FaultyClaims::new(fixture.claims.clone(), plan);
        let downloader = fixture.another_worker(claimant("one", Arc::new(table), &fixture.clock));
        let file = format!("F{number:02}");
        bytes(&slack, &file, b"hello").await;
        let [first, second] = two_jobs(&fixture, &file).await;
        for job in [first, second] {
            assert_eq!(downloader.handle(&[job]).await, [JobOutcome::Done], "{call:?} {fault:?}");
        }
        assert_eq!(fixture.row(&file).await["state"], "held");
        assert_eq!(downloads(&slack).await.len(), number + 1);
    }
}
