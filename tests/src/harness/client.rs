//! Simulates Slack: sends signed requests over one keep-alive connection and retries them as Slack does.
//!
//! <https://docs.slack.dev/apis/events-api/#retries>

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use ports::clock::{SharedClock, SystemClock};
use secrecy::SecretString;
use serde_json::Value;
use slack::signature::SigningSecrets;
use testkit::corpus::event;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::environment::ProgramEnvironment;
use super::process::{self, SIGNING_SECRET};

/// Slack's timeout for a response.
pub const SLACK_TIMEOUT: Duration = Duration::from_secs(3);
/// The path for events, which is also Bolt's default.
pub const PATH: &str = "/slack/events";

/// Why a delivery counts as failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// No connection, or it broke before the response was complete.
    #[error("connection failed: {0}")]
    Connection(String),
    /// The response took longer than [`SLACK_TIMEOUT`].
    #[error("no answer in time")]
    Timeout,
    /// A status other than 200.
    #[error("answered {0}")]
    Status(StatusCode),
}

impl DeliveryError {
    /// Slack's value for this error in `x-slack-retry-reason`.
    pub fn retry_reason(&self) -> &'static str {
        match self {
            Self::Connection(_) => "connection_failed",
            Self::Timeout => "http_timeout",
            Self::Status(_) => "http_error",
        }
    }
}

/// A complete response.
#[derive(Debug)]
pub struct ClientResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// The delay before each retry; after the last one, the client gives up.
#[derive(Debug, Clone)]
pub struct RetryDelays(pub Vec<Duration>);

impl RetryDelays {
    /// Slack's three retries (at once, a minute later, five minutes later) and the hourly ones of a day that "Delayed
    /// Events" adds, with `minute` for a minute.
    pub fn slack(minute: Duration) -> Self {
        let first = [Duration::ZERO, minute, 5 * minute];
        Self(first.into_iter().chain(std::iter::repeat_n(60 * minute, 24)).collect())
    }

    /// No retries.
    pub fn none() -> Self {
        Self(Vec::new())
    }
}

/// Delivers events of a workspace in order, each with its own event id. Each must be accepted at the first
/// attempt.
///
/// # Panics
/// If one is not accepted.
pub async fn deliver(server: SocketAddr, team: &str, events: &[Value]) {
    static DELIVERED: AtomicU64 = AtomicU64::new(0);
    let mut slack = EventClient::for_address(server, RetryDelays::none());
    for event in events {
        let event_id = format!("EvNew{}", DELIVERED.fetch_add(1, Ordering::Relaxed));
        assert_eq!(slack.deliver(&event::envelope(team, &event_id, event)).await, Ok(1), "{event}");
    }
}

/// Starts `annalist up`, delivers events to it, and stops it once they are `drained`.
///
/// # Panics
/// If an event is not accepted, or the process does not end with success.
pub async fn deliver_through_up(
    environment: &(impl ProgramEnvironment + ?Sized),
    team: &str,
    events: &[Value],
    drained: impl Future<Output = ()>,
) {
    let up = process::up(environment).await;
    deliver(up.address, team, events).await;
    drained.await;
    up.process.stop().await;
}

/// One of Slack's senders. It uses the server's current address, which changes with a restart.
pub struct EventClient {
    server: watch::Receiver<SocketAddr>,
    path: String,
    secrets: SigningSecrets,
    clock: SharedClock,
    delays: RetryDelays,
    connection: Option<(SocketAddr, SendRequest<Full<Bytes>>)>,
}

impl EventClient {
    /// A sender with the harness's secret and the machine's clock.
    ///
    /// # Panics
    /// Never: the secret is valid.
    pub fn new(server: watch::Receiver<SocketAddr>, delays: RetryDelays) -> Self {
        let secrets = SigningSecrets::parse(&SecretString::from(SIGNING_SECRET)).expect("one secret");
        let path = PATH.to_owned();
        Self { server, path, secrets, clock: SystemClock::shared(), delays, connection: None }
    }

