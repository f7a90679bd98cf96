//! Feeds the changes of the archive to the index, batch by batch.

use std::time::Duration;

use ports::archive::{Archive, ArchiveError, Item};
use ports::changes::{ChangeBatch, ChangeCursor, ChangedSpan, Changes};
use reader::joined::ChannelOfTeam;
use reader::names::DisplayNames;
use reader::search::document;
use rules::project;
use slack::ids::Ts;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use crate::canvases;
pub use crate::index::BATCH_SIZE;
use crate::index::{IndexError, SearchIndex};
use crate::write::{IndexedMessage, IndexedText};

/// Messages of the first batch if a search waits: even a slow machine writes them in time, so that each search
/// makes progress.
const FIRST_BATCH_SIZE: usize = 25;

/// Messages per batch if no search waits. The archive is read channel by channel, but the index is ordered by
/// time: a batch with years of a channel writes most of the index's pages, whether it has ten or fifty
/// thousand messages.
pub const LARGE_BATCH_SIZE: usize = 50_000;

/// Channel days per batch if a search waits, for an archive that reports changed days instead of rows. A
/// batch that is stopped starts again from its beginning.
pub const DAYS_PER_BATCH: usize = 8;

/// Maximum number of messages per read. Rows need more memory than words.
const MAX_MESSAGES_PER_READ: usize = 10_000;

/// How long rows are converted before other tasks may run.
const MAX_POLL: Duration = Duration::from_millis(5);

/// Why the index cannot follow the archive.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// The result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowStep {
    /// The step wrote this number of rows, or cleared the index for a rebuild; there may be more changes.
    Advanced(usize),
    /// The index has everything that was durable before the step.
    CaughtUp,
    /// The step was stopped within a batch, which will be read again.
    Stopped,
}

/// Rows of the archive, converted for the index.
struct ReadBatch {
    from: Option<ChangeCursor>,
    messages: Vec<IndexedMessage>,
    next: ChangeCursor,
}

/// The next changes of the archive.
enum NextBatch {
    /// Changed rows; empty if there are no changes.
    Rows(ReadBatch),
    /// Changed days of channels, or whole channels, which are read page by page.
    Spans { spans: Vec<ChangedSpan>, next: ChangeCursor },
    /// The index belongs to another archive or another state of it, and must be rebuilt.
    Rebuild,
}

/// Writes the next batch to the index. Calls `should_continue` before each page of a day or channel with the
/// number of messages written so far; false ends the step with [`FollowStep::Stopped`].
pub async fn step(
    index: &SearchIndex,
    changes: &dyn Changes,
    archive: &dyn Archive,
    should_continue: impl FnMut(usize) -> bool,
) -> Result<FollowStep, FollowError> {
    let from = index.cursor().await?;
    let next = read(changes, archive, from.clone(), BATCH_SIZE).await?;
    write_batch(index, archive, from, next, should_continue).await
}

async fn read(
    changes: &dyn Changes,
    archive: &dyn Archive,
    from: Option<ChangeCursor>,
    limit: usize,
) -> Result<NextBatch, FollowError> {
    Ok(match changes.since(from.as_ref(), limit.min(MAX_MESSAGES_PER_READ)).await? {
        ChangeBatch::Rebuild => NextBatch::Rebuild,
        ChangeBatch::Items { items, next } => {
            NextBatch::Rows(ReadBatch { from, messages: indexed(&items, archive).await?, next })
        }
        ChangeBatch::Spans { spans, next } => NextBatch::Spans { spans, next },
    })
}

/// Like [`read`], but continues until the batch is full or there are no more rows.
async fn read_full_batch(
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
            // It is read again after this batch is written.
            NextBatch::Rows(_) | NextBatch::Spans { .. } | NextBatch::Rebuild => break,
        }
    }
    Ok(NextBatch::Rows(batch))
}

/// Writes a batch to the index. Calls `should_continue` like [`step`].
async fn write_batch(
    index: &SearchIndex,
    archive: &dyn Archive,
    from: Option<ChangeCursor>,
    next: NextBatch,
    mut should_continue: impl FnMut(usize) -> bool,
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
                match read_span(index, archive, from.as_ref(), span, count, &mut should_continue).await? {
                    SpanRead::Whole(read) => count = read,
                    SpanRead::Overtaken => return Ok(FollowStep::Advanced(count)),
                    SpanRead::Stopped => return Ok(FollowStep::Stopped),
                }
            }
            index.apply(None, from, Vec::new(), Some(next)).await?;
            Ok(if spans.is_empty() { FollowStep::CaughtUp } else { FollowStep::Advanced(count) })
        }
    }
}

/// Writes a batch of rows. Returns `false` and writes nothing if the index is not at the start of the batch.
async fn apply(index: &SearchIndex, batch: ReadBatch) -> Result<bool, IndexError> {
    if batch.messages.is_empty() && batch.from.as_ref() == Some(&batch.next) {
        return Ok(true);
    }
    index.apply(None, batch.from, batch.messages, Some(batch.next)).await
}

