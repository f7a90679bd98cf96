//! `annalist up`: runs everything in one process until a signal.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use fleet::environment::{WorkArgs, WorkSettings};
use ingest::SocketMode;
use ports::clock::{SharedClock, SystemClock};
use ports::reread::Reread;
use process::config::backend::{Backend, BackendArgs, BackendKind};
use process::config::copy::CopyArgs;
use process::config::socket::{SocketArgs, socket_api};
use process::config::viewer::ViewerArgs;
use process::config::{self, ConfigError, DEFAULT_METRICS_LISTEN, IndexArgs, ListenArgs, MetricsArgs};
use process::telemetry::{self, listener};
use slack::signing_table::SigningTable;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::watch;
use workers::archive_version;

use crate::composition::{Composition, listen, wait_until_true};
use crate::operate::backup::embedded_folder;
use crate::operate::copy::{Copier, NightlyCopy, check_place};
use crate::search::{index_file, index_folder};
use crate::view::ViewerEndpoint;

/// Printed or logged once at each start, because the operator is responsible for consent.
const CONSENT: &str =
    "tell everyone whose messages are kept: docs/consent.md says what to settle before you begin";

/// `annalist up`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    viewer: ViewerArgs,
    #[command(flatten)]
    copy: CopyArgs,
    #[command(flatten)]
    work: WorkArgs,
}

/// The options that `annalist up -h` shows: those that most people set, on one screen. `--help` shows all.
const SHORT_HELP: [&str; 11] = [
    "data",
    "settings",
    "listen",
    "viewer_listen",
    "viewer_password_file",
    "tz",
    "copy_to",
    "no_join",
    "backfill",
    "nightly_at",
    "responder",
];

/// Leaves an option out of the short help, unless most people need it.
pub(crate) fn in_short_help(arg: clap::Arg) -> clap::Arg {
    let is_shown = SHORT_HELP.contains(&arg.get_id().as_str());
    arg.hide_short_help(!is_shown)
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(args: &UpArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let data = args.backend.folder();
    let endpoint = args.viewer.viewer_listen;
    let endpoint = endpoint.map(|address| ViewerEndpoint::read(&args.viewer, address, data)).transpose()?;
    if let Some(target) = &args.copy.copy_to {
        check_place(target, embedded_folder(&args.backend, "up --copy-to")?)?;
    }
    crate::runtime(&mut Builder::new_multi_thread())?.block_on(async {
        telemetry::init_log(config::log_filter()?);
        if let Some(warning) = config::settings_warning() {
            tracing::warn!("{warning}");
        }
        let secrets = config::optional_signing_table().await?;
        let socket = socket_api(&args.work.slack)?;
        if secrets.is_none() && socket.is_none() {
            return Err(ConfigError::NoSigningSecret.into());
        }
        let hidden = [
            Some(args.backend.data.data.clone()),
            index_folder(&args.index, &args.backend).ok(),
            args.viewer.viewer_password_file.clone(),
            args.viewer.sign_in.viewer_people_file.clone(),
        ];
        let hidden = hidden.into_iter().flatten().collect();
        let mut work = WorkSettings::read(&args.work).await?.with_processor(&args.work, hidden).await?;
        work.night.zone = args.viewer.zone.time_zone();
        work.check_existence()?;
        let connections = args.socket.socket_connections;
        let web = Some(Arc::clone(&work.web));
        let socket = socket.map(|api| SocketMode { api: Arc::new(api), web, connections });
        serve(args, (secrets, socket), work, endpoint, out).await
    })
}

async fn serve(
    args: &UpArgs,
    (secrets, socket): (Option<Arc<Reread<SigningTable>>>, Option<SocketMode>),
    work: WorkSettings,
    endpoint: Option<ViewerEndpoint>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let shutdown = process::shutdown::on_signal()?;
    let clock: SharedClock = SystemClock::shared();
    // Before the data folder is created, so that a failure leaves nothing behind.
    let advice = "stop the process that listens there, or ";
    let listener = listen(args.listen.listen, advice, "--listen").await?;
    let metrics = listener::bind(args.metrics.metrics_listen, Some(DEFAULT_METRICS_LISTEN)).await?;
    let pages = match &endpoint {
        Some(endpoint) => Some((endpoint, endpoint.bind().await?)),
        None => None,
    };
    let backend = Backend::open(&args.backend, Arc::clone(&clock)).await?;
    if let Some(listener) = metrics {
        serve_metrics(listener, shutdown.clone())?;
    }
    // Before any event is accepted, so that a wrong setting fails at once.
    backend.queue().ready().await?;
    backend.archive().ready().await?;
    backend.files().ready().await?;
    backend.claims().ready().await?;
    archive_version::check(&*backend.archive()).await?;
    let channels = channels_step(&work);
    // An archive on AWS has many writers. One `annalist index --follow` maintains the index, on the machine
    // that searches.
    let index = match args.backend.backend {
        BackendKind::Embedded => Some(index_file(&args.index, &args.backend)?),
        BackendKind::Aws => None,
    };
    let pages = match pages {
        Some((endpoint, listener)) => {
            let address = listener.local_addr()?;
            let file = index_file(&args.index, &args.backend)?;
            let router = endpoint.router(&backend, &args.backend, file, &clock, address)?;
            tracing::info!(%address, "pages listening");
            Some(tokio::spawn(viewer::serve(listener, router, wait_until_true(shutdown.clone()))))
        }
        None => None,
    };
    let in_socket_mode = socket.is_some();
    let night = work.night.clone();
    let mut composition = Composition::start(&backend, listener, (secrets, socket), &clock, work, index)?;
    if let (Some(target), Some(database)) = (&args.copy.copy_to, backend.database()) {
        let copier = Copier {
            data: args.backend.data.data.clone(),
            database: database.clone(),
            archive: backend.archive(),
            clock: Arc::clone(&clock),
            keep: args.copy.copy_keep,
            target: target.clone(),
        };
        composition.copy(NightlyCopy { copier, night });
    }
    let address = composition.address;
    tracing::info!(%address, backend = %args.backend, "listening");
    if io::stdout().is_terminal() {
        banner(out, address, in_socket_mode, &args.backend, channels)?;
    } else {
        tracing::info!("{CONSENT}");
    }
    let archive = backend.archive();
    let broken = tokio::select! {
        () = wait_until_true(shutdown) => None,
        newer = archive_version::wait_until_newer(&*archive) => Some(newer.into()),
        broken = composition.wait_for_failure() => Some(broken),
    };
    composition.drain().await;
    if let Some(pages) = pages {
        pages.abort();
    }
    backend.close().await;
    broken.map_or(Ok(()), Err)
}

fn serve_metrics(listener: TcpListener, shutdown: watch::Receiver<bool>) -> anyhow::Result<()> {
    let address = listener.local_addr()?;
    let handle = telemetry::recorder::install()?;
    tokio::spawn(listener::serve_metrics(listener, handle, wait_until_true(shutdown)));
    tracing::info!(%address, "metrics listening");
    Ok(())
}

/// Returns the set-up step for getting the app into channels.
fn channels_step(work: &WorkSettings) -> &'static str {
    match (work.web.has_tokens(), work.join) {
        (true, true) => "It joins every public channel and knows their names (--no-join to refuse).",
        (true, false) => "Invite the app to the channels to be kept: /invite @annalist",
        (false, _) => {
            "Invite the app to the channels to be kept: /invite @annalist\n     \
             With SLACK_BOT_TOKEN set it joins public channels itself, and brings in names, people and files."
        }
    }
}

