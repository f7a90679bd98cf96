//! `annalist view`: serves the archive to browsers. It only reads the archive, and writes the search index and,
//! next to it, the secret of log-in cookies.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::{Router, middleware};
use ports::clock::{SharedClock, SystemClock};
use process::config::backend::{Backend, BackendArgs, BackendKind};
use process::config::viewer::{DEFAULT_VIEWER_LISTEN, ViewerArgs, ViewerPrivate};
use process::config::{self, IndexArgs};
use process::{shutdown, telemetry};
use search::background;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::task::spawn_blocking;
use viewer::Viewer;
use viewer::index::IndexSource;

use crate::api::{self, CallLimits, ReadApi};
use crate::composition::{listen, wait_until_true};
use crate::mcp;
use crate::page_guard::PageGuard;
use crate::search::{SearchSource, index_file};
use crate::zone::Zone;

/// The interval between two polls of an archive on AWS, the same as in `annalist index --follow`.
const AWS_POLL_INTERVAL: Duration = Duration::from_secs(600);

/// Number of threads that answer requests. Pages are made in other threads.
const REQUEST_THREADS: usize = 1;

/// Number of threads that wait for the disk: as many as concurrent readers of the archive.
const DISK_THREADS: usize = 4;

/// Maximum number of blocking threads: those for the disk, one for each page that is made, and one for the
/// index. They start when they are needed; the allocator keeps the memory that each has freed.
const BLOCKING_THREADS: usize = DISK_THREADS + viewer::MAX_CONCURRENT_PAGES + 1;

/// `annalist view`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    viewer: ViewerArgs,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    backend: BackendArgs,
}

/// Serves pages until SIGTERM or SIGINT.
pub(crate) fn run(args: &ViewArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let address = args.viewer.viewer_listen.unwrap_or(DEFAULT_VIEWER_LISTEN);
    let endpoint = ViewerEndpoint::read(&args.viewer, address, args.backend.folder())?;
    let runtime = crate::runtime(
        Builder::new_multi_thread().worker_threads(REQUEST_THREADS).max_blocking_threads(BLOCKING_THREADS),
    )?;
    telemetry::init_log(config::log_filter()?);
    runtime.block_on(crate::with_archive(&args.backend, async |backend| {
        let stop = shutdown::on_signal()?;
        let listener = endpoint.bind().await?;
        let address = listener.local_addr()?;
        let file = index_file(&args.index, &args.backend)?;
        // On AWS, one `annalist index --follow` maintains the index for all searches.
        let following = (args.backend.backend == BackendKind::Embedded).then(|| {
            let (file, changes, archive) = (file.clone(), backend.changes(), backend.archive());
            let stop = stop.clone();
            spawn_blocking(move || {
                let following = background::follow(&file, background::POLL_INTERVAL, changes, archive, stop);
                Handle::current().block_on(following)
            })
        });
        let router = endpoint.router(backend, &args.backend, file, &SystemClock::shared(), address)?;
        tracing::info!(%address, archive = %args.backend, "listening");
        if io::stdout().is_terminal() {
            writeln!(
                out,
                "\nThe archive is at http://{address}/ for a browser on this machine. Ctrl-C ends.\n"
            )?;
            out.flush()?;
        }
        viewer::serve(listener, router, wait_until_true(stop)).await;
        if let Some(following) = following {
            following.await?;
        }
        Ok(())
    }))
}

/// The address at which pages are served, and who may read them.
pub(crate) struct ViewerEndpoint {
    address: SocketAddr,
    guard: PageGuard,
    zone: Zone,
    is_private_for_all: bool,
    calls_per_minute: u32,
    logs_access: bool,
}

impl ViewerEndpoint {
    /// Checks the settings before anything is opened. `data` is the data folder, if there is one.
    pub(crate) fn read(args: &ViewerArgs, address: SocketAddr, data: Option<&Path>) -> anyhow::Result<Self> {
        let guard = PageGuard::read(args, address, data)?;
        let is_private_for_all = args.viewer_private == ViewerPrivate::All;
        Ok(Self {
            address,
            guard,
            zone: Zone::from_args(&args.zone),
            is_private_for_all,
            calls_per_minute: args.viewer_api_per_minute,
            logs_access: args.access_log,
        })
    }

    pub(crate) async fn bind(&self) -> anyhow::Result<TcpListener> {
        listen(self.address, "", "--viewer-listen").await
    }

    pub(crate) fn router(
        &self,
        backend: &Backend,
        backend_args: &BackendArgs,
        index: PathBuf,
        clock: &SharedClock,
        address: SocketAddr,
    ) -> anyhow::Result<Router> {
        let access = self.guard.open(address, &index, clock)?;
        let (poll_interval, has_live) = match backend_args.backend {
            BackendKind::Embedded => (Duration::ZERO, true),
            BackendKind::Aws => (AWS_POLL_INTERVAL, false),
        };
        let search = Arc::new(SearchSource::new(backend, index.clone(), poll_interval));
        let mcp = mcp::http::router(Arc::clone(&search), self.zone.clone(), self.guard.origin());
        let api = ReadApi { search, zone: self.zone.clone(), backend: backend_args.clone() };
        let mut programs = api::router(api).merge(mcp);
        if let Some(limits) = CallLimits::per_minute(self.calls_per_minute) {
            programs = programs.layer(middleware::from_fn_with_state(limits, CallLimits::limit));
        }
        Ok(viewer::router(Viewer {
            archive: backend.archive(),
            files: backend.files(),
            index: IndexSource {
                file: index,
                changes: backend.changes(),
                poll_interval,
                batch_size: crate::search::batch(backend),
            },
            clock: Arc::clone(clock),
            zone: self.zone.time_zone().clone(),
            access,
            is_private_for_all: self.is_private_for_all,
            has_live,
            logs_access: self.logs_access,
            programs,
        }))
    }
}
