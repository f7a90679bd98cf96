//! Feeds the index with what changed in the archive, batch by batch.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, Item};
use ports::changes::{ChangeBatch, ChangeCursor, ChangedSpan, Changes};
use reader::joined::ChannelPlace;
use reader::names::DisplayNames;
use reader::search::document;
use rules::project;
use slack::ids::Ts;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::index::{IndexError, IndexedMessage, MessageWords, SearchIndex};

/// Messages of one batch: about 20 ms of work, so that a follower ends quickly and holds the index shortly.
const BATCH: usize = 1_000;

/// How often an archive on this machine is looked at: a look that finds nothing is two small reads.
pub const POLL: Duration = Duration::from_millis(250);

/// After a batch [`follow`] rests for this multiple of the time it took: the workers come first.
const REST: u32 = 3;

/// After a failure [`follow`] waits this long: a full disk or a locked file is not mended sooner.
const PAUSE: Duration = Duration::from_secs(5);

/// Why the index does not follow.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowStep {
    /// It took in this number of rows, or began again; there may be more.
    Advanced(usize),
    /// The index has everything that was durable before the step.
    CaughtUp,
}

/// Takes in the next batch.
///
/// # Errors
/// [`FollowError`]
pub async fn step(
    index: &SearchIndex,
    changes: &dyn Changes,
    archive: &dyn Archive,
) -> Result<FollowStep, FollowError> {
    let from = index.cursor().await?;
    match changes.since(from.as_ref(), BATCH).await? {
        ChangeBatch::Rebuild => {
            index.clear(from).await?;
            Ok(FollowStep::Advanced(0))
        }
        ChangeBatch::Items { items, next } => {
            let count = items.len();
            if count > 0 || from.as_ref() != Some(&next) {
                index.apply(from, indexed(&items, archive), Some(next)).await?;
            }
            Ok(if count == 0 { FollowStep::CaughtUp } else { FollowStep::Advanced(count) })
        }
        ChangeBatch::Spans { spans, next } => {
            let mut count = 0;
            for span in &spans {
                count += read_span(index, archive, from.as_ref(), span).await?;
            }
            index.apply(from, Vec::new(), Some(next)).await?;
            Ok(if spans.is_empty() { FollowStep::CaughtUp } else { FollowStep::Advanced(count) })
        }
    }
}

/// Steps until everything is taken in, or until `goes_on` answers no; answers whether everything is.
///
/// # Errors
/// [`FollowError`]
pub async fn catch_up(
    index: &SearchIndex,
    changes: &dyn Changes,
    archive: &dyn Archive,
    mut goes_on: impl FnMut(usize) -> bool,
) -> Result<bool, FollowError> {
    let mut taken_in = 0;
    while goes_on(taken_in) {
        match step(index, changes, archive).await? {
            FollowStep::Advanced(count) => taken_in += count,
            FollowStep::CaughtUp => return Ok(true),
        }
    }
    Ok(false)
}

/// Follows the archive until `stop` says so, and looks `every` so often once it has caught up. It never ends before: what
/// fails is logged and tried again.
pub async fn follow(
    path: &Path,
    every: Duration,
    changes: Arc<dyn Changes>,
    archive: Arc<dyn Archive>,
    mut stop: watch::Receiver<bool>,
) {
    let mut open: Option<SearchIndex> = None;
    let mut is_failing = false;
    while !*stop.borrow() {
        let started = Instant::now();
        let stepped = stepped(&mut open, path, &*changes, &*archive).await;
        let was_failing = std::mem::replace(&mut is_failing, stepped.is_err());
        let rest = match stepped {
            Ok(FollowStep::CaughtUp) => every,
            Ok(FollowStep::Advanced(_)) => started.elapsed() * REST,
            Err(error) => {
                open = None;
                if !was_failing {
                    tracing::warn!(%error, "search does not follow the archive; it is tried again");
                }
                PAUSE
            }
        };
        tokio::select! {
            () = sleep(rest) => {}
            // An error means that the sender is gone, and with it the process.
            _ = stop.wait_for(|stopped| *stopped) => return,
        }
    }
}

/// One step, on an index that is opened if it is not, or not any more.
async fn stepped(
    open: &mut Option<SearchIndex>,
    path: &Path,
    changes: &dyn Changes,
    archive: &dyn Archive,
) -> Result<FollowStep, FollowError> {
    let index = match open.take().filter(SearchIndex::is_current) {
        Some(index) => index,
        None => SearchIndex::open(path).await?,
    };
    let step = step(&index, changes, archive).await?;
    *open = Some(index);
    Ok(step)
}

/// Reads a span and takes it in, page by page: what is read again after a crash changes nothing.
async fn read_span(
    index: &SearchIndex,
    archive: &dyn Archive,
    from: Option<&ChangeCursor>,
    span: &ChangedSpan,
) -> Result<usize, FollowError> {
    let mut query = span.query();
    let mut count = 0;
    loop {
        let page = archive.query(&query).await?;
        count += page.items.len();
        index.apply(from.cloned(), indexed(&page.items, archive), from.cloned()).await?;
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(count),
        }
    }
}

/// Rows as the index has them.
fn indexed(items: &[Item], archive: &dyn Archive) -> Vec<IndexedMessage> {
    // Names change without any message changing: a search looks them up itself.
    let unknown = DisplayNames::in_teams(archive, Vec::new());
    let row = |item: &Item| {
        let span = ChangedSpan::of(&item.key)?;
        let place = ChannelPlace { team: span.team, channel: span.channel };
        let message = if item.is_erased() { None } else { project::message(item) };
        let words = message.map(|message| {
            let (body, facets) = document::indexed(&message, &unknown);
            let facets: Vec<&str> = facets.iter().map(document::Facet::as_str).collect();
            let thread = message["thread_ts"].as_str().and_then(|ts| Ts::parse(ts).ok());
            MessageWords { body, facets: facets.join(" "), thread: thread.map(|ts| ts.micros()) }
        });
        Some(IndexedMessage { place, ts: Ts::parse(&item.key.timestamp).ok()?, words })
    };
    items.iter().filter_map(row).collect()
}
