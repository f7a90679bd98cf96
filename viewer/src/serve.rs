//! Serves pages on a TCP listener: HTTP/1.1, with limits, and drained at shutdown.

use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Maximum number of connections; a browser opens six. Together with the connections for events, this stays
/// below the 1,024 open files that most systems allow.
const MAX_CONNECTIONS: usize = 128;

/// Timeout for the head of a request, even on a connection that is kept alive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum lifetime of a connection, so that slow clients release it eventually. The longest file takes this
/// long at 300 kB/s.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(3_600);

/// Maximum size of a connection's buffer. A page of messages fits.
const MAX_BUFFER_BYTES: usize = 128 * 1024;

/// Maximum size of a request's head, which includes cookies of other programs on this machine.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Delay after the system refused a connection, usually because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

/// Timeout for running responses after a shutdown has started.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether the server stops; one of the extensions of a request. A response without an end ends then.
#[derive(Clone)]
pub(crate) struct Stopping(pub(crate) watch::Receiver<bool>);

/// Serves until `shutdown` resolves. Then accepts no more connections and finishes the running responses.
pub async fn serve(listener: TcpListener, router: Router, shutdown: impl Future<Output = ()>) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_BUFFER_BYTES);
    let (stop, stopping) = watch::channel(false);
    let service = TowerToHyperService::new(router.layer(Extension(Stopping(stopping))));
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
                    // A browser that disconnects is not an error.
                    connections.spawn(timeout(CONNECTION_LIFETIME, graceful.watch(connection)));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections for pages");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
    stop.send_replace(true);
    drop(listener);
    // Unfinished connections end with the process.
    drop(timeout(DRAIN_TIMEOUT, graceful.shutdown()).await);
}
