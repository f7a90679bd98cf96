//! Verdicts on files without bytes, and failures that are retried.

use std::time::{Duration, Instant};

use ports::queue::Delivery;
use ports::queue::waiting::WaitCause;
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, ResponseTemplate};
use workers::runtime::JobOutcome;

use super::fixture::{DownloaderFixture, TOKEN, answer, bytes, downloads, info, settings, slack, with_slack};
use slack_api::{BotToken, Tokens};

#[tokio::test]
async fn a_file_that_the_message_decides_costs_no_request() {
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
async fn each_status_has_its_verdict() {
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
    assert_eq!(downloads(&slack).await.len(), 4, "no file is requested again");
}

#[tokio::test]
async fn a_brief_server_error_is_retried_and_a_lasting_one_is_a_failure() {
    let (slack, fixture) = with_slack().await;
    let server_error =
        Mock::given(path("/files/F01")).respond_with(ResponseTemplate::new(503)).up_to_n_times(2);
    server_error.mount(&slack).await;
    bytes(&slack, "F01", b"hello").await;
    let job = fixture.share("C01", &fixture.file("F01", json!({}))).await;
    assert!(matches!(fixture.handle(&job).await, JobOutcome::Retry(_)));
    assert_eq!(fixture.row("F01").await["state"], "pending");
    fixture.run_until_done(&job).await;
    assert_eq!(fixture.row("F01").await["state"], "held");

    answer(&slack, "F02", ResponseTemplate::new(500)).await;
    let job = fixture.share("C01", &fixture.file("F02", json!({}))).await;
    fixture.run_until_done(&job).await;
    let row = fixture.row("F02").await;
    assert_eq!((&row["state"], &row["error"]), (&json!("failed"), &json!("Slack answered 500")));
    let requests =
        downloads(&slack).await.iter().filter(|request| request.url.path() == "/files/F02").count();
    assert_eq!(requests, settings().file_tries as usize);
}

#[tokio::test]
async fn a_stub_is_looked_up_first() {
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
    let info_request = requests.iter().find(|request| request.url.path() == "/api/files.info").unwrap();
    assert!(String::from_utf8_lossy(&info_request.body).contains("file=F01"));
}

#[tokio::test]
async fn an_error_of_files_info_is_a_verdict_or_a_failure() {
    for (error, state, expected) in [
        ("file_not_found", "skipped", "not_found"),
        ("file_deleted", "skipped", "gone"),
        ("access_denied", "skipped", "access_denied"),
        ("missing_scope", "failed", "files:read"),
        ("something_new", "failed", "something_new"),
    ] {
        let slack = slack().await;
        let fixture = DownloaderFixture::for_slack(&slack);
        info(&slack, &json!({ "ok": false, "error": error })).await;
        let row = fixture.fetch(&json!({ "id": "F01", "file_access": "check_file_info" })).await;
        assert_eq!(row["state"], state, "{error}: {row}");
        let why = [&row["verdict"], &row["error"]].into_iter().find_map(Value::as_str).unwrap();
        assert!(why.contains(expected), "{error}: {why}");
        assert!(downloads(&slack).await.is_empty());
    }
}

#[tokio::test]
async fn a_malformed_files_info_response_is_retried() {
    for reply in [json!({ "ok": true }), json!({ "ok": true, "file": { "id": "F99" } }), json!([1])] {
        let slack = slack().await;
        let fixture = DownloaderFixture::for_slack(&slack);
        info(&slack, &reply).await;
        let job = fixture.share("C01", &json!({ "id": "F01" })).await;
        assert!(matches!(fixture.handle(&job).await, JobOutcome::Retry(_)), "{reply}");
        fixture.run_until_done(&job).await;
        assert_eq!(fixture.row("F01").await["state"], "failed");
    }
    let (slack, fixture) = with_slack().await;
    info(&slack, &json!({ "ok": true, "file": { "id": "F01", "name": "still no address" } })).await;
    assert_eq!(fixture.fetch(&json!({ "id": "F01" })).await["state"], "failed");
}

#[tokio::test]
async fn an_edited_snippet_is_fetched_in_its_current_version() {
    let (slack, fixture) = with_slack().await;
    bytes(&slack, "F01", b"longer than before").await;
    let job = fixture.share("C01", &fixture.file("F01", json!({ "size": 5 }))).await;
    assert!(matches!(fixture.handle(&job).await, JobOutcome::Retry(_)));
    info(&slack, &json!({ "ok": true, "file": fixture.file("F01", json!({ "size": 18 })) })).await;
    fixture.run_until_done(&job).await;
    assert_eq!(fixture.row("F01").await["size_bytes"], 18);
}

#[tokio::test]
async fn a_429_postpones_the_workspaces_downloads_and_is_not_a_try() {
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
    // With one try, a pause that counted as a try would fail the file.
    let once = workers::file_downloader::DownloadSettings { file_tries: 1, ..settings() };
    let fixture = DownloaderFixture::new(&slack.uri(), Tokens::one(BotToken::parse(TOKEN).unwrap()), once);
    let first = fixture.share("C01", &fixture.file("F01", json!({}))).await;
    let second = fixture.share("C02", &fixture.file("F02", json!({}))).await;

    let postponement = async |job| match fixture.handle(job).await {
        JobOutcome::Retry(retry) => retry.after.unwrap(),
        done @ (JobOutcome::Done | JobOutcome::Wait(..) | JobOutcome::Quarantine(_)) => panic!("{done:?}"),
    };
    assert_eq!(postponement(&first).await, Duration::from_secs(1));
    assert!(postponement(&second).await <= Duration::from_secs(1));
    assert_eq!(downloads(&slack).await.len(), 1, "the second file was not requested");
    // It is the only workspace, so its jobs stay on the queue until the pause ends.
    let began = Instant::now();
    workers::runtime::Worker::permit(&*fixture.worker).await;
    assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
    for job in [first, second] {
        let again = Delivery { receive_count: 2, ..job };
        assert_eq!(fixture.handle(&again).await, JobOutcome::Done);
    }
    let requests = slack.received_requests().await.unwrap();
    assert!(requests.iter().all(|request| !request.url.path().contains("files.info")), "no try failed");
    assert_eq!(fixture.row("F01").await["state"], "held");
    assert_eq!(fixture.row("F02").await["state"], "held");
}

#[tokio::test]
async fn a_file_waits_while_slack_refuses_the_token() {
    let slack = slack().await;
    let fixture = DownloaderFixture::for_slack(&slack);
    let waits = async |job: &Delivery| {
        let outcome = fixture.handle(job).await;
        assert!(
            matches!(&outcome, JobOutcome::Wait(WaitCause::Token, why) if why.contains("token")),
            "{outcome:?}"
        );
    };
    // The call for the file's metadata is refused.
    info(&slack, &json!({ "ok": false, "error": "invalid_auth" })).await;
    let unknown = fixture.share("C01", &json!({ "id": "F01", "file_access": "check_file_info" })).await;
    waits(&unknown).await;
    assert_eq!(fixture.row("F01").await["state"], "pending");
    // Slack wants a login for the bytes, because the token is refused.
    let file = fixture.share("C01", &fixture.file("F02", json!({}))).await;
    answer(&slack, "F02", ResponseTemplate::new(401)).await;
    Mock::given(path("/api/auth.test"))
        .respond_with(
            ResponseTemplate::new(200).set_body_json(json!({ "ok": false, "error": "token_revoked" })),
        )
        .with_priority(1)
        .mount(&slack)
        .await;
    waits(&file).await;
}

#[tokio::test]
async fn a_file_waits_after_its_last_try_only_while_slack_answers_nothing_at_all() {
    let slack = slack().await;
    let fixture = DownloaderFixture::for_slack(&slack);
    let last_try = async |id: &str| {
        let file = fixture.share("C01", &fixture.file(id, json!({}))).await;
        answer(&slack, id, ResponseTemplate::new(503)).await;
        fixture.handle(&Delivery { receive_count: settings().file_tries, ..file }).await
    };
    assert_eq!(last_try("F01").await, JobOutcome::Done);
    assert_eq!(fixture.row("F01").await["state"], "failed");
    let silent = Mock::given(path("/api/auth.test")).respond_with(ResponseTemplate::new(503));
    silent.with_priority(1).mount(&slack).await;
    let outcome = last_try("F02").await;
    assert!(matches!(&outcome, JobOutcome::Wait(WaitCause::Slack, _)), "{outcome:?}");
    assert_eq!(fixture.row("F02").await["state"], "pending");
}
