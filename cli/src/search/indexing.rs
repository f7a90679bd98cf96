//! `annalist index`: brings the search index up to date.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use process::config::IndexArgs;
use process::config::backend::{Backend, BackendArgs, BackendKind};
use search::follower;
use search::index::SearchIndex;

use crate::plain;

/// Between two looks at an archive on AWS. A mark there says which channel and day changed within an hour, so that each look
/// reads the days of the last two hours again: a busy one costs 325 read units.
const LOOK_AT_AWS: Duration = Duration::from_secs(600);

/// Between two lines where there is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

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
    if args.rebuild {
        index.clear().await?;
    }
    let is_new = index.cursor().await?.is_none();
    let behind = changes.behind(index.cursor().await?.as_ref()).await?;
    let mut shutdown = process::shutdown::on_signal()?;
    let mut progress = IndexProgress::of(behind);
    let goes_on = |taken_in: usize| {
        progress.say(taken_in);
        !*shutdown.borrow()
    };
    let is_caught_up = follower::catch_up(&index, &*changes, &*archive, goes_on).await?;
    progress.end();
    if !is_caught_up {
        writeln!(out, "Stopped: the same command goes on where this one ended.")?;
        return Ok(());
    }
    if is_new {
        index.optimize().await?;
    }
    let count = index.count().await?;
    writeln!(out, "{} messages can be found, in {}.", plain::grouped(count), file.display())?;
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

/// Says on standard error how many messages are taken in.
struct IndexProgress {
    bar: Option<ProgressBar>,
    behind: Option<u64>,
    started: Instant,
    said: Instant,
}

impl IndexProgress {
    fn of(behind: Option<u64>) -> Self {
        let bar = io::stderr().is_terminal().then(|| match behind {
            Some(behind) => {
                let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {per_sec}  {eta} left");
                ProgressBar::new(behind).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            }
            None => ProgressBar::new_spinner(),
        });
        let now = Instant::now();
        Self { bar, behind, started: now, said: now }
    }

    fn say(&mut self, taken_in: usize) {
        let taken_in = taken_in as u64;
        if let Some(bar) = &self.bar {
            bar.set_position(taken_in);
        } else if self.said.elapsed() >= BETWEEN_LINES {
            self.said = Instant::now();
            let of = self.behind.map_or_else(String::new, |behind| format!(" of {}", plain::grouped(behind)));
            let rate = taken_in / self.started.elapsed().as_secs().max(1);
            let text = format!(
                "annalist: {}{of} messages, {} a second",
                plain::grouped(taken_in),
                plain::grouped(rate)
            );
            // There is nowhere else to say it.
            drop(writeln!(io::stderr(), "{text}"));
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
