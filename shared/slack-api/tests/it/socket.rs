//! Connections of Socket Mode to a host that misbehaves.

use serde_json::{Value, json};
use slack_api::ApiError;
use slack_api::socket::{AppToken, SocketApi, SocketMessage, SocketSource};
use testkit::fake_slack::{FakeSlack, SlackAnswer};
use testkit::fake_socket::{APP_TOKEN, FakeSocket, FromClient, TICKET};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const MAX_MESSAGE_BYTES: usize = 1_000;

fn api(slack: &FakeSlack) -> SocketApi {
    SocketApi::new(slack.url().parse().unwrap(), AppToken::parse(APP_TOKEN).unwrap())
}

#[tokio::test]
async fn a_connection_gives_the_frames_of_slack_until_it_is_closed() {
    let slack = FakeSlack::start().await;
    let mut host = FakeSocket::start(&slack, 2).await;
    let api = api(&slack);
    let ticket = api.open().await.unwrap();
    assert!(ticket.given_at.is_some() && !format!("{ticket:?} {api:?}").contains(TICKET));
    assert_eq!(slack.calls()[0].token, APP_TOKEN);
    let mut connection = api.connect(ticket, MAX_MESSAGE_BYTES).await.unwrap();
    let mut side = host.next().await;
    side.send_text("any").await;
    side.send_binary(b"any").await;
    assert_eq!(connection.receive().await, Ok(SocketMessage::Text("any".to_owned())));
    assert_eq!(connection.receive().await, Ok(SocketMessage::Binary));
    connection.send(r#"{"envelope_id":"e"}"#.to_owned()).await.unwrap();
    assert_eq!(side.received().await, FromClient::Ack("e".to_owned()));
    connection.ping(7).await.unwrap();
    side.answer_ping().await;
    assert_eq!(connection.receive().await, Ok(SocketMessage::Pong(7)));
    let (closing, ()) = tokio::join!(side.received(), connection.close());
    assert_eq!(closing, FromClient::Close(Some(1000)));

    let ticket = api.open().await.unwrap();
    let mut connection = api.connect(ticket, MAX_MESSAGE_BYTES).await.unwrap();
    host.next().await.send_text(&"x".repeat(MAX_MESSAGE_BYTES + 1)).await;
    assert!(connection.receive().await.is_err(), "it is too large");
}

#[tokio::test]
async fn a_host_that_is_no_socket_is_an_error_without_the_ticket_and_never_gets_the_token() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let redirect = format!(
        "HTTP/1.1 302 Found\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n",
        elsewhere.local_addr().unwrap()
    );
    let upgrade = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n";
    for (answer, expected) in [
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "HTTP 404"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "HTTP 200"),
        (&redirect, "HTTP 302"),
        (&format!("{upgrade}\r\n"), "does not speak WebSocket"),
        (
            &format!("{upgrade}sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"),
            "does not speak WebSocket",
        ),
        ("no HTTP", ""),
        ("", ""),
    ] {
        let slack = FakeSlack::start().await;
        let host = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/link/?ticket={TICKET}", host.local_addr().unwrap());
        slack.plan_answers("apps.connections.open", [SlackAnswer::json(&json!({ "ok": true, "url": url }))]);
        let api = api(&slack);
        let ticket = api.open().await.unwrap();
        let answering = async {
            let (mut stream, _) = host.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(head[..length].to_vec()).unwrap()
        };
        let (connected, head) = tokio::join!(api.connect(ticket, MAX_MESSAGE_BYTES), answering);
        assert!(head.contains(TICKET) && !head.contains(APP_TOKEN), "{head}");
        let error = format!("{:?}", connected.unwrap_err());
        assert!(error.contains(expected) && !error.contains(TICKET), "{answer:?}: {error}");
    }
    assert!(
        tokio::time::timeout(std::time::Duration::ZERO, elsewhere.accept()).await.is_err(),
        "a redirect is not followed"
    );
}

#[tokio::test]
async fn an_address_that_is_not_one_of_slack_is_an_error_without_the_ticket() {
    let slack = FakeSlack::start().await;
    for url in [
        json!(format!("wss://wss.example.com/link/?ticket={TICKET}")),
        json!(format!("https://wss-primary.slack.com/link/?ticket={TICKET}")),
        json!(format!("ws://wss-primary.slack.com/link/?ticket={TICKET}")),
        json!(TICKET),
        json!([TICKET]),
        json!(7),
        Value::Null,
    ] {
        let answer = SlackAnswer::json(&json!({ "ok": true, "url": url }));
        slack.plan_answers("apps.connections.open", [answer]);
        let error = api(&slack).open().await.unwrap_err();
        assert!(matches!(error, ApiError::Garbled { .. }), "{url}: {error:?}");
        assert!(!format!("{error} {error:?}").contains(TICKET), "{error:?}");
    }
}
