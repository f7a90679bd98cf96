//! A worker as its own process: the common part of every thin binary.

#[cfg(feature = "aws")]
use std::convert::Infallible;
use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
#[cfg(feature = "aws")]
use std::time::Duration;

use clap::CommandFactory;
use ports::clock::{SharedClock, SystemClock};
use ports::queue::QueueName;
use ports::queue::topology::QueueRole;
use ports::workers::{Feature, Uses, WorkerSpec};
use process::config::ConfigError;
use process::config::backend::Backend;
#[cfg(feature = "aws")]
use process::config::lambda::on_fargate;
use process::config::lambda::on_lambda;
use process::failure;
#[cfg(feature = "aws")]
use process::telemetry::emf::Emf;
use process::telemetry::{self, listener};
use tokio::sync::watch;
#[cfg(feature = "aws")]
use tokio::time::interval;
use workers::archive_version;
use workers::runtime::{self, RuntimeSettings};

use crate::Build;
use crate::environment::{Environment, WorkSettings, runtime_settings};
use crate::worker_args::WorkerArgs;

/// The flags that only some workers use, and the use.
const FLAGS: [(&str, Uses); 5] = [
    ("slack_api_url", Uses::SlackApi),
    ("existence_check", Uses::Existence),
    ("files_per_minute", Uses::Files),
    ("max_file_bytes", Uses::Files),
    ("claim_ttl_s", Uses::Claims),
];

/// How often metrics are written on Fargate: CloudWatch's alarms look at minutes.
#[cfg(feature = "aws")]
const METRICS_INTERVAL: Duration = Duration::from_secs(60);

/// The main function of a worker's binary: runs a worker until a signal. If Lambda started the process, it serves
/// Lambda instead. All these binaries are the same but for the name of their worker, `built_as`, so a release has one
/// of them, and links to it with the names of the others.
pub fn main(built_as: &str) -> ExitCode {
    failure::exit_code(start(built_as))
}

fn start(built_as: &str) -> anyhow::Result<()> {
    let program = std::env::args_os().next().unwrap_or_default();
    // Lambda calls each of its programs `bootstrap`.
    let (spec, build) =
        if on_lambda() { worker_called(OsStr::new(built_as)) } else { worker_called(&program) }?;
    let args: WorkerArgs = process::config::parse(command(spec), std::env::args_os())?;
    telemetry::init_log(process::config::log_filter()?);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(spec, build, &args))
}

/// Returns the worker with the name of this program.
fn worker_called(program: &OsStr) -> Result<(&'static WorkerSpec, Build), ConfigError> {
    let called = Path::new(program).file_stem().unwrap_or_default();
    crate::all().find(|(spec, _)| *spec.name == *called).ok_or_else(|| ConfigError::NotAWorker {
        program: called.display().to_string(),
        names: crate::all().map(|(spec, _)| spec.name).collect::<Vec<_>>().join(", "),
    })
}

/// The command with the help of this worker.
fn command(spec: &WorkerSpec) -> clap::Command {
    let mut command = WorkerArgs::command().name(spec.name).about(spec.description);
    for (flag, what) in FLAGS {
        command = command.mut_arg(flag, |flag| flag.hide(!spec.may_use(what)));
    }
    command
        .mut_arg("no_join", |flag| {
            flag.hide(![QueueName::Channels, QueueName::Directory].contains(&spec.queue.name))
        })
        .mut_arg("members", |flag| flag.hide(spec.queue.name != QueueName::Directory))
        .mut_arg("backfill", |flag| {
            flag.hide(![QueueName::Backfill, QueueName::Nightly].contains(&spec.queue.name))
        })
        .mut_arg("tz", |flag| flag.hide(spec.queue.name != QueueName::Nightly))
        .mut_arg("nightly_at", |flag| flag.hide(spec.queue.name != QueueName::Nightly))
        .mut_arg("responder", |flag| {
            flag.hide(spec.queue.name != QueueName::Events && spec.requires != Some(Feature::Responder))
        })
}