    /// Sends to this path from now on.
    pub fn set_path(&mut self, path: &str) {
        path.clone_into(&mut self.path);
    }

    /// A sender to a server with a fixed address.
    pub fn for_address(address: SocketAddr, delays: RetryDelays) -> Self {
        Self::new(watch::channel(address).1, delays)
    }

    /// Delivers an event as Slack does: sends the same body until the response is 200, with a new signature
    /// each time. Returns the number of requests.
    ///
    /// # Errors
    /// The last failure, once the retries are used up or the server has declined retries.
    pub async fn deliver(&mut self, body: &str) -> Result<u32, DeliveryError> {
        let mut attempts = 1;
        let mut failure = match self.attempt(body, None).await {
            Ok(()) => return Ok(attempts),
            Err(failure) => failure,
        };
        for delay in self.delays.0.clone() {
            if failure.no_retry {
                break;
            }
            sleep(delay).await;
            match self.attempt(body, Some((attempts, failure.error.retry_reason()))).await {
                Ok(()) => return Ok(attempts + 1),
                Err(next) => failure = next,
            }
            attempts += 1;
        }
        Err(failure.error)
    }

    /// Sends one signed request and returns the response with any status.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn post(
        &mut self,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Result<ClientResponse, DeliveryError> {
        let timestamp_s = self.clock.now().seconds();
        let signature = self.secrets.sign(timestamp_s, body.as_bytes());
        let timestamp_s = timestamp_s.to_string();
        let signed = [("x-slack-request-timestamp", timestamp_s.as_str()), ("x-slack-signature", &signature)];
        self.post_unsigned(body, &[&signed, headers].concat()).await
    }

    /// Sends one request with these headers and no signature.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn post_unsigned(
        &mut self,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Result<ClientResponse, DeliveryError> {
        let answer = timeout(SLACK_TIMEOUT, self.exchange(body, headers)).await;
        let answer = answer.unwrap_or(Err(DeliveryError::Timeout));
        if answer.is_err() {
            self.connection = None;
        }
        answer
    }

    async fn attempt(&mut self, body: &str, retry: Option<(u32, &str)>) -> Result<(), DeliveryFailure> {
        let number;
        let headers = match retry {
            Some((n, reason)) => {
                number = n.to_string();
                vec![("x-slack-retry-num", number.as_str()), ("x-slack-retry-reason", reason)]
            }
            None => Vec::new(),
        };
        let answer =
            self.post(body, &headers).await.map_err(|error| DeliveryFailure { error, no_retry: false })?;
        if answer.status == StatusCode::OK {
            return Ok(());
        }
        let no_retry = answer.headers.get("x-slack-no-retry").is_some_and(|value| value == "1");
        Err(DeliveryFailure { error: DeliveryError::Status(answer.status), no_retry })
    }

    async fn exchange(
        &mut self,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Result<ClientResponse, DeliveryError> {
        let mut request = Request::post(&self.path)
            .header("host", "annalist.test")
            .header("user-agent", "Slackbot 1.0 (+https://api.slack.com/robots)")
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request =
            request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).map_err(connection_failed)?;
        let connection = self.connected().await?;
        // The last response may have been read before the connection was marked as free again.
        connection.ready().await.map_err(connection_failed)?;
        let response = connection.send_request(request).await.map_err(connection_failed)?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(connection_failed)?.to_bytes();
        Ok(ClientResponse { status: head.status, headers: head.headers, body })
    }

