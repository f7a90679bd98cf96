//! The connections that are open, so that those whose clients keep them waiting give way to others.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use metrics::{Gauge, gauge};
use ports::metrics::INGEST_CONNECTIONS;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;

/// At this number of connections no further one is accepted. They wait in the kernel's backlog: one that is accepted
/// within Slack's 3 s is a delivery that succeeded, where a closed one is a failure. Together with the database's files
/// this stays below the 1,024 open files that most systems allow.
pub(crate) const MAX_CONNECTIONS: usize = 768;

/// A connection on which the server has waited this long is closed when its place is needed. Slack sends head and
/// body at once, so it needs milliseconds; the next client still gets its place well within Slack's 3 s.
const GRACE: Duration = Duration::from_secs(1);

/// In place of a time: the server works on what the client sent.
const AT_WORK: u64 = u64::MAX;

/// Since when a connection's client is waited for: for a whole request, head and body.
#[derive(Debug, Clone)]
pub(crate) struct WaitingConnection {
    began: Instant,
    since_ms: Arc<AtomicU64>,
}

impl WaitingConnection {
    fn from_now(began: Instant) -> Self {
        let waiting = Self { began, since_ms: Arc::default() };
        waiting.for_client();
        waiting
    }

    /// A whole request is here.
    pub(crate) fn is_over(&self) {
        self.since_ms.store(AT_WORK, Ordering::Relaxed);
    }

    /// It is answered: the next one is waited for.
    pub(crate) fn for_client(&self) {
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(AT_WORK - 1);
        self.since_ms.store(now_ms, Ordering::Relaxed);
    }

    fn for_too_long(&self) -> bool {
        let since_ms = self.since_ms.load(Ordering::Relaxed);
        since_ms != AT_WORK && self.began.elapsed() >= Duration::from_millis(since_ms) + GRACE
    }
}

/// How many connections are open, for those who answer on them.
#[derive(Debug, Clone)]
pub(crate) struct Crowd {
    open: Arc<AtomicUsize>,
    most: usize,
}

impl Crowd {
    /// Whether three quarters of the places are taken: from there on a client keeps one for a request only.
    pub(crate) fn is_dense(&self) -> bool {
        self.open.load(Ordering::Relaxed) >= self.most - self.most / 4
    }
}

/// The connections of one server.
pub(crate) struct Connections {
    crowd: Crowd,
    gauge: Gauge,
    began: Instant,
    tasks: JoinSet<()>,
    open: HashMap<Id, (AbortHandle, WaitingConnection)>,
}

impl Connections {
    pub(crate) fn at_most(most: usize) -> Self {
        Self {
            crowd: Crowd { open: Arc::default(), most },
            gauge: gauge!(INGEST_CONNECTIONS),
            began: Instant::now(),
            tasks: JoinSet::new(),
            open: HashMap::new(),
        }
    }

    /// How many are open, kept up to date.
    pub(crate) fn crowd(&self) -> Crowd {
        self.crowd.clone()
    }

    fn note_length(&self) {
        self.crowd.open.store(self.len(), Ordering::Relaxed);
        self.gauge.set(u32::try_from(self.len()).unwrap_or(u32::MAX));
    }

    /// Serves one more connection: what `serve` makes of its [`WaitingConnection`].
    pub(crate) fn add<F>(&mut self, serve: impl FnOnce(WaitingConnection) -> F)
    where
        F: Future + Send + 'static,
    {
        let waiting = WaitingConnection::from_now(self.began);
        let serving = serve(waiting.clone());
        let task = self.tasks.spawn(async move { drop(serving.await) });
        self.open.insert(task.id(), (task, waiting));
        self.note_length();
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.crowd.most
    }

    /// Resolves when a connection has ended; never while there are no connections.
    pub(crate) async fn ended(&mut self) {
        match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => drop(self.open.remove(&id)),
            Some(Err(error)) => drop(self.open.remove(&error.id())),
            None => std::future::pending().await,
        }
        self.note_length();
    }

    /// Closes those that have kept the server waiting, and says how many they are.
    pub(crate) fn close_the_waiting(&self) -> usize {
        let waiting = self.open.values().filter(|(_, waiting)| waiting.for_too_long());
        waiting.map(|(task, _)| task.abort()).count()
    }

    /// Forgets those that have ended, and says how many are left.
    pub(crate) fn left(&mut self) -> usize {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
            self.open.remove(&id);
        }
        self.note_length();
        self.len()
    }

    /// Closes all that are left.
    pub(crate) async fn close(mut self) {
        self.tasks.shutdown().await;
    }
}
