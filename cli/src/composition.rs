//! Ingest, every worker and the search index follower in one process. `up` runs it, and so does `demo`, with
//! a made-up Slack.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use ingest::{Ingest, serve_events};
use ports::clock::SharedClock;
use ports::queue::run::RunId;
use process::config::backend::Backend;
use process::requests::OpenRequests;
use search::follower;
use slack::signature::SigningSecrets;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use workers::environment::{Environment, WorkSettings};
use workers::runtime::{self, RuntimeSettings};

/// The running tasks.
pub(crate) struct Composition {
    /// The address at which ingest accepts events.
    pub(crate) address: SocketAddr,
    accepting: watch::Sender<bool>,
    ingest: JoinHandle<()>,
    working: watch::Sender<bool>,
    workers: JoinSet<()>,
}

impl Composition {
    /// Starts everything on an open backend. If `index` is a file, the search index in it follows the
    /// archive.
    pub(crate) fn start(
        backend: &Backend,
        listener: TcpListener,
        secrets: SigningSecrets,
        clock: &SharedClock,
        mut work: WorkSettings,
        index: Option<PathBuf>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (accepting, no_more_requests) = watch::channel(false);
        let open_requests = OpenRequests::default();
        let ingest = Ingest {
            queue: backend.queue(),
            secrets,
            clock: Arc::clone(clock),
            limits: ingest::IngestLimits::default(),
            open_requests: open_requests.clone(),
            run: Some(RunId::begin()),
        };
        let ingest = tokio::spawn(serve_events(listener, ingest, wait_until_true(no_more_requests)));

        let (working, no_more_jobs) = watch::channel(false);
        work.search_index.clone_from(&index);
        let responder = work.responder.clone();
        let environment = Environment::from_backend(backend, clock, work);
        // The workers also learn about each other's backpressure through these shared settings.
        let settings = RuntimeSettings { open_requests, ..RuntimeSettings::for_backend(backend) };
        let mut workers = JoinSet::new();
        for (_, build) in workers::enabled(&responder) {
            let ports = environment.ports.clone();
            workers.spawn(runtime::run(build(&environment), ports, settings.clone(), no_more_jobs.clone()));
        }
        let (directory, sync_requests) = environment.into_directory();
        workers.spawn(directory.run(sync_requests, no_more_jobs.clone()));
        if let Some(file) = index {
            let (changes, archive) = (backend.changes(), backend.archive());
            workers.spawn(async move {
                follower::follow(&file, follower::POLL_INTERVAL, changes, archive, no_more_jobs).await;
            });
        }
        Ok(Self { address, accepting, ingest, working, workers })
    }

    /// Resolves when a task ends that should have continued. The process must not run without it.
    pub(crate) async fn wait_for_failure(&mut self) -> anyhow::Error {
        let ended = tokio::select! {
            ended = &mut self.ingest => ended,
            Some(ended) = self.workers.join_next() => ended,
        };
        let outcome = ended.err().filter(JoinError::is_panic).map_or("ended by itself", |_| "crashed");
        anyhow::anyhow!("a part of annalist {outcome}: the log says more; start it again")
    }

    /// Stops accepting requests, answers those that were accepted, then lets the workers finish their jobs.
    pub(crate) async fn drain(mut self) {
        self.accepting.send_replace(true);
        if !self.ingest.is_finished() {
            drop(self.ingest.await);
        }
        self.working.send_replace(true);
        while self.workers.join_next().await.is_some() {}
    }
}

/// Binds the address of `flag`. `advice` begins the next step if the address is in use.
pub(crate) async fn listen(address: SocketAddr, advice: &str, flag: &str) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            bail!("{address} is in use: {advice}choose another address with {flag}")
        }
        Err(error) => bail!("cannot listen on {address}: {error}; choose another address with {flag}"),
    }
}

/// Resolves when the value becomes true, or when its sender is dropped.
pub(crate) async fn wait_until_true(mut value: watch::Receiver<bool>) {
    // An error means that the sender was dropped, so the value can no longer change.
    drop(value.wait_for(|turned| *turned).await);
}
