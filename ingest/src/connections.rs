//! The open connections. Connections whose clients keep the server waiting are closed if others need them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use metrics::{Gauge, gauge};
use ports::metrics::INGEST_CONNECTIONS;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;

/// The maximum number of open connections. Further ones wait in the kernel's backlog: if one is accepted
/// within Slack's 3 s, the delivery succeeds, whereas a closed one is a failure. Together with the database's
/// files this stays below the 1,024 open files that most systems allow.
pub(crate) const MAX_CONNECTIONS: usize = 768;

/// How long the server waits for a client before it may close the connection to make room. Slack sends head
/// and body at once, which takes milliseconds; the next client still gets a connection well within Slack's 3
/// s.
const GRACE: Duration = Duration::from_secs(1);

/// The value of `since_ms` while the server handles a request.
const HANDLING_REQUEST: u64 = u64::MAX;

/// Tracks since when the server has been waiting for a connection's client to send a whole request, head and
/// body.
#[derive(Debug, Clone)]
pub(crate) struct WaitingConnection {
    began: Instant,
    since_ms: Arc<AtomicU64>,
}

impl WaitingConnection {
    fn from_now(began: Instant) -> Self {
        let waiting = Self { began, since_ms: Arc::default() };
        waiting.wait_for_request();
        waiting
    }

    /// Records that a whole request has arrived.
    pub(crate) fn request_arrived(&self) {
        self.since_ms.store(HANDLING_REQUEST, Ordering::Relaxed);
    }

    /// Records that the server waits for the next request.
    pub(crate) fn wait_for_request(&self) {
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(HANDLING_REQUEST - 1);
        self.since_ms.store(now_ms, Ordering::Relaxed);
    }

    fn is_stalled(&self) -> bool {
        let since_ms = self.since_ms.load(Ordering::Relaxed);
        since_ms != HANDLING_REQUEST && self.began.elapsed() >= Duration::from_millis(since_ms) + GRACE
    }
}

/// The number of open connections, shared with the services of the connections.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionLoad {
    open: Arc<AtomicUsize>,
    max_connections: usize,
}

impl ConnectionLoad {
    /// Whether at least three quarters of the connections are in use: then a client keeps a connection only
    /// for one request.
    pub(crate) fn is_high(&self) -> bool {
        self.open.load(Ordering::Relaxed) >= self.max_connections - self.max_connections / 4
    }
}

/// The connections of one server.
pub(crate) struct Connections {
    crowd: ConnectionLoad,
    gauge: Gauge,
    began: Instant,
    tasks: JoinSet<()>,
    open: HashMap<Id, (AbortHandle, WaitingConnection)>,
}

impl Connections {
    pub(crate) fn with_limit(max_connections: usize) -> Self {
        Self {
            crowd: ConnectionLoad { open: Arc::default(), max_connections },
            gauge: gauge!(INGEST_CONNECTIONS),
            began: Instant::now(),
            tasks: JoinSet::new(),
            open: HashMap::new(),
        }
    }

    /// The shared count of open connections.
    pub(crate) fn load(&self) -> ConnectionLoad {
        self.crowd.clone()
    }

    fn update_count(&self) {
        self.crowd.open.store(self.len(), Ordering::Relaxed);
        self.gauge.set(u32::try_from(self.len()).unwrap_or(u32::MAX));
    }

    /// Adds a connection and runs the future that `serve` returns for it.
    pub(crate) fn add<F>(&mut self, serve: impl FnOnce(WaitingConnection) -> F)
    where
        F: Future + Send + 'static,
    {
        let waiting = WaitingConnection::from_now(self.began);
        let serving = serve(waiting.clone());
        let task = self.tasks.spawn(async move { drop(serving.await) });
        self.open.insert(task.id(), (task, waiting));
        self.update_count();
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.crowd.max_connections
    }

    /// Resolves when a connection has ended; never while there are no connections.
    pub(crate) async fn ended(&mut self) {
        match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => drop(self.open.remove(&id)),
            Some(Err(error)) => drop(self.open.remove(&error.id())),
            None => std::future::pending().await,
        }
        self.update_count();
    }

    /// Closes connections that have kept the server waiting, and returns their number.
    pub(crate) fn close_stalled(&self) -> usize {
        let waiting = self.open.values().filter(|(_, waiting)| waiting.is_stalled());
        waiting.map(|(task, _)| task.abort()).count()
    }

    /// Removes connections that have ended, and returns the number of the others.
    pub(crate) fn remaining(&mut self) -> usize {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
            self.open.remove(&id);
        }
        self.update_count();
        self.len()
    }

    /// Closes all remaining connections.
    pub(crate) async fn close(mut self) {
        self.tasks.shutdown().await;
    }
}
