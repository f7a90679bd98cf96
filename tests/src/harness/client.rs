//! Plays Slack: signed requests over one kept-alive connection, retried as Slack retries them.
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

use super::place::ProgramEnvironment;
use super::process::{self, SIGNING_SECRET};

/// Slack waits this long for an answer.
pub const SLACK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a program may take to end, on a machine that is busy compiling.
const END_DEADLINE: Duration = Duration::from_secs(60);
/// Bolt's path, and Annalist's.
pub const PATH: &str = "/slack/events";

/// Why a delivery counts as failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// There is no connection, or it broke before the answer was complete.
    #[error("connection failed: {0}")]
    Connection(String),
    /// The answer took longer than [`SLACK_TIMEOUT`].
    #[error("no answer in time")]
    Timeout,
    /// Something else than 200.
    #[error("answered {0}")]
    Status(StatusCode),
}

impl DeliveryError {
    /// Slack's word for it in `x-slack-retry-reason`.
    pub fn retry_reason(&self) -> &'static str {
        match self {
            Self::Connection(_) => "connection_failed",
            Self::Timeout => "http_timeout",
            Self::Status(_) => "http_error",
        }
    }
}

/// A complete answer.
#[derive(Debug)]
pub struct ClientResponse {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// How long to wait before each retry; after the last one a delivery is given up.
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

/// Delivers events of a workspace in their order, each under an id of its own. Each is taken at the first try.
///
/// # Panics
/// If one is not.
pub async fn deliver(server: SocketAddr, team: &str, events: &[Value]) {
    static DELIVERED: AtomicU64 = AtomicU64::new(0);
    let mut slack = EventClient::to(server, RetryDelays::none());
    for told in events {
        let event_id = format!("EvNew{}", DELIVERED.fetch_add(1, Ordering::Relaxed));
        assert_eq!(slack.deliver(&event::envelope(team, &event_id, told)).await, Ok(1), "{told}");
    }
}

/// Delivers events to an `annalist up` here, which is stopped once they are `drained`.
///
/// # Panics
/// If one is not taken, or it does not end well.
pub async fn play(
    place: &(impl ProgramEnvironment + ?Sized),
    team: &str,
    events: &[Value],
    drained: impl Future<Output = ()>,
) {
    let up = process::up(place).await;
    deliver(up.address, team, events).await;
    drained.await;
    assert!(up.process.sigterm(END_DEADLINE).await.success());
}

/// One of Slack's senders. It follows the server to whatever address it listens on after a restart.
pub struct EventClient {
    server: watch::Receiver<SocketAddr>,
    secrets: SigningSecrets,
    clock: SharedClock,
    delays: RetryDelays,
    connection: Option<(SocketAddr, SendRequest<Full<Bytes>>)>,
}

impl EventClient {
    /// A sender with the harness's secret and the machine's clock.
    ///
    /// # Panics
    /// Never: the secret is a good one.
    pub fn new(server: watch::Receiver<SocketAddr>, delays: RetryDelays) -> Self {
        let secrets = SigningSecrets::parse(&SecretString::from(SIGNING_SECRET)).expect("one secret");
        Self { server, secrets, clock: SystemClock::shared(), delays, connection: None }
    }

    /// A sender to a server that stays where it is.
    pub fn to(address: SocketAddr, delays: RetryDelays) -> Self {
        Self::new(watch::channel(address).1, delays)
    }

    /// Delivers an event as Slack does: the same body until it is answered 200, signed anew each time. Says how many
    /// requests that took.
    ///
    /// # Errors
    /// The last failure, once the retries are used up or the server asked for none.
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

    /// One signed request, whatever it is answered.
    ///
    /// # Errors
    /// If there is no answer.
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

    /// One request with these headers and no signature of its own.
    ///
    /// # Errors
    /// If there is no answer.
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
        let mut request = Request::post(PATH)
            .header("host", "annalist.test")
            .header("user-agent", "Slackbot 1.0 (+https://api.slack.com/robots)")
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request =
            request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).map_err(connection_failed)?;
        let connection = self.connected().await?;
        // The last answer may have been read before the connection was told that it is free again.
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
    async fn a_failed_delivery_is_repeated_with_the_same_body_and_counted() {
        let (address, seen) = server(&[503, 500], false).await;
        let mut slack = EventClient::to(address, RetryDelays::slack(Duration::ZERO));
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
    async fn a_delivery_is_given_up_when_told_so_or_when_the_retries_are_used_up() {
        let (address, seen) = server(&[401, 401], true).await;
        let mut slack = EventClient::to(address, RetryDelays::slack(Duration::ZERO));
        assert_eq!(slack.deliver("{}").await, Err(DeliveryError::Status(StatusCode::UNAUTHORIZED)));
        assert_eq!(seen.lock().unwrap().len(), 1);

        let (address, seen) = server(&[503; 40], false).await;
        let mut slack = EventClient::to(address, RetryDelays::slack(Duration::ZERO));
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
