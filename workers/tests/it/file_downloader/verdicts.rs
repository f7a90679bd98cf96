//! Why there are no bytes, and what is asked again.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, ResponseTemplate};
use workers::runtime::JobOutcome;

use super::fixture::{DownloaderFixture, TOKEN, answer, bytes, downloads, info, settings, slack, with_slack};
use slack_api::{BotToken, Tokens};

#[tokio::test]
async fn what_the_message_says_is_enough_where_it_settles_a_file() {
    let (slack, fixture) = with_slack().await;
    for (id, fields, verdict) in [
        ("F01", json!({ "mode": "external", "is_external": true, "external_type": "gdrive" }), "external"),
        ("F02", json!({ "mode": "tombstone" }), "tombstone"),
        ("F03", json!({ "mode": "hidden_by_limit" }), "hidden_by_limit"),
        ("F04", json!({ "file_access": "access_denied" }), "access_denied"),
        ("F05", json!({ "file_access": "file_not_found" }), "not_found"),
        (
            "F06",
            json!({ "id": "F06", "is_external": true, "url_private": "https://docs.google.com/x" }),
            "external",
        ),
    ] {
        let row = fixture.fetch(&fixture.file(id, fields)).await;
        assert_eq!((&row["state"], &row["verdict"]), (&json!("skipped"), &json!(verdict)));
        assert_eq!(fixture.in_channel("C01").await["files_verdict"][id], verdict);
    }
    assert!(slack.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn each_status_means_what_it_says() {
    let (slack, fixture) = with_slack().await;
    for (id, status, verdict) in
        [("F01", 403, "access_denied"), ("F02", 404, "not_found"), ("F03", 410, "gone")]
    {
        answer(&slack, id, ResponseTemplate::new(status)).await;
        assert_eq!(fixture.fetch(&fixture.file(id, json!({}))).await["verdict"], verdict);
    }
    answer(&slack, "F04", ResponseTemplate::new(401)).await;
    let row = fixture.fetch(&fixture.file("F04", json!({}))).await;
    assert!(row["error"].as_str().unwrap().contains("files:read"), "{row}");
    let message = fixture.in_channel("C01").await;
    assert_eq!(message["files_fetch_failed"], true);
    assert!(message["files_fetch_error"].as_str().unwrap().contains("401"), "{message}");
    assert_eq!(downloads(&slack).await.len(), 4, "none of them is asked for again");
}

#[tokio::test]
async fn trouble_that_passes_is_waited_for_and_trouble_that_stays_is_a_failure() {
    let (slack, fixture) = with_slack().await;
    let trouble = Mock::given(path("/files/F01")).respond_with(ResponseTemplate::new(503)).up_to_n_times(2);
    trouble.mount(&slack).await;
    bytes(&slack, "F01", b"hello").await;
    let job = fixture.share("C01", &fixture.file("F01", json!({}))).await;
    assert!(matches!(fixture.handle(&job).await, JobOutcome::Retry(_)));
    assert_eq!(fixture.row("F01").await["state"], "pending");
    fixture.insist(&job).await;
    assert_eq!(fixture.row("F01").await["state"], "held");

    answer(&slack, "F02", ResponseTemplate::new(500)).await;
    let job = fixture.share("C01", &fixture.file("F02", json!({}))).await;
    fixture.insist(&job).await;
    let row = fixture.row("F02").await;
    assert_eq!((&row["state"], &row["error"]), (&json!("failed"), &json!("Slack answered 500")));
    let asked = downloads(&slack).await.iter().filter(|request| request.url.path() == "/files/F02").count();
    assert_eq!(asked, settings().file_tries as usize);
}

#[tokio::test]
async fn a_stub_is_asked_about_first() {
    let (slack, fixture) = with_slack().await;
    bytes(&slack, "F01", b"hello").await;
    info(
        &slack,
        &json!({ "ok": true, "file": fixture.file("F01", json!({ "name": "real.pdf", "size": 5 })) }),
    )
    .await;
    let stub = json!({ "id": "F01", "mode": "file_access", "file_access": "check_file_info" });
    let row = fixture.fetch(&stub).await;
    assert_eq!((&row["state"], &row["name"]), (&json!("held"), &json!("real.pdf")));
    let requests = slack.received_requests().await.unwrap();
    let asked = requests.iter().find(|request| request.url.path() == "/api/files.info").unwrap();
    assert!(String::from_utf8_lossy(&asked.body).contains("file=F01"));
}

#[tokio::test]
async fn what_files_info_refuses_is_a_verdict_or_a_failure() {
    for (error, state, says) in [
        ("file_not_found", "skipped", "not_found"),
        ("file_deleted", "skipped", "gone"),
        ("access_denied", "skipped", "access_denied"),
        ("missing_scope", "failed", "files:read"),
        ("invalid_auth", "failed", "token"),
        ("something_new", "failed", "something_new"),
    ] {
        let slack = slack().await;
        let fixture = DownloaderFixture::of(&slack);
        info(&slack, &json!({ "ok": false, "error": error })).await;
        let row = fixture.fetch(&json!({ "id": "F01", "file_access": "check_file_info" })).await;
        assert_eq!(row["state"], state, "{error}: {row}");
        let why = [&row["verdict"], &row["error"]].into_iter().find_map(Value::as_str).unwrap();
        assert!(why.contains(says), "{error}: {why}");
        assert!(downloads(&slack).await.is_empty());
    }
}

#[tokio::test]
async fn files_info_that_makes_no_sense_is_asked_again() {
    for reply in [json!({ "ok": true }), json!({ "ok": true, "file": { "id": "F99" } }), json!([1])] {
        let slack = slack().await;
        let fixture = DownloaderFixture::of(&slack);
        info(&slack, &reply).await;
        let job = fixture.share("C01", &json!({ "id": "F01" })).await;
        assert!(matches!(fixture.handle(&job).await, JobOutcome::Retry(_)), "{reply}");
        fixture.insist(&job).await;
        assert_eq!(fixture.row("F01").await["state"], "failed");
    }
    let (slack, fixture) = with_slack().await;
    info(&slack, &json!({ "ok": true, "file": { "id": "F01", "name": "still no address" } })).await;
    assert_eq!(fixture.fetch(&json!({ "id": "F01" })).await["state"], "failed");
}

#[tokio::test]
async fn an_edited_snippet_is_taken_as_it_is_now() {
    let (slack, fixture) = with_slack().await;
    bytes(&slack, "F01", b"longer than before").await;
    let job = fixture.share("C01", &fixture.file("F01", json!({ "size": 5 }))).await;
    assert!(matches!(fixture.handle(&job).await, JobOutcome::Retry(_)));
    info(&slack, &json!({ "ok": true, "file": fixture.file("F01", json!({ "size": 18 })) })).await;
    fixture.insist(&job).await;
    assert_eq!(fixture.row("F01").await["size_bytes"], 18);
}

#[tokio::test]
async fn a_429_pauses_everything_and_is_no_failure() {
    let slack = slack().await;
    let busy = ResponseTemplate::new(429).insert_header("retry-after", "1");
    Mock::given(method("GET"))
        .and(path("/files/F01"))
        .respond_with(busy)
        .up_to_n_times(1)
        .mount(&slack)
        .await;
    for id in ["F01", "F02"] {
        bytes(&slack, id, b"hello").await;
    }
    // One try is all there is: a pause that counted would be the end of it.
    let once = workers::file_downloader::DownloadSettings { file_tries: 1, ..settings() };
    let fixture = DownloaderFixture::new(&slack.uri(), Tokens::one(BotToken::parse(TOKEN).unwrap()), once);
    let first = fixture.share("C01", &fixture.file("F01", json!({}))).await;
    let second = fixture.share("C02", &fixture.file("F02", json!({}))).await;

    let told = async {
        while downloads(&slack).await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let began = Instant::now();
    let both = async {
        told.await;
        // The worker has its pause with the answer, which is on its way.
        while futures_util::poll!(std::pin::pin!(workers::runtime::Worker::permit(&*fixture.worker)))
            .is_ready()
        {
            tokio::task::yield_now().await;
        }
        assert_eq!(fixture.handle(&second).await, JobOutcome::Done);
        began.elapsed()
    };
    let (outcome, second_took) = tokio::join!(fixture.handle(&first), both);
    assert_eq!(outcome, JobOutcome::Done);
    assert!(second_took >= Duration::from_millis(900), "the other file waited as well: {second_took:?}");
    assert_eq!(fixture.row("F01").await["state"], "held");
    assert_eq!(fixture.row("F02").await["state"], "held");
}
