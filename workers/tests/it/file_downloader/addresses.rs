//! The token is sent to Slack, and to no other host that Slack or an event points to.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use ports::queue::Delivery;
use serde_json::json;
use slack_api::transport::{ResponseBody, SlackRequest, SlackResponse, StatusCode, Transport};
use slack_api::{ApiUrl, BotToken, Tokens, WebApi};
use testkit::corpus::{TEAM, event};
use wiremock::matchers::{any, path};
use wiremock::{Mock, MockServer, ResponseTemplate};
use workers::file_downloader::FileDownloader;
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{
    DownloaderFixture, TOKEN, TS, answer, authorization, bytes, downloads, settings, slack, with_slack,
};

/// Another host, which would answer every request.
async fn another_host() -> MockServer {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(ResponseTemplate::new(200).set_body_string("hello")).mount(&server).await;
    server
}

fn redirect(to: &str) -> ResponseTemplate {
    ResponseTemplate::new(302).insert_header("location", to)
}

#[tokio::test]
async fn a_redirect_to_another_host_is_refused_and_the_token_is_not_sent() {
    let (slack, other) = (slack().await, another_host().await);
    let fixture = DownloaderFixture::for_slack(&slack);
    for (number, to) in [
        format!("{}/files/F01", other.uri()),
        format!("http://user:pass@{}/files/F01", slack.address()),
        format!("//{}/f", other.address()),
        "https://files.slack.com.example.com/f".to_owned(),
        "http://files.slack.com/f".to_owned(),
        "https://team.slack.com/?redir=x".to_owned(),
        "ftp://files.slack.com/f".to_owned(),
        "file:///etc/passwd".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let id = format!("F{number:02}");
        answer(&slack, &id, redirect(to)).await;
        let row = fixture.fetch(&fixture.file(&id, json!({}))).await;
        assert_eq!(row["state"], "failed", "{to}: {row}");
        let error = row["error"].as_str().unwrap();
        assert!(error.contains("files:read") && !error.contains("pass"), "{error}");
    }
    assert!(other.received_requests().await.unwrap().is_empty(), "another host was called");
    assert!(fixture.stored_bytes().is_empty());
}

#[tokio::test]
async fn a_redirect_within_slack_keeps_the_token() {
    let (slack, fixture) = with_slack().await;
    answer(&slack, "F01", redirect("/files/F02?origin=1")).await;
    answer(&slack, "F02", redirect(&format!("{}/files/F03", slack.uri()))).await;
    answer(&slack, "F03", redirect("F04")).await;
    bytes(&slack, "F04", b"hello").await;
    assert_eq!(fixture.fetch(&fixture.file("F01", json!({}))).await["state"], "held");
    let requests = downloads(&slack).await;
    assert_eq!(requests.len(), 4);
    let bearer = format!("Bearer {TOKEN}");
    assert!(requests.iter().all(|request| authorization(request) == Some(&bearer)));
}

#[tokio::test]
async fn endless_redirects_fail() {
    let (slack, fixture) = with_slack().await;
    answer(&slack, "F01", redirect("/files/F01")).await;
    answer(&slack, "F02", ResponseTemplate::new(302)).await;
    for id in ["F01", "F02"] {
        let job = fixture.share("C01", &fixture.file(id, json!({}))).await;
        fixture.run_until_done(&job).await;
        let row = fixture.row(id).await;
        assert_eq!(row["error"], "Slack redirected without leading anywhere");
    }
    // Three tries of four requests, and three of one.
    assert_eq!(downloads(&slack).await.len(), 15);
}

#[tokio::test]
async fn an_address_that_is_not_slacks_is_never_requested() {
    let (slack, other) = (slack().await, another_host().await);
    let fixture = DownloaderFixture::for_slack(&slack);
    for (number, url) in [
        format!("{}/f", other.uri()),
        format!("http://user:pass@{}/f", slack.address()),
        format!("http://user@{}/f", slack.address()),
        format!("http://localhost:{}/f", slack.address().port()),
        format!("https://{}/f", slack.address()),
        "https://files.slack.com:8443/f".to_owned(),
        "http://files.slack.com/f".to_owned(),
        "https://docs.google.com/f".to_owned(),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "ftp://files.slack.com/f".to_owned(),
        "file:///etc/passwd".to_owned(),
        "javascript:alert(1)".to_owned(),
        "not a url".to_owned(),
        "\u{1b}[2J".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let id = format!("F{number:02}");
        let row = fixture.fetch(&fixture.file(&id, json!({ "url_private": url }))).await;
        assert_eq!(row["state"], "failed", "{url}: {row}");
        assert!(!row["error"].as_str().unwrap().contains("pass"), "{row}");
    }
    assert!(downloads(&slack).await.is_empty());
    assert!(other.received_requests().await.unwrap().is_empty(), "another host was called");
}