    async fn connected(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, DeliveryError> {
        let address = *self.server.borrow_and_update();
        let usable = self.connection.take_if(|(to, sender)| *to == address && !sender.is_closed());
        let connection = match usable {
            Some(connection) => connection,
            None => (address, connect(address).await?),
        };
        Ok(&mut self.connection.insert(connection).1)
    }
}

struct DeliveryFailure {
    error: DeliveryError,
    no_retry: bool,
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>, DeliveryError> {
    let stream = TcpStream::connect(address).await.map_err(connection_failed)?;
    stream.set_nodelay(true).map_err(connection_failed)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(connection_failed)?;
    tokio::spawn(connection);
    sender.ready().await.map_err(connection_failed)?;
    Ok(sender)
}

fn connection_failed(error: impl std::error::Error) -> DeliveryError {
    DeliveryError::Connection(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::Mutex;

    use axum::Router;
    use axum::extract::State;
    use axum::routing::post;
    use ports::clock::Clock;

    use super::*;

    type Seen = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

    /// Answers the given statuses in turn, then 200.
    async fn server(statuses: &'static [u16], no_retry: bool) -> (SocketAddr, Seen) {
        let seen = Seen::default();
        let answer = move |State(seen): State<Seen>, headers: HeaderMap, body: Bytes| async move {
            let mut seen = seen.lock().unwrap();
            let status = statuses.get(seen.len()).copied().unwrap_or(200);
            seen.push((headers, body));
            let mut headers = HeaderMap::new();
            if no_retry {
                headers.insert("x-slack-no-retry", "1".parse().unwrap());
            }
            (StatusCode::from_u16(status).unwrap(), headers)
        };
        let router = Router::new().route(PATH, post(answer)).with_state(Arc::clone(&seen));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        (address, seen)
    }

    fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
        headers.get(name).and_then(|value| value.to_str().ok())
    }

    #[tokio::test]
    async fn a_failed_delivery_is_retried_with_the_same_body_and_counted() {
        let (address, seen) = server(&[503, 500], false).await;
        let mut slack = EventClient::for_address(address, RetryDelays::slack(Duration::ZERO));
        assert_eq!(slack.deliver("{}").await, Ok(3));
        let seen = seen.lock().unwrap();
        let retries: Vec<_> =
            seen.iter().map(|(headers, _)| header(headers, "x-slack-retry-num").map(str::to_owned)).collect();
        assert_eq!(retries, [None, Some("1".into()), Some("2".into())]);
        assert_eq!(header(&seen[1].0, "x-slack-retry-reason"), Some("http_error"));
        let secrets = SigningSecrets::parse(&SecretString::from(SIGNING_SECRET)).unwrap();
        for (headers, body) in seen.iter() {
            let timestamp = header(headers, "x-slack-request-timestamp");
            let signature = header(headers, "x-slack-signature");
            assert_eq!(secrets.verify(timestamp, signature, body, SystemClock.now().seconds()), Ok(()));
            assert_eq!(&body[..], b"{}");
        }
    }

    #[tokio::test]
    async fn a_delivery_is_given_up_if_the_server_declines_retries_or_the_retries_are_used_up() {
        let (address, seen) = server(&[401, 401], true).await;
        let mut slack = EventClient::for_address(address, RetryDelays::slack(Duration::ZERO));
        assert_eq!(slack.deliver("{}").await, Err(DeliveryError::Status(StatusCode::UNAUTHORIZED)));
        assert_eq!(seen.lock().unwrap().len(), 1);

        let (address, seen) = server(&[503; 40], false).await;
        let mut slack = EventClient::for_address(address, RetryDelays::slack(Duration::ZERO));
        assert_eq!(slack.deliver("{}").await, Err(DeliveryError::Status(StatusCode::SERVICE_UNAVAILABLE)));
        assert_eq!(seen.lock().unwrap().len(), 28);
    }

    #[tokio::test]
    async fn a_server_that_moved_is_found_again() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (moved, server_address) = watch::channel(listener.local_addr().unwrap());
        drop(listener);
        let mut slack = EventClient::new(server_address, RetryDelays::none());
        assert!(matches!(slack.deliver("{}").await, Err(DeliveryError::Connection(_))));

        let (address, _seen) = server(&[], false).await;
        moved.send(address).unwrap();
        assert_eq!(slack.deliver("{}").await, Ok(1));
    }
}
