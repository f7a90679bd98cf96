//! `annalist view`: serves the archive to browsers. It only reads the archive, and writes the search index and,
//! next to it, the secret of log-in cookies.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::http::HeaderName;
use ports::clock::{SharedClock, SystemClock};
use process::config::backend::{Backend, BackendArgs, BackendKind};
use process::config::viewer::{DEFAULT_VIEWER_LISTEN, ViewerArgs, ViewerPrivate};
use process::config::{self, IndexArgs};
use process::{shutdown, telemetry};
use search::follower;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::task::spawn_blocking;
use viewer::Viewer;
use viewer::access::{self, Access, CookieKey, ViewerAccess};
use viewer::index::IndexSource;

use crate::UsageError;
use crate::composition::{listen, wait_until_true};
use crate::cookie_key;
use crate::search::index_file;
use crate::viewer_password::{self, PasswordPlace};
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

/// Two settings say who may read the pages.
const TWO_GUARDS: &str = "--viewer-password-file (ANNALIST_VIEWER_PASSWORD_FILE) and --viewer-user-header \
    (ANNALIST_VIEWER_USER_HEADER) are both set: keep one of them";

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
                let following = follower::follow(&file, follower::POLL_INTERVAL, changes, archive, stop);
                Handle::current().block_on(following)
            })
        });
        let router = endpoint.router(backend, args.backend.backend, file, &SystemClock::shared(), address)?;
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
    hosts: Vec<String>,
    readers: ConfiguredReaders,
    zone: Zone,
    is_private_for_all: bool,
}

/// Who may read, before anything is opened.
enum ConfiguredReaders {
    Known(ViewerAccess),
    /// Those who know the password in this file, which is made if it is missing.
    MadePassword(PathBuf),
}

impl ViewerEndpoint {
    /// Checks the settings before anything is opened. `data` is the data folder, if there is one.
    pub(crate) fn read(args: &ViewerArgs, address: SocketAddr, data: Option<&Path>) -> anyhow::Result<Self> {
        let readers = match (&args.viewer_password_file, &args.viewer_user_header) {
            // The arguments exclude each other; each may also come from another place.
            (Some(_), Some(_)) => return Err(UsageError::new(TWO_GUARDS).into()),
            (Some(file), None) => match PasswordPlace::new(file, data)? {
                PasswordPlace::Given(file) => {
                    ConfiguredReaders::Known(ViewerAccess::Password(viewer_password::read(&file)?))
                }
                PasswordPlace::Made(file) => ConfiguredReaders::MadePassword(file),
            },
            (None, Some(header)) => ConfiguredReaders::Known(ViewerAccess::Header(header_name(header)?)),
            (None, None) if address.ip().is_loopback() => ConfiguredReaders::Known(ViewerAccess::All),
            (None, None) => {
                let why = format!(
                    "--viewer-listen {address} is reached from other machines: give a password with --viewer-password-file, or \
                     the header in which a proxy names the reader with --viewer-user-header"
                );
                return Err(UsageError::new(why).into());
            }
        };
        let hosts = args.viewer_host.iter().map(|name| host_name(name)).collect::<anyhow::Result<_>>()?;
        let is_private_for_all = args.viewer_private == ViewerPrivate::All;
        Ok(Self { address, hosts, readers, zone: Zone::from_args(&args.zone), is_private_for_all })
    }

    pub(crate) async fn bind(&self) -> anyhow::Result<TcpListener> {
        listen(self.address, "", "--viewer-listen").await
    }

    pub(crate) fn router(
        &self,
        backend: &Backend,
        kind: BackendKind,
        index: PathBuf,
        clock: &SharedClock,
        address: SocketAddr,
    ) -> anyhow::Result<Router> {
        let readers = match &self.readers {
            ConfiguredReaders::Known(readers) => readers.clone(),
            ConfiguredReaders::MadePassword(file) => {
                ViewerAccess::Password(viewer_password::read_or_create(file)?)
            }
        };
        let key = match &readers {
            ViewerAccess::Password(_) => cookie_key::read_or_create(&index.with_file_name(cookie_key::FILE))?,
            // Without a password there is no cookie.
            ViewerAccess::All | ViewerAccess::Header(_) => CookieKey::new([0; CookieKey::BYTES]),
        };
        let poll_interval = match kind {
            BackendKind::Embedded => Duration::ZERO,
            BackendKind::Aws => AWS_POLL_INTERVAL,
        };
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
            access: Access::new(address, &self.hosts, readers, &key),
            is_private_for_all: self.is_private_for_all,
        }))
    }
}

/// Refuses a name that the `Host` of a request can never have.
fn host_name(name: &str) -> anyhow::Result<String> {
    let name = name.trim();
    if !access::is_host_name(name) {
        let why = format!("--viewer-host {name:?} is not a host name: write it as archive.example");
        return Err(UsageError::new(why).into());
    }
    Ok(name.to_owned())
}

fn header_name(header: &str) -> anyhow::Result<HeaderName> {
    let name = HeaderName::from_bytes(header.as_bytes()).ok().context("unreadable");
    name.map_err(|_| UsageError::new("--viewer-user-header names a header such as X-Forwarded-User").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_that_no_request_has_is_refused() {
        assert_eq!(host_name(" archive.example ").unwrap(), "archive.example");
        for name in ["", "https://archive.example", "*"] {
            let error = host_name(name).unwrap_err();
            assert!(error.is::<UsageError>() && error.to_string().contains(&format!("{name:?}")), "{error}");
        }
    }
}