#[tokio::test]
async fn another_address_or_length_of_a_known_id_is_another_version_and_each_message_has_its_own() {
    let (slack, fixture) = with_slack().await;
    // A forged event has used the id before the file was shared.
    bytes(&slack, "EVIL", b"EVILBYTES").await;
    let once = ResponseTemplate::new(200).set_body_raw("hello", "application/octet-stream");
    Mock::given(path("/files/F01")).respond_with(once).up_to_n_times(1).mount(&slack).await;
    bytes(&slack, "F01", b"hello!!").await;
    let forged =
        fixture.file("F01", json!({ "url_private": format!("{}/files/EVIL", slack.uri()), "size": 9 }));
    let genuine = fixture.file("F01", json!({ "size": 5 }));
    let (forged, genuine) = (fixture.share("C01", &forged).await, fixture.share("C02", &genuine).await);
    for job in [&forged, &genuine, &forged, &genuine] {
        assert_eq!(fixture.handle(job).await, JobOutcome::Done);
    }
    assert_eq!(downloads(&slack).await.len(), 2);
    let uri = |channel: &str| format!("slack/{TEAM}/{channel}/{TS}/F01");
    assert_eq!(fixture.in_channel("C01").await["files_s3"], json!([uri("C01")]));
    assert_eq!(fixture.in_channel("C02").await["files_s3"], json!([uri("C02")]));
    let row = fixture.row("F01").await;
    assert_eq!((&row["uri"], &row["other_uris"]), (&json!(uri("C02")), &json!([uri("C01")])));
    assert_eq!(fixture.stored_bytes(), [&b"EVILBYTES"[..], b"hello"]);
    // A redelivery writes the version of each message once more.
    for job in [&forged, &genuine] {
        assert_eq!(fixture.handle(&Delivery { receive_count: 2, ..job.clone() }).await, JobOutcome::Done);
    }
    assert_eq!(fixture.in_channel("C01").await["files_s3"], json!([uri("C01")]));

    // A text that was edited, in its own message.
    let longer = fixture.share("C02", &fixture.file("F01", json!({ "size": 7 }))).await;
    assert_eq!(fixture.handle(&longer).await, JobOutcome::Done);
    let shown = fixture.in_channel("C02").await["files_s3"][0].as_str().unwrap().to_owned();
    assert!(shown.starts_with(&format!("{}.", uri("C02"))), "{shown}");
    assert_eq!(fixture.stored_bytes(), [&b"EVILBYTES"[..], b"hello", b"hello!!"]);
}

/// A Slack whose addresses have the real shape. It knows only the file F01.
#[derive(Debug, Default)]
struct RealSlack {
    requested_paths: Mutex<Vec<String>>,
}

#[async_trait]
impl Transport for RealSlack {
    async fn send_request(&self, question: SlackRequest<'_>) -> Result<SlackResponse, String> {
        self.requested_paths.lock().unwrap().push(question.url.path().to_owned());
        let reply = |content_type, bytes: Vec<u8>| SlackResponse {
            status: StatusCode::OK,
            headers: [(CONTENT_TYPE, HeaderValue::from_static(content_type))].into_iter().collect(),
            size_bytes: None,
            body: Box::new(Whole(Some(bytes.into()))),
        };
        Ok(match question.url.path() {
            "/api/files.info" => {
                let file = json!({ "ok": true, "file": event::file("F01", "U01") });
                reply("application/json", file.to_string().into_bytes())
            }
            "/api/auth.test" => {
                reply("application/json", json!({ "ok": true, "team_id": TEAM }).to_string().into_bytes())
            }
            path if path.contains("F01/") => reply("text/plain", b"hello, world".to_vec()),
            _ => reply("text/plain", b"EVILBYTES".to_vec()),
        })
    }
}

#[derive(Debug)]
struct Whole(Option<Bytes>);

#[async_trait]
impl ResponseBody for Whole {
    async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        Ok(self.0.take())
    }
}

#[tokio::test]
async fn the_address_of_another_file_is_not_requested_and_slack_is_called_for_the_right_one() {
    let slack = Arc::new(RealSlack::default());
    let fixture = DownloaderFixture::new("http://127.0.0.1:1", Tokens::empty(), settings());
    let web = WebApi::with_transport(
        slack.clone(),
        ApiUrl::default(),
        Tokens::one(BotToken::parse(TOKEN).unwrap()),
    );
    let worker = FileDownloader::new(
        fixture.archive.clone(),
        Arc::new(fixture.files.clone()),
        Arc::new(web),
        fixture.another_claimant("real"),
        settings(),
    );
    let evil = format!("https://files.slack.com/files-pri/{TEAM}-F0EVIL/F01.txt");
    let forged = event::with_fields(
        event::file("F01", "U01"),
        [("url_private", json!(evil)), ("url_private_download", json!(evil)), ("size", json!(9))],
    );
    let (forged, genuine) =
        (fixture.share("C01", &forged).await, fixture.share("C02", &event::file("F01", "U01")).await);
    for job in [&forged, &genuine, &forged] {
        assert_eq!(worker.handle(std::slice::from_ref(job)).await, [JobOutcome::Done]);
    }
    assert_eq!(fixture.stored_bytes(), [b"hello, world"]);
    let paths = slack.requested_paths.lock().unwrap().clone();
    assert!(!paths.iter().any(|path| path.contains("EVIL")), "{paths:?}");
    assert_eq!(paths.iter().filter(|path| path.starts_with("/files-pri/")).count(), 1, "{paths:?}");
    assert_eq!(fixture.in_channel("C01").await["files_s3"], fixture.in_channel("C02").await["files_s3"]);
}

#[tokio::test]
async fn the_download_address_is_preferred_to_the_private_one() {
    let (slack, fixture) = with_slack().await;
    bytes(&slack, "F02", b"hello").await;
    let file = fixture.file("F01", json!({ "url_private_download": format!("{}/files/F02", slack.uri()) }));
    let job = fixture.share("C01", &file).await;
    assert_eq!(fixture.handle(&job).await, JobOutcome::Done);
    assert_eq!(fixture.stored_bytes(), [b"hello"]);
}
