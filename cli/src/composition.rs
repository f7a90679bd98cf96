//! Ingest and every worker in one process: what `up` runs, and `demo` beside a made-up Slack.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use ingest::Ingest;
use ports::clock::SharedClock;
use ports::queue::run::RunId;
use process::config::backend::Backend;
use process::config::existence::ExistenceArgs;
use process::config::instance;
use slack::signature::SigningSecrets;
use slack_api::WebApi;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use workers::claims::Claimant;
use workers::directory::{DirectorySync, Joiner};
use workers::runtime::{self, Ports, Settings};
use workers::{Equipment, file_downloader, standalone};

/// What is asked of Slack.
pub(crate) struct SlackSide {
    /// The Web API, with whatever tokens there are.
    pub(crate) api: Arc<WebApi>,
    /// Whether public channels are joined.
    pub(crate) join: bool,
    /// Whether it is asked about what events claim.
    pub(crate) existence: ExistenceArgs,
    /// How files are fetched.
    pub(crate) downloads: file_downloader::Settings,
}

/// Everything that runs.
pub(crate) struct Composition {
    /// Where events are taken.
    pub(crate) address: SocketAddr,
    accepting: watch::Sender<bool>,
    ingest: JoinHandle<()>,
    working: watch::Sender<bool>,
    workers: JoinSet<()>,
}

impl Composition {
    /// Starts everything on an open backend.
    pub(crate) fn start(
        backend: &Backend,
        listener: TcpListener,
        secrets: SigningSecrets,
        clock: &SharedClock,
        slack: SlackSide,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (accepting, no_more_requests) = watch::channel(false);
        let router = ingest::router(Ingest {
            queue: backend.queue(),
            secrets,
            clock: Arc::clone(clock),
            limits: ingest::IngestLimits::default(),
            run: Some(RunId::begin()),
        });
        let ingest = tokio::spawn(ingest::serve(listener, router, turned(no_more_requests)));

        let (working, no_more_jobs) = watch::channel(false);
        let ports = Ports { queue: backend.queue(), archive: backend.archive(), clock: Arc::clone(clock) };
        let (joiner, asked) = if slack.join { Some(Joiner::new()) } else { None }.unzip();
        let check = standalone::check(backend, Arc::clone(&slack.api), slack.existence);
        let mut workers = JoinSet::new();
        let equipment = Equipment {
            ports: ports.clone(),
            files: backend.files(),
            web: Arc::clone(&slack.api),
            existence: check.clone(),
            joiner,
            claimant: Claimant::new(
                backend.claims(),
                Arc::clone(clock),
                instance(),
                slack.downloads.claims.clone(),
            ),
            downloads: slack.downloads,
        };
        // Shared settings are also how the workers know of each other's pressure.
        let settings = Settings::on(backend);
        for worker in workers::registry(equipment) {
            workers.spawn(runtime::run(worker, ports.clone(), settings.clone(), no_more_jobs.clone()));
        }
        let directory =
            DirectorySync::new(slack.api, backend.archive(), backend.queue()).telling(check.known());
        workers.spawn(directory.run(asked, no_more_jobs));
        Ok(Self { address, accepting, ingest, working, workers })
    }

    /// Resolves when a part ends that should have gone on: nothing good comes of running without it.
    pub(crate) async fn broken(&mut self) -> anyhow::Error {
        let ended = tokio::select! {
            ended = &mut self.ingest => ended,
            Some(ended) = self.workers.join_next() => ended,
        };
        let why = ended.err().filter(JoinError::is_panic).map_or("ended by itself", |_| "crashed");
        anyhow::anyhow!("a part of annalist {why}: the log says more; start it again")
    }

    /// Stops accepting, answers what was accepted, then lets the workers finish what they hold.
    pub(crate) async fn drain(mut self) {
        self.accepting.send_replace(true);
        if !self.ingest.is_finished() {
            drop(self.ingest.await);
        }
        self.working.send_replace(true);
        while self.workers.join_next().await.is_some() {}
    }
}

/// Resolves when the value becomes true, or can no longer.
pub(crate) async fn turned(mut value: watch::Receiver<bool>) {
    // An error means that the sender is gone, so the value can no longer change.
    drop(value.wait_for(|turned| *turned).await);
}
