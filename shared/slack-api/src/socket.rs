//! Socket Mode: opens a connection to Slack and gives its frames. It knows no queue, and not what a frame means.
//! <https://docs.slack.dev/apis/events-api/using-socket-mode>
//!
//! The connection is an upgraded request of the one HTTP client, so it has the same TLS, certificates and proxy
//! as every other request. The app-level token goes to the Web API only; the host of the socket gets the ticket
//! that is part of its URL, a secret too.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{SinkExt, StreamExt};
use reqwest::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use reqwest::{StatusCode, Upgraded, Url};
use serde::Deserialize;
use slack::envelope::text_or_none;
use slack::ids::Ts;

use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::hosts::may_open_socket;
use super::http::{Http, describe};
use super::transport::{SlackRequest, Transport};
use super::{ApiError, ApiReply, ApiUrl, BotToken, Method, TokenKind};

/// The timeout of the upgrade; Slack answers within a fraction of a second.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout for writing a frame: frames of ours are tiny, so a connection that takes none is dead.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long Slack may take to answer a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// An app-level token, `xapp-…`, with the scope `connections:write`.
#[derive(Debug, Clone)]
pub struct AppToken(BotToken);

impl AppToken {
    /// Accepts an app-level token. The error says what the text is instead, and does not contain it.
    ///
    /// # Errors
    /// If it is another token, or none.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let token = BotToken::parse(text.trim()).map_err(|_| "it is not a token")?;
        match token.kind() {
            TokenKind::App => Ok(Self(token)),
            TokenKind::Bot => Err("it is a bot token (xoxb-…)"),
            TokenKind::User => Err("it is a user token (xoxp-…)"),
            TokenKind::Refresh => Err("it is a refresh token (xoxe-…)"),
            TokenKind::Other => Err("it is no app-level token, which begins with xapp-"),
        }
    }
}

/// Opens connections. A test on virtual time replaces it with a simulated Slack, as it does the transport.
#[async_trait]
pub trait SocketSource: fmt::Debug + Send + Sync {
    /// Asks Slack for the address of a connection.
    ///
    /// # Errors
    /// [`ApiError`], once, without waiting for a pause that Slack requests.
    async fn open(&self) -> Result<SocketTicket, ApiError>;

    /// Opens the connection. It is ready when Slack says hello.
    ///
    /// # Errors
    /// [`SocketError`] if the host does not answer as a socket of Slack.
    async fn connect(
        &self,
        ticket: SocketTicket,
        max_message_bytes: usize,
    ) -> Result<Box<dyn SocketStream>, SocketError>;
}

/// An open connection.
#[async_trait]
pub trait SocketStream: fmt::Debug + Send {
    /// The next message. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`SocketError`] if the connection broke, or a frame is malformed or too large.
    async fn receive(&mut self) -> Result<SocketMessage, SocketError>;

    /// Sends a text frame.
    ///
    /// # Errors
    /// [`SocketError`] if the connection broke or takes no data.
    async fn send(&mut self, text: String) -> Result<(), SocketError>;

    /// Sends a ping with a number, which Slack answers with a pong that has the same one.
    ///
    /// # Errors
    /// As [`SocketStream::send`].
    async fn ping(&mut self, number: u64) -> Result<(), SocketError>;

    /// Closes the connection with 1000, and waits briefly for Slack's own close frame: Slack does not end the TCP
    /// connection afterwards.
    async fn close(self: Box<Self>);
}

/// Opens connections to Slack with one token.
#[derive(Debug)]
pub struct SocketApi {
    url: ApiUrl,
    token: AppToken,
    http: Http,
}

/// An address for one connection.
pub struct SocketTicket {
    url: Url,
    /// When Slack gave it, by its own clock, to the second.
    pub given_at: Option<Ts>,
}

impl SocketTicket {
    /// A ticket with this address.
    pub fn new(url: Url, given_at: Option<Ts>) -> Self {
        Self { url, given_at }
    }
}

/// Without the address, which is a secret.
impl fmt::Debug for SocketTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketTicket").field("given_at", &self.given_at).finish_non_exhaustive()
    }
}

/// Why a connection cannot be opened, or no longer be used. It does not contain the ticket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SocketError(pub String);

/// What a connection received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketMessage {
    /// A text frame.
    Text(String),
    /// A frame that Slack does not use.
    Binary,
    /// The answer to the ping with this number: the connection was alive after the ping.
    Pong(u64),
    /// A ping of Slack: the connection was alive when Slack sent it.
    Heartbeat,
    /// Slack closes the connection.
    Closed,
}

/// A WebSocket.
#[derive(Debug)]
struct SocketConnection(WebSocketStream<Upgraded>);

#[derive(Deserialize)]
struct Opened<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    url: Option<Cow<'a, str>>,
}

impl SocketApi {
    /// Opens connections at this API with this token. It sends no request before the first one.
    pub fn new(url: ApiUrl, token: AppToken) -> Self {
        let http = Http::new(url.is_loopback());
        Self { url, token, http }
    }

    async fn upgrade(&self, ticket: SocketTicket) -> Result<Upgraded, SocketError> {
        let client = self.http.client().map_err(SocketError)?;
        let key = generate_key();
        let request = client
            .get(as_http(&ticket.url)?)
            .header(CONNECTION, HeaderValue::from_static("Upgrade"))
            .header(UPGRADE, HeaderValue::from_static("websocket"))
            .header("sec-websocket-version", HeaderValue::from_static("13"))
            .header(SEC_WEBSOCKET_KEY, &key);
        let response = request.send().await.map_err(|error| SocketError(describe(error)))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(SocketError(format!("HTTP {}", response.status().as_u16())));
        }
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accepted.is_none_or(|accepted| accepted.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes())
        {
            return Err(SocketError("the host does not speak WebSocket".to_owned()));
        }
        response.upgrade().await.map_err(|error| SocketError(describe(error)))
    }
}

