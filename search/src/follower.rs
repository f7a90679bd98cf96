//! Feeds the index with what changed in the archive, batch by batch.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, Item};
use ports::changes::{ChangeBatch, ChangeCursor, ChangedSpan, Changes};
use reader::joined::ChannelOfTeam;
use reader::names::DisplayNames;
use reader::search::document;
use rules::project;
use slack::ids::Ts;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::index::{IndexError, IndexedMessage, IndexedText, SearchIndex};

/// Messages of one batch: about 50 ms of work, so that a follower ends quickly and holds the index shortly.
pub const BATCH: usize = 1_000;

/// Messages of one batch if no search waits for its end. An archive is read channel by channel, and the index is in the order
/// of time: each batch of a channel's years writes most of its pages, whether it holds ten thousand messages or fifty.
pub const LARGE_BATCH: usize = 50_000;

/// Days of channels of one batch, for an archive that names days and not rows, if someone waits: what is stopped within a batch
/// begins it again.
pub const DAYS: usize = 8;

/// Messages read at once: what they take as rows is more than what they take as words.
const READ_AT_ONCE: usize = 10_000;

/// How often an archive on this machine is looked at: a look that finds nothing is two small reads.
pub const POLL: Duration = Duration::from_millis(250);

/// After a batch [`follow`] rests for this multiple of the time it took: the workers come first. On a busy machine a batch takes
/// long, and what is new must still be found within seconds.
const REST: u32 = 9;
const LONGEST_REST: Duration = Duration::from_secs(1);

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
    /// It was stopped within a batch, which is read again.
    Stopped,
}

/// Rows of the archive as the index takes them in.
struct ReadBatch {
    from: Option<ChangeCursor>,
    messages: Vec<IndexedMessage>,
    next: ChangeCursor,
}

/// What comes next in the archive.
enum NextBatch {
    /// Rows; without any if there is nothing new.
    Rows(ReadBatch),
    /// Days of channels, which are read page by page.
    Spans { spans: Vec<ChangedSpan>, next: ChangeCursor },
    /// The index is of another archive or another time: it begins again.
    Rebuild,
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
    step_while(index, changes, archive, |_| true).await
}

async fn step_while(
    index: &SearchIndex,
    changes: &dyn Changes,
    archive: &dyn Archive,
    goes_on: impl FnMut(usize) -> bool,
) -> Result<FollowStep, FollowError> {
    let from = index.cursor().await?;
    let next = read(changes, archive, from.clone(), BATCH).await?;
    take_in(index, archive, from, next, goes_on).await
}

async fn read(
    changes: &dyn Changes,
    archive: &dyn Archive,
    from: Option<ChangeCursor>,
    limit: usize,
) -> Result<NextBatch, FollowError> {
    Ok(match changes.since(from.as_ref(), limit.min(READ_AT_ONCE)).await? {
        ChangeBatch::Rebuild => NextBatch::Rebuild,
        ChangeBatch::Items { items, next } => {
            NextBatch::Rows(ReadBatch { from, messages: indexed(&items, archive), next })
        }
        ChangeBatch::Spans { spans, next } => NextBatch::Spans { spans, next },
    })
}

/// As [`read`], and on as long as there are rows and room for them.
async fn read_on(
    changes: &dyn Changes,
    archive: &dyn Archive,
    from: Option<ChangeCursor>,
    limit: usize,
) -> Result<NextBatch, FollowError> {
    let mut batch = match read(changes, archive, from, limit).await? {
        NextBatch::Rows(batch) => batch,
        other @ (NextBatch::Spans { .. } | NextBatch::Rebuild) => return Ok(other),
    };
    while !batch.messages.is_empty() && batch.messages.len() < limit {
        let room = limit - batch.messages.len();
        match read(changes, archive, Some(batch.next.clone()), room).await? {
            NextBatch::Rows(more) if !more.messages.is_empty() => {
                batch.messages.extend(more.messages);
                batch.next = more.next;
            }
            // It is read again, once this batch is written.
            NextBatch::Rows(_) | NextBatch::Spans { .. } | NextBatch::Rebuild => break,
        }
    }
    Ok(NextBatch::Rows(batch))
}

/// Takes in a batch. `goes_on` is asked before each page of a day or a channel, with the number of messages taken in before it.
async fn take_in(
    index: &SearchIndex,
    archive: &dyn Archive,
    from: Option<ChangeCursor>,
    next: NextBatch,
    mut goes_on: impl FnMut(usize) -> bool,
) -> Result<FollowStep, FollowError> {
    match next {
        NextBatch::Rebuild => {
            index.clear(from).await?;
            Ok(FollowStep::Advanced(0))
        }
        NextBatch::Rows(batch) => {
            let count = batch.messages.len();
            apply(index, batch).await?;
            Ok(if count == 0 { FollowStep::CaughtUp } else { FollowStep::Advanced(count) })
        }
        NextBatch::Spans { spans, next } => {
            let mut count = 0;
            for span in &spans {
                match read_span(index, archive, from.as_ref(), span, count, &mut goes_on).await? {
                    SpanRead::Whole(read) => count = read,
                    SpanRead::Overtaken => return Ok(FollowStep::Advanced(count)),
                    SpanRead::Stopped => return Ok(FollowStep::Stopped),
                }
            }
            index.apply(from, Vec::new(), Some(next)).await?;
            Ok(if spans.is_empty() { FollowStep::CaughtUp } else { FollowStep::Advanced(count) })
        }
    }
}

