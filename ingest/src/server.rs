//! Serves a router on a TCP listener: HTTP/1.1, bounded, and drained at the end.

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

use crate::connections::{Connections, Crowd, MAX_CONNECTIONS, WaitingConnection};

/// A client must send a request's head within this time, also on a connection that is kept alive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest head: Slack's are below 1 KiB, and proxies add to them.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// What one connection may buffer.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// How long requests may take to finish once a shutdown has begun: as long as the slowest body and the slowest queue.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait after the system refused a connection, mostly because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

/// How often a full server looks for connections to close.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Any client can fill a server, so the log line is rate-limited.
const TELL_AGAIN: Duration = Duration::from_secs(10);

/// Serves until `shutdown` resolves; then accepts no more, finishes the requests that have begun, and cuts off what has
/// not finished within a few seconds.
pub async fn serve(listener: TcpListener, router: Router, shutdown: impl Future<Output = ()>) {
    serve_at_most(MAX_CONNECTIONS, listener, router, shutdown).await;
}

/// The same with another bound on connections: a test holds both ends of each.
pub(crate) async fn serve_at_most(
    most: usize,
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
    let mut connections = Connections::at_most(most);
    let crowd = connections.crowd();
    let mut full = Fullness::default();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            () = connections.ended() => {}
            stream = accept(&listener), if !connections.is_full() => {
                // Answers are small: each is sent at once. A socket that refuses this fails at its first use.
                let _: io::Result<()> = stream.set_nodelay(true);
                connections.add(|waiting| {
                    let service = told(service.clone(), waiting, crowd.clone());
                    graceful.watch(http.serve_connection(TokioIo::new(stream), service))
                });
            }
            () = sleep(LOOK_AGAIN), if connections.is_full() => {
                full.closed += connections.close_the_waiting();
            }
        }
        full.note(connections.is_full());
    }
    drop(listener);
    let drained = timeout(DRAIN_TIMEOUT, graceful.shutdown()).await;
    let left = connections.left();
    if drained.is_err() {
        tracing::warn!(connections = left, "cut off connections that did not finish in time");
    }
    connections.close().await;
}

/// What is counted and told of a server without a place for another connection.
#[derive(Default)]
struct Fullness {
    is_full: bool,
    told_at: Option<Instant>,
    /// Connections that were closed since the last line because they sent nothing.
    closed: usize,
}

impl Fullness {
    fn note(&mut self, is_full: bool) {
        if is_full && !self.is_full {
            counter!(INGEST_FULL).increment(1);
            if self.told_at.is_none_or(|told_at| told_at.elapsed() >= TELL_AGAIN) {
                self.told_at = Some(Instant::now());
                let closed = std::mem::take(&mut self.closed);
                tracing::warn!(closed, "all connections are in use: each is closed after its next answer");
            }
        }
        self.is_full = is_full;
    }
}

/// The service of one connection, which says when its client is waited for. The endpoint says when no longer.
///
/// The connection ends with an answer that refuses something, and with any while there is a crowd: Slack sends head and
/// body at once and loses nothing, and a client that only occupies connections has to queue for them again.
fn told(
    service: TowerToHyperService<Router>,
    waiting: WaitingConnection,
    crowd: Crowd,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> {
    service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(waiting.clone());
        let (answering, waiting, crowd) = (service.call(request), waiting.clone(), crowd.clone());
        async move {
            let mut answer = answering.await;
            if let Ok(answer) = &mut answer
                && (crowd.is_dense() || !answer.status().is_success())
            {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            waiting.for_client();
            answer
        }
    })
}

/// The next connection. One that went away while it waited is passed over; if the system has no room for another,
/// this waits a moment instead of asking again at once.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_of_the_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind())
}
