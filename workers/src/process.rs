//! A worker as a process of its own: what every thin binary does.

use std::process::ExitCode;
use std::sync::Arc;

use shared::clock::{SharedClock, SystemClock};
use shared::config::backend::Backend;
use shared::config::{DataArgs, MetricsArgs};
use shared::telemetry::{self, listener};
use tokio::sync::watch;

use crate::runtime::{self, Ports, Settings, Worker};

/// The flags of a worker's binary.
#[derive(Debug, clap::Args)]
pub struct WorkerArgs {
    /// Where the queue and the archive are
    #[command(flatten)]
    pub data: DataArgs,
    /// Where metrics are served, if anywhere
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

/// Runs one worker, made of the ports it takes, until a signal; drains it, and closes the backend.
///
/// # Errors
/// What kept it from starting, in one line that says what to do.
pub async fn run(args: WorkerArgs, worker: impl FnOnce(&Backend) -> Arc<dyn Worker>) -> anyhow::Result<()> {
    run_beside(args, |backend, _| (worker(backend), std::future::ready(()))).await
}

/// The same, with something that runs beside the worker and ends when its shutdown turns.
///
/// # Errors
/// As [`run`].
pub async fn run_beside<B: Future<Output = ()>>(
    args: WorkerArgs,
    parts: impl FnOnce(&Backend, watch::Receiver<bool>) -> (Arc<dyn Worker>, B),
) -> anyhow::Result<()> {
    let shutdown = shared::shutdown::on_signal()?;
    let clock: SharedClock = SystemClock::shared();
    let backend = Backend::open(&args.data, Arc::clone(&clock))?;
    let ports = Ports { queue: Arc::clone(&backend.queue), archive: Arc::clone(&backend.archive), clock };
    let (worker, beside) = parts(&backend, shutdown.clone());
    if let Some(listener) = listener::bind(args.metrics.metrics_listen, None).await? {
        let handle = telemetry::metrics::install()?;
        let mut until = shutdown.clone();
        tokio::spawn(listener::serve_metrics(listener, handle, async move {
            drop(until.wait_for(|shutdown| *shutdown).await);
        }));
    }
    tracing::info!(worker = worker.name(), queue = %worker.queue(), data = %args.data.data.display(), "working");
    tokio::join!(runtime::run(worker, ports, Settings::default(), shutdown), beside);
    backend.close().await;
    Ok(())
}

/// What a binary ends with: 0, or 1 and one line on standard error.
#[must_use]
#[expect(clippy::print_stderr, reason = "the last word of a binary")]
pub fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
