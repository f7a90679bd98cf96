//! Plays Slack: sends signed requests over concurrent TCP connections and checks each response.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use ports::clock::SharedClock;
use slack::signature::SigningSecrets;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::week::{DeliveryKind, DemoRequest};

/// Slack waits this long for a response. <https://docs.slack.dev/apis/events-api/#retries>
const SLACK_TIMEOUT: Duration = Duration::from_secs(3);

/// Counts and durations of the acknowledged requests.
#[derive(Debug, Default)]
pub(super) struct Acks {
    pub(super) count: usize,
    pub(super) slowest: Duration,
    pub(super) took: Duration,
}

/// A client that sends requests to ingest as Slack does.
#[derive(Clone)]
pub(super) struct DemoPlayer {
    pub(super) ingest: SocketAddr,
    pub(super) secrets: SigningSecrets,
    /// Secrets that ingest does not accept.
    pub(super) forged: SigningSecrets,
    pub(super) clock: SharedClock,
}

impl DemoPlayer {
    /// Sends the requests in order, over `connections` concurrent connections, and checks each response.
    pub(super) async fn play(&self, requests: &[DemoRequest], connections: usize) -> anyhow::Result<Acks> {
        let began = Instant::now();
        let requests: Arc<[DemoRequest]> = requests.into();
        let next = Arc::new(AtomicUsize::new(0));
        let mut senders = JoinSet::new();
        for _ in 0..connections {
            let (slack, requests, next) = (self.clone(), Arc::clone(&requests), Arc::clone(&next));
            senders.spawn(async move {
                let mut connection = connect(slack.ingest).await?;
                let mut acks = Acks::default();
                while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let sent = Instant::now();
                    timeout(SLACK_TIMEOUT, slack.send(&mut connection, request))
                        .await
                        .context("ingest did not answer in time")??;
                    acks.count += 1;
                    acks.slowest = acks.slowest.max(sent.elapsed());
                }
                anyhow::Ok(acks)
            });
        }
        let mut total = Acks::default();
        while let Some(acks) = senders.join_next().await {
            let acks = acks??;
            total.count += acks.count;
            total.slowest = total.slowest.max(acks.slowest);
        }
        total.took = began.elapsed();
        Ok(total)
    }

    async fn send(
        &self,
        connection: &mut SendRequest<Full<Bytes>>,
        request: &DemoRequest,
    ) -> anyhow::Result<()> {
        let (secrets, expected) = if request.kind == DeliveryKind::Forged {
            (&self.forged, StatusCode::UNAUTHORIZED)
        } else {
            (&self.secrets, StatusCode::OK)
        };
        let timestamp_s = self.clock.now().seconds();
        let mut http = Request::post(ingest::EVENTS_PATH)
            .header("host", self.ingest.to_string())
            .header("content-type", "application/json")
            .header("x-slack-request-timestamp", timestamp_s)
            .header("x-slack-signature", secrets.sign(timestamp_s, request.body.as_bytes()));
        if request.kind == DeliveryKind::Retry {
            http = http.header("x-slack-retry-num", "1").header("x-slack-retry-reason", "http_timeout");
        }
        let http = http.body(Full::new(Bytes::from(request.body.clone())))?;
        connection.ready().await?;
        let response = connection.send_request(http).await?;
        let status = response.status();
        // The connection is free for the next request once the response has been read.
        response.into_body().collect().await?;
        if status != expected {
            bail!("ingest answered {status} where {expected} was due");
        }
        // Ingest closes the connection after it has refused a request.
        if expected != StatusCode::OK {
            *connection = connect(self.ingest).await?;
        }
        Ok(())
    }
}

async fn connect(address: SocketAddr) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The task ends with its sender, which receives the connection's errors.
    tokio::spawn(connection);
    Ok(sender)
}
