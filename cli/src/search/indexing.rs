//! `annalist index`: brings the search index up to date.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use process::config::IndexArgs;
use process::config::backend::{Backend, BackendArgs, BackendKind};
use search::follower;
use search::index::SearchIndex;

use crate::plain::grouped;
use crate::progress::ProgressLine;

/// Between two looks at an archive on AWS. A mark there says which channel and day changed within an hour, so that each look
/// reads the days of the last two hours again: a busy one costs 325 read units.
const LOOK_AT_AWS: Duration = Duration::from_secs(600);

/// How the index is made.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct IndexingArgs {
    /// Make it anew
    #[arg(long)]
    rebuild: bool,
    /// Go on until a signal: `annalist up` does so for its own archive
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

/// Takes in everything that the archive has.
pub(crate) async fn index(backend: &Backend, args: &IndexingArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (archive, changes) = (backend.archive(), backend.changes());
    let file = super::index_file(&args.index, &args.backend)?;
    let index = SearchIndex::open(&file).await?;
    // Another process may follow too: what it has taken in meanwhile goes as well.
    while args.rebuild && !index.clear(index.cursor().await?).await? {}
    let is_new = index.cursor().await?.is_none();
    let behind = changes.behind(index.cursor().await?.as_ref()).await?;
    let mut shutdown = process::shutdown::on_signal()?;
    let mut progress = ProgressLine::begin();
    let goes_on = |taken_in: usize| {
        let taken_in = taken_in as u64;
        progress.say(taken_in, behind.unwrap_or(taken_in), |elapsed| rate(taken_in, behind, elapsed));
        !*shutdown.borrow()
    };
    let is_caught_up =
        follower::catch_up(&index, &*changes, &*archive, follower::LARGE_BATCH, goes_on).await?;
    drop(progress);
    if !is_caught_up {
        writeln!(out, "Stopped: the same command goes on where this one ended.")?;
        return Ok(());
    }
    if is_new {
        index.optimize().await?;
    }
    let count = index.count().await?;
    writeln!(out, "{} messages can be found, in {}.", grouped(count), file.display())?;
    if args.follow {
        out.flush()?;
        let every = match args.backend.backend {
            BackendKind::Embedded => follower::POLL,
            BackendKind::Aws => LOOK_AT_AWS,
        };
        shutdown.mark_unchanged();
        follower::follow(&file, every, Arc::clone(&changes), archive, shutdown).await;
    }
    Ok(())
}

/// How many messages are taken in, of how many if that is known, and how many in a second.
fn rate(taken_in: u64, behind: Option<u64>, elapsed: Duration) -> String {
    let of = behind.map_or_else(String::new, |behind| format!(" of {}", grouped(behind)));
    let per_second = taken_in / elapsed.as_secs().max(1);
    format!("{}{of} messages, {} a second", grouped(taken_in), grouped(per_second))
}
