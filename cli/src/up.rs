//! `annalist up`: everything in one process, until a signal.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::bail;
use ports::clock::{SharedClock, SystemClock};
use process::config::backend::{Backend, BackendArgs, BackendKind};
use process::config::viewer::ViewerArgs;
use process::config::{self, DEFAULT_METRICS_LISTEN, IndexArgs, ListenArgs, MetricsArgs};
use process::telemetry::{self, listener};
use slack::signature::SigningSecrets;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::watch;
use workers::environment::{WorkArgs, WorkSettings};

use crate::composition::{Composition, turned};
use crate::search::index_file;
use crate::view::PageDoor;

/// Logged once at each start: the operator of an archive is responsible for it.
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
    metrics: MetricsArgs,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    viewer: ViewerArgs,
    #[command(flatten)]
    work: WorkArgs,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(args: &UpArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let door = args.viewer.viewer_listen.map(|address| PageDoor::read(&args.viewer, address)).transpose()?;
    crate::runtime(&mut Builder::new_multi_thread())?.block_on(async {
        let secrets = config::signing_secrets().await?;
        let work = WorkSettings::read(&args.work).await?.with_processor(&args.work).await?;
        work.check_existence()?;
        telemetry::init_log(config::log_filter()?);
        serve(args, secrets, work, door, out).await
    })
}

async fn serve(
    args: &UpArgs,
    secrets: SigningSecrets,
    work: WorkSettings,
    door: Option<PageDoor>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let shutdown = process::shutdown::on_signal()?;
    let clock: SharedClock = SystemClock::shared();
    // Before the data folder is made: what fails here leaves nothing behind.
    let listener = listen(args.listen.listen).await?;
    let metrics = listener::bind(args.metrics.metrics_listen, Some(DEFAULT_METRICS_LISTEN)).await?;
    let pages = match &door {
        Some(door) => Some((door, door.bind().await?)),
        None => None,
    };
    let backend = Backend::open(&args.backend, Arc::clone(&clock)).await?;
    if let Some(listener) = metrics {
        serve_metrics(listener, shutdown.clone())?;
    }
    // Before any event is accepted: a wrong setting should show at once.
    backend.queue().ready().await?;
    backend.archive().ready().await?;
    backend.files().ready().await?;
    backend.claims().ready().await?;
    let channels = channels_step(&work);
    // An archive on AWS has many writers: one `annalist index --follow` follows it, where it is searched.
    let index = match args.backend.backend {
        BackendKind::Embedded => Some(index_file(&args.index, &args.backend)?),
        BackendKind::Aws => None,
    };
    let pages = match pages {
        Some((door, listener)) => {
            let address = listener.local_addr()?;
            let file = index_file(&args.index, &args.backend)?;
            let router = door.router(&backend, args.backend.backend, file, &clock, address);
            tracing::info!(%address, "pages listening");
            Some(tokio::spawn(viewer::serve(listener, router, turned(shutdown.clone()))))
        }
        None => None,
    };
    let mut composition = Composition::start(&backend, listener, secrets, &clock, work, index)?;
    let address = composition.address;
    tracing::info!(%address, backend = %args.backend, "listening");
    if io::stdout().is_terminal() {
        banner(out, address, &args.backend, channels)?;
    } else {
        tracing::info!("{CONSENT}");
    }
    let broken = tokio::select! {
        () = turned(shutdown) => None,
        broken = composition.broken() => Some(broken),
    };
    composition.drain().await;
    if let Some(pages) = pages {
        pages.abort();
    }
    backend.close().await;
    broken.map_or(Ok(()), Err)
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            bail!("{address} is in use: stop what listens there, or choose another address with --listen")
        }
        Err(error) => bail!("cannot listen on {address}: {error}; choose another address with --listen"),
    }
}

fn serve_metrics(listener: TcpListener, shutdown: watch::Receiver<bool>) -> anyhow::Result<()> {
    let address = listener.local_addr()?;
    let handle = telemetry::recorder::install()?;
    tokio::spawn(listener::serve_metrics(listener, handle, turned(shutdown)));
    tracing::info!(%address, "metrics listening");
    Ok(())
}

/// How the app comes into channels.
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

fn banner(out: &mut dyn Write, address: SocketAddr, backend: &BackendArgs, channels: &str) -> io::Result<()> {
    let typed = backend.as_typed();
    writeln!(
        out,
        "\nAnnalist takes Slack's events at http://{address}/slack/events and keeps them in {backend}.\n\n  \
         1. Make that address reachable over https: a tunnel, or a proxy with a certificate.\n  \
         2. Enter https://YOUR-HOST/slack/events as the Request URL of your app's Event Subscriptions.\n     \
         No app yet? `annalist manifest --url https://YOUR-HOST/slack/events` describes it.\n  \
         3. {channels}\n\n\
         {CONSENT}.\n\n\
         In another terminal: `annalist status {typed}`. Ctrl-C ends, after finishing what has begun.\n"
    )?;
    out.flush()
}
