//! Ingest as a separate process, for a fleet: a server, or a function if Lambda starts it.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::{CommandFactory, Parser};
use ingest::{Ingest, IngestLimits, serve_events};
use ports::clock::{SharedClock, SystemClock};
use ports::queue::run::RunId;
use ports::reread::Reread;
use process::config::backend::{Backend, BackendArgs};
use process::config::{self, DEFAULT_METRICS_LISTEN, ListenArgs, MetricsArgs};
use process::failure;
use process::requests::OpenRequests;
use process::telemetry::{self, listener};
use slack::signature::SigningSecrets;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Takes Slack's events in and puts them on the durable queue
#[derive(Parser)]
#[command(name = "ingest", version)]
struct IngestCommand {
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
}

#[tokio::main]
async fn main() -> ExitCode {
    failure::exit_code(start().await)
}

async fn start() -> anyhow::Result<()> {
    let command = config::parse::<IngestCommand>(IngestCommand::command(), std::env::args_os())?;
    let secrets = config::signing_secrets_with_rereads().await?;
    telemetry::init_log(config::log_filter()?);
    #[cfg(feature = "aws")]
    if config::lambda::on_lambda() {
        return as_function(command, secrets).await;
    }
    run(command, secrets).await
}

/// Serves Lambda instead of a port. The queue is not checked at startup: a function cannot report an error
/// before its first event, and Slack waits for its first response.
#[cfg(feature = "aws")]
async fn as_function(command: IngestCommand, secrets: Arc<Reread<SigningSecrets>>) -> anyhow::Result<()> {
    let metrics = telemetry::emf::install(command.metrics.metrics, &command.backend.aws.prefix)?;
    let clock: SharedClock = SystemClock::shared();
    let backend = Backend::open(&command.backend, Arc::clone(&clock)).await?;
    let router = ingest::router(Ingest {
        queue: backend.queue(),
        secrets,
        clock: Arc::clone(&clock),
        limits: IngestLimits::default(),
        open_requests: OpenRequests::default(),
        run: None,
    });
    ingest::lambda::serve(router, metrics, clock).await.map_err(|error| anyhow!(error))
}

async fn run(command: IngestCommand, secrets: Arc<Reread<SigningSecrets>>) -> anyhow::Result<()> {
    let shutdown = process::shutdown::on_signal().context("cannot listen to signals")?;
    // Binds both addresses first, so that an address in use is reported before anything is written.
    let events = bind(command.listen.listen).await?;
    let metrics = listener::bind(command.metrics.metrics_listen, Some(DEFAULT_METRICS_LISTEN)).await?;
    let address = events.local_addr()?;
    if let Some(metrics) = metrics {
        let handle = telemetry::recorder::install()?;
        tracing::info!(address = %metrics.local_addr()?, "metrics listening");
        tokio::spawn(listener::serve_metrics(metrics, handle, ends(shutdown.clone())));
    }
    let clock: SharedClock = SystemClock::shared();
    let backend = Backend::open(&command.backend, Arc::clone(&clock)).await?;
    let queue = backend.queue();
    // Before any event is accepted, so that a wrong setting is reported immediately.
    queue.ready().await?;
    let ingest = Ingest {
        queue,
        secrets,
        clock,
        limits: IngestLimits::default(),
        open_requests: OpenRequests::default(),
        run: Some(RunId::begin()),
    };
    tracing::info!(%address, backend = %command.backend, "listening");
    serve_events(events, ingest, ends(shutdown)).await;
    backend.close().await;
    Ok(())
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|error| anyhow!("cannot listen on {address}: {error}; choose another address with --listen"))
}

async fn ends(mut shutdown: watch::Receiver<bool>) {
    // Ignore a dropped sender: it is never dropped while the process runs.
    let _: Result<_, _> = shutdown.wait_for(|draining| *draining).await;
}