fn banner(
    out: &mut dyn Write,
    address: SocketAddr,
    in_socket_mode: bool,
    backend: &BackendArgs,
    channels: &str,
) -> io::Result<()> {
    let typed = backend.selecting_flag();
    if in_socket_mode {
        writeln!(
            out,
            "\nAnnalist opens connections to Slack (Socket Mode) and keeps its events in {backend}.\n\n  \
             1. {channels}\n\n\
             {CONSENT}.\n\n\
             In another terminal: `annalist status {typed}`. Ctrl-C stops it after it has finished current work.\n"
        )?;
        return out.flush();
    }
    writeln!(
        out,
        "\nAnnalist takes Slack's events at http://{address}/slack/events and keeps them in {backend}.\n\n  \
         1. Make that address reachable over https: a tunnel, or a proxy with a certificate.\n  \
         2. Enter https://YOUR-HOST/slack/events as the Request URL of your app's Event Subscriptions.\n     \
         No app yet? `annalist manifest --url https://YOUR-HOST/slack/events` describes it.\n  \
         3. {channels}\n\n\
         {CONSENT}.\n\n\
         In another terminal: `annalist status {typed}`. Ctrl-C stops it after it has finished current work.\n"
    )?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_short_help_of_up_fits_on_a_screen_and_its_long_help_has_every_option() {
        let mut command = crate::Cli::command();
        let up = command.find_subcommand_mut("up").unwrap();
        let (short, long) = (up.render_help().to_string(), up.render_long_help().to_string());
        // A terminal of 100 columns breaks the longer lines.
        let rows: usize = short.lines().map(|line| line.chars().count().div_ceil(100).max(1)).sum();
        assert!(rows <= 48, "{rows} rows:\n{short}");
        let flags: Vec<_> =
            up.get_arguments().filter_map(|arg| Some((arg.get_id(), arg.get_long()?))).collect();
        let has = |help: &str, flag: &str| {
            let flag = format!("--{flag}");
            help.lines().any(|line| line.split_whitespace().any(|word| word == flag))
        };
        for (id, flag) in flags.iter().filter(|(_, flag)| *flag != "help") {
            assert!(has(&long, flag), "{flag}");
            let is_listed = |line: &str| line.split_whitespace().next() == Some(&format!("--{flag}"));
            assert_eq!(short.lines().any(is_listed), SHORT_HELP.contains(&id.as_str()), "{flag}");
        }
        let shown = flags.iter().filter(|(id, _)| SHORT_HELP.contains(&id.as_str()));
        assert_eq!(shown.count(), SHORT_HELP.len());
    }
}
