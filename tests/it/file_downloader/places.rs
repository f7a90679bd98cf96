//! Where the token goes: to Slack, and to nobody Slack or an event sends to.

use serde_json::json;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};
use workers::runtime::Outcome;

use super::fixture::{Fixture, TOKEN, answer, authorization, bytes, downloads, slack};

/// Somebody else, who would answer anything.
async fn somebody_else() -> MockServer {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(ResponseTemplate::new(200).set_body_string("hello")).mount(&server).await;
    server
}

fn redirect(to: &str) -> ResponseTemplate {
    ResponseTemplate::new(302).insert_header("location", to)
}

#[tokio::test]
async fn a_redirect_to_somebody_else_is_refused_and_the_token_stays() {
    let (slack, other) = (slack().await, somebody_else().await);
    let fixture = Fixture::of(&slack);
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
    assert!(other.received_requests().await.unwrap().is_empty(), "somebody else was asked");
    assert!(fixture.held().is_empty());
}

#[tokio::test]
async fn a_redirect_within_slack_keeps_the_token() {
    let slack = slack().await;
    let fixture = Fixture::of(&slack);
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
async fn redirects_end() {
    let slack = slack().await;
    let fixture = Fixture::of(&slack);
    answer(&slack, "F01", redirect("/files/F01")).await;
    answer(&slack, "F02", ResponseTemplate::new(302)).await;
    for id in ["F01", "F02"] {
        let job = fixture.share("C01", &fixture.file(id, json!({}))).await;
        fixture.insist(&job).await;
        let row = fixture.row(id).await;
        assert_eq!(row["error"], "Slack redirected without leading anywhere");
    }
    // Three tries of four requests, and three of one.
    assert_eq!(downloads(&slack).await.len(), 15);
}

#[tokio::test]
async fn an_address_that_is_not_slacks_is_never_asked() {
    let (slack, other) = (slack().await, somebody_else().await);
    let fixture = Fixture::of(&slack);
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
    assert!(other.received_requests().await.unwrap().is_empty(), "somebody else was asked");
}

#[tokio::test]
async fn a_download_address_is_taken_before_the_one_to_look_at() {
    let slack = slack().await;
    let fixture = Fixture::of(&slack);
    bytes(&slack, "F02", b"hello").await;
    let file = fixture.file("F01", json!({ "url_private_download": format!("{}/files/F02", slack.uri()) }));
    let job = fixture.share("C01", &file).await;
    assert_eq!(fixture.handle(&job).await, Outcome::Done);
    assert_eq!(fixture.held(), [b"hello"]);
}