#[async_trait]
impl SocketSource for SocketApi {
    async fn open(&self) -> Result<SocketTicket, ApiError> {
        let method = Method::AppsConnectionsOpen;
        let request = SlackRequest {
            url: self.url.method(method.name()),
            token: Some(&self.token.0),
            form: Some(&[]),
            time_limit: Some(method.time_limit()),
        };
        let response = self.http.send_request(request).await;
        let response = response.map_err(|why| ApiError::Unreachable { method, why })?;
        let reply = ApiReply::receive(method, response).await?;
        let opened: Opened<'_> = reply.read()?;
        let url = opened.url.and_then(|url| Url::parse(&url).ok());
        let url = url.ok_or(ApiError::Garbled { method, why: "it has no address" })?;
        if !may_open_socket(&url, &self.url) {
            return Err(ApiError::Garbled { method, why: "its address is not one of Slack" });
        }
        Ok(SocketTicket { url, given_at: reply.date().cloned() })
    }

    async fn connect(
        &self,
        ticket: SocketTicket,
        max_message_bytes: usize,
    ) -> Result<Box<dyn SocketStream>, SocketError> {
        let upgraded = timeout(UPGRADE_TIMEOUT, self.upgrade(ticket)).await;
        let upgraded = upgraded.map_err(|_| SocketError("no answer in time".to_owned()))??;
        let config = WebSocketConfig::default()
            .max_message_size(Some(max_message_bytes))
            .max_frame_size(Some(max_message_bytes));
        let stream = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        Ok(Box::new(SocketConnection(stream)))
    }
}

/// The same address for an HTTP client. It was checked before.
fn as_http(socket: &Url) -> Result<Url, SocketError> {
    let text = match socket.scheme() {
        "wss" => socket.as_str().replacen("wss", "https", 1),
        _ => socket.as_str().replacen("ws", "http", 1),
    };
    Url::parse(&text).map_err(|_| SocketError("the address cannot be used".to_owned()))
}

#[async_trait]
impl SocketStream for SocketConnection {
    async fn receive(&mut self) -> Result<SocketMessage, SocketError> {
        match self.0.next().await {
            None | Some(Ok(Message::Close(_))) => Ok(SocketMessage::Closed),
            Some(Ok(Message::Text(text))) => Ok(SocketMessage::Text(text.as_str().to_owned())),
            Some(Ok(Message::Binary(_) | Message::Frame(_))) => Ok(SocketMessage::Binary),
            Some(Ok(Message::Ping(_))) => Ok(SocketMessage::Heartbeat),
            Some(Ok(Message::Pong(payload))) => Ok(match <[u8; 8]>::try_from(&payload[..]) {
                Ok(number) => SocketMessage::Pong(u64::from_be_bytes(number)),
                Err(_) => SocketMessage::Heartbeat,
            }),
            Some(Err(error)) => Err(SocketError(error.to_string())),
        }
    }

    async fn send(&mut self, text: String) -> Result<(), SocketError> {
        self.write(Message::Text(text.into())).await
    }

    async fn ping(&mut self, number: u64) -> Result<(), SocketError> {
        self.write(Message::Ping(Bytes::copy_from_slice(&number.to_be_bytes()))).await
    }

    async fn close(mut self: Box<Self>) {
        let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        let closing = async {
            if self.0.close(Some(frame)).await.is_ok() {
                while let Some(Ok(message)) = self.0.next().await {
                    if message.is_close() {
                        break;
                    }
                }
            }
        };
        // After the timeout the connection is dropped all the same.
        let _: Result<(), _> = timeout(CLOSE_TIMEOUT, closing).await;
    }
}

impl SocketConnection {
    async fn write(&mut self, message: Message) -> Result<(), SocketError> {
        match timeout(WRITE_TIMEOUT, self.0.send(message)).await {
            Ok(sent) => sent.map_err(|error| SocketError(error.to_string())),
            Err(_) => Err(SocketError("the connection takes no data".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_app_level_token_is_accepted_and_no_error_contains_it() {
        assert!(AppToken::parse(" xapp-1-A1-2-abc\n").is_ok());
        for (text, expected) in [
            ("xoxb-hidden", "bot token"),
            ("xoxp-hidden", "user token"),
            ("hidden", "xapp-"),
            ("a hidden", "token"),
        ] {
            let error = AppToken::parse(text).unwrap_err();
            assert!(error.contains(expected) && !error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn an_address_becomes_one_of_http_and_is_never_shown() {
        for (socket, http) in [
            (
                "wss://wss-primary.slack.com/link/?ticket=ws%26a",
                "https://wss-primary.slack.com/link/?ticket=ws%26a",
            ),
            ("ws://127.0.0.1:8080/?ticket=x", "http://127.0.0.1:8080/?ticket=x"),
        ] {
            let url = Url::parse(socket).unwrap();
            assert_eq!(as_http(&url).unwrap().as_str(), http);
            assert!(!format!("{:?}", SocketTicket { url, given_at: None }).contains("ticket="));
        }
    }
}
