//! Runs the asynchronous part of a command to its end.

use std::io;

use ports::clock::SystemClock;
use process::config::backend::{Backend, BackendArgs};
use tokio::runtime::{Builder, Runtime};
use workers::archive_version;

/// Opens an existing archive, runs `work` on it, and closes it.
pub(crate) fn on_archive(
    backend_args: &BackendArgs,
    work: impl AsyncFnOnce(&Backend) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    block_on(with_archive(backend_args, work))?
}

pub(crate) async fn with_archive(
    backend_args: &BackendArgs,
    work: impl AsyncFnOnce(&Backend) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    work_with(Backend::open_existing(backend_args, SystemClock::shared()).await?, work).await
}

/// The same for a command that writes to the archive, which a newer version may have forbidden.
pub(crate) fn on_written_archive(
    backend_args: &BackendArgs,
    work: impl AsyncFnOnce(&Backend) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    on_archive(backend_args, async |backend| {
        archive_version::refuse_newer(&*backend.archive()).await?;
        work(backend).await
    })
}

/// Opens an archive, creating a missing one, for a command that fills it.
pub(crate) fn on_new_archive(
    backend_args: &BackendArgs,
    work: impl AsyncFnOnce(&Backend) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    block_on(async {
        let backend = Backend::open(backend_args, SystemClock::shared()).await?;
        work_with(backend, async |backend| {
            archive_version::check(&*backend.archive()).await?;
            work(backend).await
        })
        .await
    })?
}

async fn work_with(
    backend: Backend,
    work: impl AsyncFnOnce(&Backend) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // A person's command can wait a moment, but Slack's events cannot.
    backend.work_in_background();
    let result = work(&backend).await;
    backend.close().await;
    result
}

pub(crate) fn block_on<Work: Future>(work: Work) -> io::Result<Work::Output> {
    Ok(runtime(&mut Builder::new_current_thread())?.block_on(work))
}

pub(crate) fn runtime(builder: &mut Builder) -> io::Result<Runtime> {
    builder.enable_all().build()
}
