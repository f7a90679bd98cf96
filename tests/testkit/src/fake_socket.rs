//! The other end of Socket Mode: a Slack on a local port, whose connections a test holds and drives.

use std::net::SocketAddr;
use std::time::Duration;

use fake_slack::SlackAnswer;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

use crate::fake_slack::FakeSlack;

/// The app-level token of tests.
pub const APP_TOKEN: &str = "xapp-1-A0ANNALIST-1-secret";

/// The app of that token.
pub const APP_ID: &str = "A0ANNALIST";

/// The part of an address that no program may show.
pub const TICKET: &str = "socket-ticket-of-a-test";

/// How long a client may take for what a test expects, on a machine that is busy compiling.
const DEADLINE: Duration = Duration::from_secs(30);

/// A host of sockets.
#[derive(Debug)]
pub struct FakeSocket {
    address: SocketAddr,
    opened: UnboundedReceiver<SlackSide>,
}

/// Slack's side of a connection.
#[derive(Debug)]
pub struct SlackSide(WebSocketStream<TcpStream>);

/// What Slack received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromClient {
    /// The id of an envelope that is acked.
    Ack(String),
    /// A close frame with this code.
    Close(Option<u16>),
    /// The connection ended without one.
    Broken,
}

impl FakeSocket {
    /// A host whose address the Slack gives for each of the next `tickets` calls.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn start(slack: &FakeSlack, tickets: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (sender, opened) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(side) = accept_async(stream).await
                    && sender.send(SlackSide(side)).is_err()
                {
                    break;
                }
            }
        });
        let socket = Self { address, opened };
        socket.give_tickets(slack, tickets);
        socket
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets the Slack give the address again.
    pub fn give_tickets(&self, slack: &FakeSlack, tickets: usize) {
        let url = format!("ws://{}/link/?ticket={TICKET}", self.address);
        let answer = SlackAnswer::json(&json!({ "ok": true, "url": url }));
        slack.plan_answers("apps.connections.open", std::iter::repeat_n(answer, tickets));
    }

    /// The next connection, before its hello.
    ///
    /// # Panics
    /// If no client opens one.
    pub async fn next(&mut self) -> SlackSide {
        let opened = timeout(DEADLINE, self.opened.recv()).await;
        opened.expect("a client opens a connection").expect("the host runs")
    }

    /// The next connection, which is ready.
    ///
    /// # Panics
    /// If no client opens one.
    pub async fn ready(&mut self) -> SlackSide {
        let mut side = self.next().await;
        side.hello(1).await;
        side
    }

    /// Whether no further connection was opened.
    pub fn is_quiet(&mut self) -> bool {
        self.opened.try_recv().is_err()
    }
}

impl SlackSide {
    /// Says that the connection is ready, and how many connections the app has.
    ///
    /// # Panics
    /// If the connection is closed.
    pub async fn hello(&mut self, num_connections: u64) {
        self.send(&json!({ "type": "hello", "num_connections": num_connections,
            "connection_info": { "app_id": APP_ID }, "debug_info": { "approximate_connection_time": 18_060 } }))
            .await;
    }

    /// Sends a frame that Slack does not use.
    ///
    /// # Panics
    /// If the connection is closed.
    pub async fn send_binary(&mut self, bytes: &'static [u8]) {
        self.0.send(Message::binary(bytes)).await.expect("the client is connected");
    }

    /// Answers the next ping of the client.
    ///
    /// # Panics
    /// If another frame arrives, or none.
    pub async fn answer_ping(&mut self) {
        let ping = timeout(DEADLINE, self.0.next()).await.expect("the client sends a ping");
        assert!(matches!(ping, Some(Ok(Message::Ping(_)))), "{ping:?}");
        // The pong was queued when the ping was read.
        self.0.flush().await.expect("the client is connected");
    }

    /// Sends a frame.
    ///
    /// # Panics
    /// If the connection is closed.
    pub async fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    /// Sends a text frame.
    ///
    /// # Panics
    /// If the connection is closed.
    pub async fn send_text(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.expect("the client is connected");
    }

    /// Sends an event; `body` is its payload.
    ///
    /// # Panics
    /// If the connection is closed.
    pub async fn event(&mut self, envelope_id: &str, body: &str, retry_attempt: u32) {
        let text = format!(
            r#"{{"envelope_id":"{envelope_id}","payload":{body},"type":"events_api","accepts_response_payload":false,"retry_attempt":{retry_attempt},"retry_reason":""}}"#
        );
        self.send_text(&text).await;
    }

    /// Asks the client to disconnect.
    ///
    /// # Panics
    /// If the connection is closed.
    pub async fn disconnect(&mut self, reason: &str) {
        self.send(&json!({ "type": "disconnect", "reason": reason, "debug_info": { "host": "wss-1" } }))
            .await;
    }

    /// The next frame of the client, its pings aside.
    ///
    /// # Panics
    /// If no frame arrives, or one that is not an ack.
    pub async fn received(&mut self) -> FromClient {
        timeout(DEADLINE, self.next()).await.expect("the client sends a frame")
    }

    /// The frame that has arrived within this time, if any.
    pub async fn received_within(&mut self, time: Duration) -> Option<FromClient> {
        timeout(time, self.next()).await.ok()
    }

    async fn next(&mut self) -> FromClient {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text).expect("an ack is JSON");
                    return FromClient::Ack(frame["envelope_id"].as_str().unwrap_or_default().to_owned());
                }
                Some(Ok(Message::Close(frame))) => {
                    return FromClient::Close(frame.map(|frame| frame.code.into()));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return FromClient::Broken,
            }
        }
    }
}
