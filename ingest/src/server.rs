//! Serves a router on a TCP listener: HTTP/1.1, with resource limits, and drained at shutdown.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use metrics::counter;
use ports::metrics::INGEST_FULL;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use crate::connections::{ConnectionLoad, Connections, MAX_CONNECTIONS, WaitingConnection};

/// The timeout for a request's head, also on a connection that is kept alive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest head: Slack's are below 1 KiB, and proxies add to them.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// The buffer of one connection.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// How long requests may take to finish during a shutdown: the sum of the timeouts of the body and the queue.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause after a failed accept, usually caused by too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

/// How often a full server checks for connections to close.
const CLOSE_INTERVAL: Duration = Duration::from_millis(100);

/// The minimum interval between log lines about a full server, which any client can cause.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Serves until `shutdown` resolves; then accepts no more connections, finishes started requests, and closes
/// connections that have not finished within a few seconds.
pub async fn serve(listener: TcpListener, router: Router, shutdown: impl Future<Output = ()>) {
    serve_with_limit(MAX_CONNECTIONS, listener, router, shutdown).await;
}

/// The same with another limit on connections, for tests, which open both ends of each.
pub(crate) async fn serve_with_limit(
    max_connections: usize,
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_BUFFER_BYTES);
    let service = TowerToHyperService::new(router);
    let graceful = GracefulShutdown::new();
    let mut connections = Connections::with_limit(max_connections);
    let crowd = connections.load();
    let mut full = Fullness::default();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            () = connections.ended() => {}
            stream = accept(&listener), if !connections.is_full() => {
                // Responses are small, so each is sent immediately. If this fails, the socket fails at its
                // first use.
                let _: io::Result<()> = stream.set_nodelay(true);
                connections.add(|waiting| {
                    let service = connection_service(service.clone(), waiting, crowd.clone());
                    graceful.watch(http.serve_connection(TokioIo::new(stream), service))
                });
            }
            () = sleep(CLOSE_INTERVAL), if connections.is_full() => {
                full.closed += connections.close_stalled();
            }
        }
        full.note(connections.is_full());
    }
    drop(listener);
    let drained = timeout(DRAIN_TIMEOUT, graceful.shutdown()).await;
    let remaining = connections.remaining();
    if drained.is_err() {
        tracing::warn!(connections = remaining, "cut off connections that did not finish in time");
    }
    connections.close().await;
}

/// Counts and logs when the server has no free connection.
#[derive(Default)]
struct Fullness {
    is_full: bool,
    logged_at: Option<Instant>,
    /// Connections that were closed since the last log line because they sent nothing.
    closed: usize,
}

impl Fullness {
    fn note(&mut self, is_full: bool) {
        if is_full && !self.is_full {
            counter!(INGEST_FULL).increment(1);
            if self.logged_at.is_none_or(|logged_at| logged_at.elapsed() >= LOG_INTERVAL) {
                self.logged_at = Some(Instant::now());
                let closed = std::mem::take(&mut self.closed);
                tracing::warn!(closed, "all connections are in use: each is closed after its next answer");
            }
        }
        self.is_full = is_full;
    }
}

/// The service of one connection. It records when the server starts to wait for the client; the endpoint
/// records when the wait ends.
///
/// The connection is closed after a response that is not a success, and after every response while most
/// connections are in use. Slack loses nothing, since it sends head and body at once, and a client that only
/// occupies connections must wait for a new one.
fn connection_service(
    service: TowerToHyperService<Router>,
    waiting: WaitingConnection,
    crowd: ConnectionLoad,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> {
    service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(waiting.clone());
        let (response, waiting, crowd) = (service.call(request), waiting.clone(), crowd.clone());
        async move {
            let mut answer = response.await;
            if let Ok(answer) = &mut answer
                && (crowd.is_high() || !answer.status().is_success())
            {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            waiting.wait_for_request();
            answer
        }
    })
}

/// Accepts the next connection. Skips connections that were closed while they waited. If the system cannot
/// accept another one, pauses before the next attempt.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_connection_error(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind())
}
