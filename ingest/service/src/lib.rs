//! Ingest as a separate process, for a fleet: a server, or a function if Lambda starts it.

#[cfg(feature = "aws")]
mod lambda;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::{CommandFactory, Parser};
#[cfg(feature = "socket")]
use ingest::SocketMode;
use ingest::{Ingest, IngestLimits};
use ports::clock::{SharedClock, SystemClock};
use ports::queue::run::RunId;
use ports::requests::OpenRequests;
use ports::reread::Reread;
use process::config::backend::{Backend, BackendArgs};
#[cfg(feature = "socket")]
use process::config::slack::SlackArgs;
#[cfg(feature = "socket")]
use process::config::socket::{SocketArgs, socket_api};
use process::config::{self, ConfigError, DEFAULT_METRICS_LISTEN, ListenArgs, MetricsArgs};
use process::failure;
use process::telemetry::{self, listener};
use slack::signing_table::SigningTable;
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
    #[cfg(feature = "socket")]
    #[command(flatten)]
    slack: SlackArgs,
    #[cfg(feature = "socket")]
    #[command(flatten)]
    socket: SocketArgs,
}

/// The main function of the binary: serves until a signal, or serves Lambda if Lambda started the process.
pub fn main() -> ExitCode {
    failure::exit_code(start())
}

fn start() -> anyhow::Result<()> {
    let command = config::parse::<IngestCommand>(IngestCommand::command(), std::env::args_os())?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(command))
}

async fn serve(command: IngestCommand) -> anyhow::Result<()> {
    config::lambda::refuse_app_token()?;
    let secrets = config::optional_signing_table().await?;
    telemetry::init_log(config::log_filter()?);
    #[cfg(feature = "aws")]
    if config::lambda::on_lambda() {
        return as_function(command, secrets.ok_or(ConfigError::NoSigningSecretOnLambda)?).await;
    }
    #[cfg(feature = "socket")]
    let socket = socket_api(&command.slack)?.map(|api| SocketMode {
        api: Arc::new(api),
        web: None,
        connections: command.socket.socket_connections,
    });
    #[cfg(not(feature = "socket"))]
    let socket: Option<()> = None;
    if secrets.is_none() && socket.is_none() {
        return Err(ConfigError::NoSigningSecret.into());
    }
    run(command, secrets, socket).await
}

/// Serves Lambda instead of a port. The queue is not checked at startup: a function cannot report an error
/// before its first event, and Slack waits for its first response.
#[cfg(feature = "aws")]
async fn as_function(command: IngestCommand, secrets: Arc<Reread<SigningTable>>) -> anyhow::Result<()> {
    let metrics = telemetry::emf::install(command.metrics.metrics, &command.backend.aws.prefix)?;
    let clock: SharedClock = SystemClock::shared();
    let backend = Backend::open(&command.backend, Arc::clone(&clock)).await?;
    let router = ingest::router(Ingest {
        queue: backend.queue(),
        secrets: Some(secrets),
        clock: Arc::clone(&clock),
        limits: IngestLimits::default(),
        open_requests: OpenRequests::default(),
        run: None,
    });
    lambda::serve(router, metrics, clock).await.map_err(|error| anyhow!(error))
}

async fn run(
    command: IngestCommand,
    secrets: Option<Arc<Reread<SigningTable>>>,
    #[cfg(feature = "socket")] socket: Option<SocketMode>,
    #[cfg(not(feature = "socket"))] _: Option<()>,
) -> anyhow::Result<()> {
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
    #[cfg(feature = "socket")]
    let ended = ingest::serve_with_socket(events, ingest, socket, ends(shutdown))
        .await
        .map_err(|refused| ConfigError::AppTokenRefused(refused.reason));
    #[cfg(not(feature = "socket"))]
    let ended: Result<(), ConfigError> = {
        ingest::serve_events(events, ingest, ends(shutdown)).await;
        Ok(())
    };
    backend.close().await;
    Ok(ended?)
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
