//! A worker as a process of its own: what every thin binary does.

use std::process::ExitCode;
use std::sync::Arc;

use ports::claims::Claims;
use ports::clock::{SharedClock, SystemClock};
use process::config::backend::{Backend, BackendArgs, BackendError};
use process::config::existence::ExistenceArgs;
use process::config::{ConfigError, MetricsArgs};
use process::telemetry::{self, listener};
use slack_api::WebApi;

use crate::directory::{Asked, DirectorySync};
use crate::existence::{self, Check};
use crate::runtime::{self, Ports, Settings, Worker};

/// The flags of a worker's binary.
#[derive(Debug, clap::Args)]
pub struct WorkerArgs {
    /// Where the queue and the archive are
    #[command(flatten)]
    pub backend: BackendArgs,
    /// Where metrics are served, if anywhere
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

/// What a binary runs.
pub struct Role {
    /// The worker.
    pub worker: Arc<dyn Worker>,
    /// What runs beside it.
    pub directory: Option<Directory>,
    /// Where it claims, if it does.
    pub claims: Option<Arc<dyn Claims>>,
}

/// The directory of workspaces, brought in beside a worker.
pub struct Directory {
    /// The sync.
    pub sync: DirectorySync,
    /// What the worker asks to be joined; none where joining is refused.
    pub asked: Option<Asked>,
}

/// Runs a role, made of the ports it takes, until a signal; drains it, and closes the backend. Where Lambda started the
/// process, it serves Lambda instead.
///
/// # Errors
/// What kept it from starting, in one line that says what to do.
pub async fn run(args: WorkerArgs, role: impl FnOnce(&Backend) -> Role) -> anyhow::Result<()> {
    #[cfg(feature = "aws")]
    if process::config::lambda::on_lambda() {
        return crate::lambda::serve(&args, role).await;
    }
    let shutdown = process::shutdown::on_signal()?;
    if let Some(listener) = listener::bind(args.metrics.metrics_listen, None).await? {
        let handle = telemetry::recorder::install()?;
        tracing::info!(address = %listener.local_addr()?, "metrics listening");
        let mut until = shutdown.clone();
        tokio::spawn(listener::serve_metrics(listener, handle, async move {
            drop(until.wait_for(|shutdown| *shutdown).await);
        }));
    }
    let clock: SharedClock = SystemClock::shared();
    let backend = Backend::open(&args.backend, Arc::clone(&clock)).await?;
    let ports = Ports { queue: backend.queue(), archive: backend.archive(), clock };
    // A wrong setting should show now, and not with every job.
    ports.queue.ready().await?;
    ports.archive.ready().await?;
    backend.files().ready().await?;
    let Role { worker, directory, claims } = role(&backend);
    if let Some(claims) = claims {
        claims.ready().await?;
    }
    tracing::info!(worker = worker.name(), queue = %worker.queue(), backend = %args.backend, "working");
    let settings = Settings::on(&backend);
    let beside = async {
        if let Some(Directory { sync, asked }) = directory {
            sync.run(asked, shutdown.clone()).await;
        }
    };
    tokio::join!(runtime::run(worker, ports, settings, shutdown.clone()), beside);
    backend.close().await;
    Ok(())
}

/// The existence check of a worker on this backend.
#[must_use]
pub fn check(backend: &Backend, api: Arc<WebApi>, args: ExistenceArgs) -> Check {
    Check::new(existence::Parts {
        api,
        table: backend.existence(),
        archive: backend.archive(),
        clock: SystemClock::shared(),
        mode: args.existence_check,
    })
}

/// What a binary ends with: 0, or one line on standard error and 1, or 2 where a setting has to be corrected.
#[must_use]
#[expect(clippy::print_stderr, reason = "the last word of a binary")]
pub fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            let misconfigured =
                error.is::<ConfigError>() || error.downcast_ref().is_some_and(BackendError::is_usage);
            if misconfigured { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
