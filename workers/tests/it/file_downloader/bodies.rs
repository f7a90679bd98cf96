//! Response bodies, and which of them are stored as the file.

use serde_json::json;
use slack_api::{BotToken, Tokens};
use wiremock::ResponseTemplate;
use workers::file_downloader::DownloadSettings;

use super::fixture::{
    DownloaderFixture, TOKEN, answer, bytes, downloads, settings, short_timeouts, with_slack,
};
use testkit::scripted_http::{AfterAnswer, serve_answer};

const LOGIN_PAGE: &str = "<!DOCTYPE html><html><head><title>Login | Slack</title></head></html>";

fn page(content_type: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_raw(LOGIN_PAGE, content_type)
}

#[tokio::test]
async fn a_login_page_is_not_a_file() {
    let (slack, fixture) = with_slack().await;
    for (id, content_type) in [
        ("F01", "text/html"),
        ("F02", "text/html; charset=utf-8"),
        ("F03", "application/octet-stream"),
        ("F04", "image/png"),
    ] {
        answer(&slack, id, page(content_type)).await;
        let row =
            fixture.fetch(&fixture.file(id, json!({ "mimetype": "image/png", "filetype": "png" }))).await;
        assert_eq!(row["state"], "failed", "{content_type}");
        assert!(row["error"].as_str().unwrap().contains("files:read"), "{row}");
    }
    assert!(fixture.stored_bytes().is_empty());
    assert_eq!(downloads(&slack).await.len(), 4, "no file is requested again");
}

#[tokio::test]
async fn an_uploaded_page_is_a_file() {
    let (slack, fixture) = with_slack().await;
    for (id, fields) in [
        ("F01", json!({ "mimetype": "text/html", "filetype": "html", "size": LOGIN_PAGE.len() })),
        ("F02", json!({ "mimetype": "text/html" })),
        // Posts, lists and emails are rendered on request, so their announced length does not count.
        ("F03", json!({ "mode": "space", "filetype": "space", "size": 7 })),
        (
            "F04",
            json!({ "mode": "list", "filetype": "list", "mimetype": "application/vnd.slack-list", "size": 7 }),
        ),
        ("F05", json!({ "mode": "email", "filetype": "email", "mimetype": "text/html", "size": 7 })),
    ] {
        answer(&slack, id, page("text/html")).await;
        assert_eq!(fixture.fetch(&fixture.file(id, fields)).await["state"], "held");
    }
    assert_eq!(fixture.stored_bytes(), [LOGIN_PAGE.as_bytes(); 5]);
}

#[tokio::test]
async fn a_body_of_the_wrong_length_is_not_stored() {
    let (slack, fixture) = with_slack().await;
    for (id, size) in [("F01", 4), ("F02", 6), ("F03", 0)] {
        bytes(&slack, id, b"hello").await;
        let job = fixture.share("C01", &fixture.file(id, json!({ "size": size }))).await;
        fixture.run_until_done(&job).await;
        let row = fixture.row(id).await;
        assert_eq!(row["error"], format!("Slack announced {size} bytes and sent 5"));
    }
    assert!(fixture.stored_bytes().is_empty());
}

#[tokio::test]
async fn a_file_that_is_too_large_is_not_stored() {
    let (slack, fixture) = with_slack().await;
    // The message announces the size, so no request is made.
    let row = fixture.fetch(&fixture.file("F01", json!({ "size": 100_001 }))).await;
    assert_eq!(row["verdict"], "too_big");
    assert!(slack.received_requests().await.unwrap().iter().all(|request| request.method.as_str() != "GET"));
    // Only the response shows the size.
    bytes(&slack, "F02", &[7; 100_001]).await;
    assert_eq!(fixture.fetch(&fixture.file("F02", json!({}))).await["verdict"], "too_big");
    bytes(&slack, "F03", &[7; 100_000]).await;
    assert_eq!(fixture.fetch(&fixture.file("F03", json!({}))).await["state"], "held");
    assert_eq!(fixture.stored_bytes().len(), 1);
}

const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

async fn broken(answer: &'static [u8], then: AfterAnswer) -> (DownloaderFixture, serde_json::Value) {
    broken_within(short_timeouts(), answer, then).await
}

async fn broken_within(
    settings: DownloadSettings,
    answer: &'static [u8],
    then: AfterAnswer,
) -> (DownloaderFixture, serde_json::Value) {
    let url = serve_answer(answer, then).await;
    let fixture = DownloaderFixture::new(&url, Tokens::one(BotToken::parse(TOKEN).unwrap()), settings);
    let job = fixture.share("C01", &fixture.file("F01", json!({}))).await;
    fixture.run_until_done(&job).await;
    let row = fixture.row("F01").await;
    assert!(fixture.stored_bytes().is_empty(), "{row}");
    (fixture, row)
}

#[tokio::test]
async fn an_endless_body_is_cut_off_at_the_limit() {
    // Malformed chunks end the body as well. Short timeouts would end it before the limit on a busy machine.
    let (_, row) = broken_within(settings(), CHUNKED, AfterAnswer::Repeat(b"no size\r\n")).await;
    assert_eq!(row["state"], "failed", "{row}");
    const CHUNK: &[u8] = b"10\r\n0123456789abcdef\r\n";
    let (_, row) = broken_within(settings(), CHUNKED, AfterAnswer::Repeat(CHUNK)).await;
    assert_eq!(row["verdict"], "too_big", "{row}");
}

#[tokio::test]
async fn a_truncated_body_is_not_stored() {
    for (answer, then) in [
        (&b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf of it"[..], AfterAnswer::Close),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", AfterAnswer::Close),
        (b"HTTP/1.1 200 OK\r\ncontent-len", AfterAnswer::Close),
        (b"", AfterAnswer::Close),
        (b"\0\0\0\0", AfterAnswer::Close),
    ] {
        let (_, row) = broken(answer, then).await;
        assert_eq!(row["state"], "failed", "{row}");
    }
}

#[tokio::test]
async fn a_stalled_body_is_given_up() {
    for answer in [&b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"[..], b"HTTP/1.1 200 OK\r\n", b""] {
        let (_, row) = broken(answer, AfterAnswer::Stall).await;
        assert_eq!(row["state"], "failed", "{row}");
    }
}
