//! Serves a router on a TCP listener: HTTP/1.1, bounded, and drained at the end.

use std::io;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Beyond so many connections no further one is accepted. They wait in the kernel's backlog: one that is taken up
/// within Slack's 3 s is a delivery that succeeded, where a closed one is a failure. Together with the database's files
/// this stays below the 1,024 open files that most systems allow.
const MAX_CONNECTIONS: usize = 768;

/// A client must send a request's head within this time, also on a connection that is kept alive.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// The largest head: Slack's are below 1 KiB, and proxies add to them.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// What one connection may buffer.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// How long requests may take to finish once a shutdown has begun: as long as the slowest body and the slowest queue.
const DRAIN_PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait after the system refused a connection, mostly because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

/// Serves until `shutdown` resolves; then accepts no more, finishes the requests that have begun, and cuts off what has
/// not finished within a few seconds.
pub async fn serve(listener: TcpListener, router: Router, shutdown: impl Future<Output = ()>) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
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
            stream = accept(&listener), if connections.len() < MAX_CONNECTIONS => {
                // Answers are small: each is sent at once. A socket that refuses this fails at its first use.
                let _: io::Result<()> = stream.set_nodelay(true);
                let connection = http.serve_connection(TokioIo::new(stream), service.clone());
                connections.spawn(graceful.watch(connection));
            }
        }
    }
    drop(listener);
    let drained = timeout(DRAIN_PATIENCE, graceful.shutdown()).await;
    while connections.try_join_next().is_some() {}
    if drained.is_err() {
        tracing::warn!(connections = connections.len(), "cut off connections that did not finish in time");
    }
    connections.shutdown().await;
}

/// The next connection. One that went away while it waited is passed over; where the system has no room for another,
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