/// Answers whether the index is where the batch begins; nothing is taken in otherwise.
async fn apply(index: &SearchIndex, batch: ReadBatch) -> Result<bool, IndexError> {
    if batch.messages.is_empty() && batch.from.as_ref() == Some(&batch.next) {
        return Ok(true);
    }
    index.apply(batch.from, batch.messages, Some(batch.next)).await
}

/// Takes in everything, `limit` messages or days of channels at once, until `goes_on` answers no; answers whether everything is.
/// A batch of messages is read while the one before it is written: each takes about half of the time.
///
/// # Errors
/// [`FollowError`]
pub async fn catch_up(
    index: &SearchIndex,
    changes: &dyn Changes,
    archive: &dyn Archive,
    limit: usize,
    mut goes_on: impl FnMut(usize) -> bool,
) -> Result<bool, FollowError> {
    let mut taken_in = 0;
    let mut waiting: Option<ReadBatch> = None;
    while goes_on(taken_in) {
        let count = waiting.as_ref().map_or(0, |batch| batch.messages.len());
        let from = match &waiting {
            Some(batch) => Some(batch.next.clone()),
            None => index.cursor().await?,
        };
        let write = async {
            match waiting.take() {
                Some(batch) => Ok(apply(index, batch).await?),
                None => Ok::<bool, FollowError>(true),
            }
        };
        let (is_applied, next) = tokio::join!(write, read_on(changes, archive, from.clone(), limit));
        if !is_applied? {
            // Another process has come further.
            continue;
        }
        taken_in += count;
        match next? {
            NextBatch::Rows(batch) if !batch.messages.is_empty() => waiting = Some(batch),
            next @ (NextBatch::Rows(_) | NextBatch::Spans { .. } | NextBatch::Rebuild) => {
                match take_in(index, archive, from, next, |count| goes_on(taken_in + count)).await? {
                    FollowStep::Advanced(count) => taken_in += count,
                    FollowStep::CaughtUp => return Ok(true),
                    FollowStep::Stopped => return Ok(false),
                }
            }
        }
    }
    if let Some(batch) = waiting {
        apply(index, batch).await?;
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
        let stepped = stepped(&mut open, path, &*changes, &*archive, |_| !*stop.borrow()).await;
        let was_failing = std::mem::replace(&mut is_failing, stepped.is_err());
        let rest = match stepped {
            Ok(FollowStep::CaughtUp) => every,
            Ok(FollowStep::Advanced(_) | FollowStep::Stopped) => (started.elapsed() * REST).min(LONGEST_REST),
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
    goes_on: impl FnMut(usize) -> bool,
) -> Result<FollowStep, FollowError> {
    let index = SearchIndex::current(open, path).await?;
    step_while(&index, changes, archive, goes_on).await
}

/// What became of a part of a channel.
enum SpanRead {
    /// All of it is taken in: this number of messages of the batch, with those before it.
    Whole(usize),
    /// Another process has come further.
    Overtaken,
    /// It was stopped before the end.
    Stopped,
}

/// Reads a span and takes it in, page by page: what is read again after a crash changes nothing. A page is read again if another
/// follower took something in meanwhile, which may have been newer.
async fn read_span(
    index: &SearchIndex,
    archive: &dyn Archive,
    from: Option<&ChangeCursor>,
    span: &ChangedSpan,
    mut count: usize,
    goes_on: &mut impl FnMut(usize) -> bool,
) -> Result<SpanRead, FollowError> {
    let mut query = span.query();
    loop {
        if !goes_on(count) {
            return Ok(SpanRead::Stopped);
        }
        let version = index.version().await?;
        let page = archive.query(&query).await?;
        let messages = indexed(&page.items, archive);
        if !index.apply_since(Some(version), from.cloned(), messages, from.cloned()).await? {
            if index.cursor().await?.as_ref() == from {
                continue;
            }
            return Ok(SpanRead::Overtaken);
        }
        count += page.items.len();
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(SpanRead::Whole(count)),
        }
    }
}

/// Rows as the index has them.
fn indexed(items: &[Item], archive: &dyn Archive) -> Vec<IndexedMessage> {
    // Names change without any message changing: a search looks them up itself.
    let unknown = DisplayNames::in_teams(archive, Vec::new());
    let row = |item: &Item| {
        let span = ChangedSpan::of(&item.key)?;
        let place = ChannelOfTeam { team: span.team, channel: span.channel };
        let message = if item.is_erased() { None } else { project::message(item) };
        let words = message.map(|message| {
            let (body, facets) = document::indexed(&message, &unknown);
            let facets: Vec<&str> = facets.iter().map(document::Facet::as_str).collect();
            let thread = message["thread_ts"].as_str().and_then(|ts| Ts::parse(ts).ok());
            IndexedText { body, facets: facets.join(" "), thread: thread.map(|ts| ts.micros()) }
        });
        Some(IndexedMessage { place, ts: Ts::parse(&item.key.timestamp).ok()?, words })
    };
    items.iter().filter_map(row).collect()
}