/// Writes all changes to the index, in batches of `limit` messages or channel days, until `should_continue`
/// returns `false`. Returns whether the index has caught up. Reads the next batch of messages while it writes
/// the previous one, because each takes about half of the time.
pub async fn catch_up(
    index: &SearchIndex,
    changes: &dyn Changes,
    archive: &dyn Archive,
    limit: usize,
    mut should_continue: impl FnMut(usize) -> bool,
) -> Result<bool, FollowError> {
    let mut written = 0;
    let mut pending: Option<ReadBatch> = None;
    while should_continue(written) {
        let count = pending.as_ref().map_or(0, |batch| batch.messages.len());
        let from = match &pending {
            Some(batch) => Some(batch.next.clone()),
            None => index.cursor().await?,
        };
        let write = async {
            match pending.take() {
                Some(batch) => Ok(apply(index, batch).await?),
                None => Ok::<bool, FollowError>(true),
            }
        };
        let (is_applied, next) = tokio::join!(write, read_full_batch(changes, archive, from.clone(), limit));
        if !is_applied? {
            // Another process has advanced the index.
            continue;
        }
        written += count;
        match next? {
            NextBatch::Rows(batch) if !batch.messages.is_empty() => pending = Some(batch),
            next @ (NextBatch::Rows(_) | NextBatch::Spans { .. } | NextBatch::Rebuild) => {
                match write_batch(index, archive, from, next, |count| should_continue(written + count))
                    .await?
                {
                    FollowStep::Advanced(count) => written += count,
                    FollowStep::CaughtUp => return Ok(true),
                    FollowStep::Stopped => return Ok(false),
                }
            }
        }
    }
    if let Some(batch) = pending {
        apply(index, batch).await?;
    }
    Ok(false)
}

/// Like [`catch_up`], while a person waits: begins no batch after `begin_for`, and ends after `at_most` even within
/// one, which is read again. The batches grow up to `limit`. It also ends without an error if another process writes
/// to the index meanwhile.
pub async fn catch_up_within(
    index: &SearchIndex,
    changes: &dyn Changes,
    archive: &dyn Archive,
    limit: usize,
    begin_for: Duration,
    at_most: Duration,
) -> Result<bool, FollowError> {
    let index = index.with_patience(at_most / 2);
    let started = Instant::now();
    let has_time = |_| started.elapsed() < begin_for;
    let growing_batches = async {
        let mut size = limit.min(FIRST_BATCH_SIZE);
        while has_time(0) {
            let from = index.cursor().await?;
            let next = read(changes, archive, from.clone(), size).await?;
            match write_batch(&index, archive, from, next, has_time).await? {
                FollowStep::Advanced(_) => size = limit.min(2 * size),
                FollowStep::CaughtUp => return Ok(true),
                FollowStep::Stopped => return Ok(false),
            }
        }
        Ok(false)
    };
    match timeout(at_most, growing_batches).await {
        Ok(Err(FollowError::Index(error))) if error.is_busy() => Ok(false),
        Ok(result) => result,
        Err(_) => Ok(false),
    }
}

/// The result of reading a span of a channel.
enum SpanRead {
    /// The whole span was written. Contains the number of messages of the batch so far.
    Whole(usize),
    /// Another process has advanced the index.
    Overtaken,
    /// Reading was stopped before the end of the span.
    Stopped,
}

/// Reads a span and writes it to the index page by page. Reading it again after a crash changes nothing. A
/// page is read again if another follower has written to the index in the meantime, because that content may
/// be newer.
async fn read_span(
    index: &SearchIndex,
    archive: &dyn Archive,
    from: Option<&ChangeCursor>,
    span: &ChangedSpan,
    mut count: usize,
    should_continue: &mut impl FnMut(usize) -> bool,
) -> Result<SpanRead, FollowError> {
    let mut query = span.query();
    loop {
        if !should_continue(count) {
            return Ok(SpanRead::Stopped);
        }
        let version = index.version().await?;
        let page = archive.query(&query).await?;
        let messages = indexed(&page.items, archive).await?;
        if !index.apply(Some(version), from.cloned(), messages, from.cloned()).await? {
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

/// Converts rows for the index.
async fn indexed(items: &[Item], archive: &dyn Archive) -> Result<Vec<IndexedMessage>, ArchiveError> {
    // Names change without a change of the message, so a search looks them up itself.
    let no_names = DisplayNames::for_teams(archive, Vec::new());
    let mut messages = Vec::with_capacity(items.len());
    let mut yielded_at = Instant::now();
    for item in items {
        // A search that waits for long texts ends in time.
        if yielded_at.elapsed() > MAX_POLL {
            yield_now().await;
            yielded_at = Instant::now();
        }
        let Some(span) = ChangedSpan::for_row(&item.key) else { continue };
        let Ok(ts) = Ts::parse(&item.key.timestamp) else { continue };
        let location = ChannelOfTeam { team: span.team, channel: span.channel };
        let message = if item.is_erased() { None } else { project::message(item) };
        let is_message = message.is_some();
        let shown = message.or_else(|| project::canvas_of_channel(item));
        let shared = match &shown {
            Some(_) => canvases::read(archive, &[&location.team].into(), item).await?,
            None => Vec::new(),
        };
        let words = shown.filter(|_| is_message || !shared.is_empty()).map(|message| {
            let (mut body, facets) = document::index_words_and_facets(&message, &no_names);
            body += &canvases::index_words(&shared);
            let facets: Vec<&str> = facets.iter().map(document::Facet::as_str).collect();
            let thread = message.root_ts();
            IndexedText { body, facets: facets.join(" "), thread: thread.map(|ts| ts.micros()), is_message }
        });
        messages.push(IndexedMessage { location, ts, words });
    }
    Ok(messages)
}
