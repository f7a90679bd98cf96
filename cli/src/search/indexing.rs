//! `annalist index`: brings the search index up to date.

use std::io::Write;
use std::time::Duration;

use process::config::IndexArgs;
use process::config::backend::{Backend, BackendArgs, BackendKind};
use search::index::SearchIndex;
use search::{background, follower};

use crate::plain::{counted, grouped};
use crate::progress::ProgressLine;

/// The interval between two polls of an archive on AWS. A mark there names a channel and a day that changed
/// within an hour, so each poll reads the days of the last two hours again; a busy day costs 325 read units.
const AWS_POLL_INTERVAL: Duration = Duration::from_secs(600);

/// `annalist index`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct IndexingArgs {
    /// Rebuild it
    #[arg(long)]
    rebuild: bool,
    /// Keep running until stopped: `annalist up` does this for its own archive
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

/// Adds everything new in the archive to the index.
pub(crate) async fn index(backend: &Backend, args: &IndexingArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let file = super::index_file(&args.index, &args.backend)?;
    let index = SearchIndex::open(&file).await?;
    // Another process may follow the archive too; clear again if it has added messages meanwhile.
    while args.rebuild && !index.clear(index.cursor().await?).await? {}
    let mut shutdown = process::shutdown::on_signal()?;
    if !bring_up_to_date(&index, backend, || !*shutdown.borrow()).await? {
        writeln!(out, "Stopped: the same command continues where this one stopped.")?;
        return Ok(());
    }
    let count = index.count().await?;
    let messages = counted(count, "message", "messages");
    writeln!(out, "{messages} can be found, in {}.", file.display())?;
    if args.follow {
        out.flush()?;
        let poll_interval = match args.backend.backend {
            BackendKind::Embedded => background::POLL_INTERVAL,
            BackendKind::Aws => AWS_POLL_INTERVAL,
        };
        shutdown.mark_unchanged();
        background::follow(&file, poll_interval, backend.changes(), backend.archive(), shutdown).await;
    }
    Ok(())
}

/// Indexes what a command stored, so that the first search after it finds everything. The command has succeeded in
/// any case: `up`, `view` and `index` add what is missing. On AWS, one `annalist index --follow` maintains the index.
pub(crate) async fn index_what_came(backend: &Backend, index: &IndexArgs, args: &BackendArgs) {
    if args.backend != BackendKind::Embedded {
        return;
    }
    let indexing = async {
        let index = SearchIndex::open(&super::index_file(index, args)?).await?;
        bring_up_to_date(&index, backend, || true).await
    };
    if let Err(error) = indexing.await {
        super::print_remark(&format!("search does not find all of it yet: {error:#}; run `annalist index`"));
    }
}

/// Indexes everything new, with a progress bar, while `goes_on`. Returns whether it is up to date.
async fn bring_up_to_date(
    index: &SearchIndex,
    backend: &Backend,
    goes_on: impl Fn() -> bool,
) -> anyhow::Result<bool> {
    let (archive, changes) = (backend.archive(), backend.changes());
    let cursor = index.cursor().await?;
    let behind = changes.backlog_estimate(cursor.as_ref()).await?;
    let mut progress = ProgressLine::begin();
    let report_progress = |indexed: usize| {
        let indexed = indexed as u64;
        progress.update(indexed, behind.unwrap_or(indexed), |elapsed| rate(indexed, behind, elapsed));
        goes_on()
    };
    let is_caught_up =
        follower::catch_up(index, &*changes, &*archive, follower::LARGE_BATCH_SIZE, report_progress).await?;
    drop(progress);
    if is_caught_up && (cursor.is_none() || index.is_unmerged().await?) {
        index.optimize().await?;
    }
    Ok(is_caught_up)
}

/// Formats the number of indexed messages, the total if it is known, and the rate.
fn rate(indexed: u64, behind: Option<u64>, elapsed: Duration) -> String {
    let total = behind.map_or_else(String::new, |behind| format!(" of {}", grouped(behind)));
    let per_second = indexed / elapsed.as_secs().max(1);
    format!("indexed {}{total} messages, {} a second", grouped(indexed), grouped(per_second))
}