async fn run(spec: &'static WorkerSpec, build: Build, args: &WorkerArgs) -> anyhow::Result<()> {
    let mut settings = WorkSettings::read(&args.work).await?;
    settings.night.zone = args.zone.time_zone();
    if spec.requires == Some(Feature::Responder) && !settings.responder.is_on() && !on_lambda() {
        return Err(ConfigError::ResponderOff(spec.name).into());
    }
    if spec.may_use(Uses::Processor) {
        let hidden = [Some(args.backend.data.data.clone()), args.backend.local_index()];
        settings = settings.with_processor(&args.work, hidden.into_iter().flatten().collect()).await?;
        settings.search_index = args.backend.local_index();
    }
    if spec.may_use(Uses::Existence) {
        settings.check_existence()?;
    }
    #[cfg(feature = "aws")]
    if on_lambda() {
        return crate::lambda::serve(args, spec, build, settings).await;
    }
    let shutdown = process::shutdown::on_signal()?;
    #[cfg(feature = "aws")]
    if on_fargate() {
        // To the log, where the template's alarms find them.
        let metrics = telemetry::emf::install(args.metrics.metrics, &args.backend.aws.prefix)?;
        let ended = tokio::select! {
            ended = work(spec, build, args, settings, shutdown) => ended,
            never = flush_each_minute(&metrics) => match never {},
        };
        // What was counted while it stopped.
        metrics.flush();
        return ended;
    }
    serve_metrics(args, shutdown.clone()).await?;
    work(spec, build, args, settings, shutdown).await
}

/// Works until it is shut down.
async fn work(
    spec: &'static WorkerSpec,
    build: Build,
    args: &WorkerArgs,
    settings: WorkSettings,
    shutdown: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let clock: SharedClock = SystemClock::shared();
    let backend = Backend::open(&args.backend, Arc::clone(&clock)).await?;
    if spec.queue.role == QueueRole::Background {
        backend.work_in_background();
    }
    let longest_wait = settings.waiting.longest_wait();
    let environment = Environment::from_backend(&backend, &clock, settings);
    // Report a wrong setting now, and not in every job.
    environment.ports.queue.ready().await?;
    environment.ports.archive.ready().await?;
    archive_version::check(&*environment.ports.archive).await?;
    environment.files.ready().await?;
    if spec.may_use(Uses::Claims) {
        environment.claims.ready().await?;
    }
    let (worker, ports) = (build(&environment), environment.ports.clone());
    let joining = environment.into_joining(shutdown.clone());
    tracing::info!(worker = worker.name(), queue = %worker.queue(), backend = %args.backend, "working");
    let settings = RuntimeSettings { longest_wait, ..runtime_settings(&backend) };
    let archive = Arc::clone(&ports.archive);
    let working = async { tokio::join!(runtime::run(worker, ports, settings, shutdown), joining) };
    let newer = tokio::select! {
        _ = working => None,
        newer = archive_version::wait_until_newer(&*archive) => Some(newer),
    };
    backend.close().await;
    newer.map_or(Ok(()), |newer| Err(newer.into()))
}

/// Serves metrics if there is an address for them.
async fn serve_metrics(args: &WorkerArgs, mut shutdown: watch::Receiver<bool>) -> anyhow::Result<()> {
    if let Some(listener) = listener::bind(args.metrics.metrics_listen, None).await? {
        let handle = telemetry::recorder::install()?;
        tracing::info!(address = %listener.local_addr()?, "metrics listening");
        tokio::spawn(listener::serve_metrics(listener, handle, async move {
            drop(shutdown.wait_for(|shutdown| *shutdown).await);
        }));
    }
    Ok(())
}

#[cfg(feature = "aws")]
async fn flush_each_minute(metrics: &Emf) -> Infallible {
    let mut minutes = interval(METRICS_INTERVAL);
    loop {
        minutes.tick().await;
        metrics.flush();
    }
}

#[cfg(test)]
mod tests {
    use ports::workers::WORKERS;

    use super::*;

    #[test]
    fn a_program_is_the_worker_whose_name_it_has() {
        for spec in &WORKERS {
            for program in [spec.name.to_owned(), format!("/opt/annalist/bin/{}", spec.name)] {
                assert_eq!(worker_called(OsStr::new(&program)).unwrap().0.name, spec.name);
            }
        }
        let error = worker_called(OsStr::new("/usr/bin/my-historian")).err().unwrap().to_string();
        assert!(error.starts_with("`my-historian` is not the name of a worker: "), "{error}");
        assert!(error.contains("one of message-writer, "), "{error}");
    }

    #[test]
    fn a_worker_shows_the_flags_it_uses_and_accepts_all() {
        for spec in &WORKERS {
            command(spec).debug_assert();
            let help = command(spec).render_help().to_string();
            assert_eq!(help.contains("--existence-check"), spec.may_use(Uses::Existence), "{help}");
            assert_eq!(help.contains("--files-per-minute"), spec.may_use(Uses::Files), "{help}");
            assert!(command(spec).try_get_matches_from([spec.name, "--files-per-minute", "1"]).is_ok());
        }
    }
}
