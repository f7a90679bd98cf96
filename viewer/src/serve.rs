//! Serves pages on a TCP listener: HTTP/1.1, bounded, and drained at the end.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// A browser opens six. Beside those of events this stays below the 1,024 open files that most systems allow.
const MAX_CONNECTIONS: usize = 128;

/// A browser must send a request's head within this time, also on a connection that is kept alive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// A client that reads slowly gives its place back in the end: the longest file takes so long at 300 kB a second.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(3_600);

/// What one connection may buffer; a page of messages fits.
const MAX_BUFFER_BYTES: usize = 128 * 1024;

/// The largest head: cookies of other programs on this machine come along.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// How long to wait after the system refused a connection, mostly because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

/// How long answers may take to finish once a shutdown has begun.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves until `shutdown` resolves; then accepts no more, and finishes what has begun.
pub async fn serve(listener: TcpListener, router: Router, shutdown: impl Future<Output = ()>) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_BUFFER_BYTES);
    let service = TowerToHyperService::new(router);
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let connection = http.serve_connection(TokioIo::new(stream), service.clone());
                    // A browser that goes away is no event.
                    connections.spawn(timeout(CONNECTION_LIFETIME, graceful.watch(connection)));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections for pages");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
    drop(listener);
    // Those that do not finish end with the process.
    drop(timeout(DRAIN_TIMEOUT, graceful.shutdown()).await);
}
