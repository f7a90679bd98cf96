//! A page of a channel, without replies unless they were also sent to the channel, or the first message of
//! their thread is not in the archive.

use std::collections::{BTreeSet, HashMap};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use ports::archive::{ArchiveError, ItemKey, Query};
use reader::joined::JoinedChannel;
use reader::text;
use rules::project;
use rules::view::MessageView;
use slack::ids::Ts;

use crate::pages::message::PageMessage;
use crate::pages::timeline::{TimelineEnds, TimelinePage};
use crate::times;

/// Messages per page.
pub const PAGE: usize = 50;

/// Rows per read, and maximum rows for one page. If nearly all rows are replies, a page has fewer messages
/// and a link to more.
const ROWS_PER_READ: usize = 64;
const MAX_ROWS: usize = 4_096;

/// The start of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimelineStart {
    /// The newest messages.
    Newest,
    Before(Ts),
    After(Ts),
    Around(Ts),
    /// The messages from this day on.
    Day(Date),
}

/// Messages in one direction.
struct MessageRun {
    messages: Vec<PageMessage>,
    /// The message after which more follow, if there are more.
    next: Option<Ts>,
}

impl MessageRun {
    /// Whether there are no messages in this direction.
    fn is_over(&self) -> bool {
        self.messages.is_empty() && self.next.is_none()
    }
}

/// Reads a page.
pub async fn read(
    channel: &JoinedChannel<'_>,
    start: &TimelineStart,
    zone: &TimeZone,
) -> Result<TimelinePage, ArchiveError> {
    let mut page = TimelinePage::default();
    match start {
        TimelineStart::Newest => {
            let older = older(channel, None, PAGE, zone).await?;
            (page.messages, page.ends.older) = (older.messages, older.next);
            page.is_from_end = true;
        }
        TimelineStart::Before(ts) => {
            let run = older(channel, Some(ts.clone()), PAGE, zone).await?;
            let edge = run.messages.last().map_or_else(|| neighbour(ts, -1), |last| last.ts.clone());
            let is_last = newer(channel, &edge, 1, zone).await?.is_over();
            page.ends.newer = (!is_last).then_some(edge);
            (page.messages, page.ends.older) = (run.messages, run.next);
            page.is_from_end = true;
        }
        TimelineStart::After(ts) => read_after(channel, ts, zone, &mut page).await?,
        TimelineStart::Day(day) => {
            page.day = Some(*day);
            if let Some(first) = times::day_start(*day, zone) {
                read_after(channel, &neighbour(&first, -1), zone, &mut page).await?;
                if page.messages.is_empty() && page.ends.newer.is_none() && page.ends.older.is_some() {
                    let older = older(channel, Some(first), PAGE, zone).await?;
                    (page.messages, page.ends.older) = (older.messages, older.next);
                    page.is_from_end = true;
                }
            }
        }
        TimelineStart::Around(ts) => {
            let before = older(channel, Some(neighbour(ts, 1)), PAGE / 2, zone).await?;
            let after = newer(channel, ts, PAGE / 2, zone).await?;
            page.messages = before.messages;
            page.messages.extend(after.messages);
            page.ends = TimelineEnds { older: before.next, newer: after.next };
            page.target = Some(ts.clone());
        }
    }
    Ok(page)
}

/// Reads the messages after a timestamp, and whether there are older ones.
async fn read_after(
    channel: &JoinedChannel<'_>,
    ts: &Ts,
    zone: &TimeZone,
    page: &mut TimelinePage,
) -> Result<(), ArchiveError> {
    let run = newer(channel, ts, PAGE, zone).await?;
    let before = neighbour(ts, 1);
    let is_first = older(channel, Some(before.clone()), 1, zone).await?.is_over();
    let first = run.messages.first().map_or(before, |first| first.ts.clone());
    (page.messages, page.ends.newer) = (run.messages, run.next);
    page.ends.older = (!is_first).then_some(first);
    Ok(())
}

async fn older(
    channel: &JoinedChannel<'_>,
    before: Option<Ts>,
    limit: usize,
    zone: &TimeZone,
) -> Result<MessageRun, ArchiveError> {
    let mut run = collect(channel, before, true, limit, zone).await?;
    run.messages.reverse();
    Ok(run)
}

async fn newer(
    channel: &JoinedChannel<'_>,
    after: &Ts,
    limit: usize,
    zone: &TimeZone,
) -> Result<MessageRun, ArchiveError> {
    collect(channel, Some(after.clone()), false, limit, zone).await
}

/// Reads until there are `limit` messages, or too many rows were read.
async fn collect(
    channel: &JoinedChannel<'_>,
    after: Option<Ts>,
    descending: bool,
    limit: usize,
    zone: &TimeZone,
) -> Result<MessageRun, ArchiveError> {
    let partition = channel.current_location().messages();
    let after = after.map(|after| ItemKey::new(partition.clone(), after.as_str()));
    let page_limit = ROWS_PER_READ.min(limit + 1);
    let mut query = Query { after, descending, limit: page_limit, ..Query::partition(partition) };
    let mut messages: Vec<PageMessage> = Vec::new();
    let mut roots = ThreadRoots::default();
    let mut read = 0;
    loop {
        let page = channel.query(&query).await?;
        read += page.items.len();
        let rows: Vec<MessageView> = page.items.iter().filter_map(project::message).collect();
        roots.read(channel, &rows).await?;
        for message in
            rows.into_iter().filter(|row| roots.shows(row)).filter_map(|row| page_message(row, zone))
        {
            if messages.len() == limit {
                let next = messages.last().map(|last| last.ts.clone());
                return Ok(MessageRun { messages, next });
            }
            messages.push(message);
        }
        match page.next {
            None => return Ok(MessageRun { messages, next: None }),
            Some(next) if read >= MAX_ROWS => {
                let next = Ts::parse(&next.timestamp).ok();
                return Ok(MessageRun { messages, next });
            }
            Some(next) => {
                query.after = Some(next);
                query.limit = ROWS_PER_READ;
            }
        }
    }
}

/// The first messages of threads, and whether the archive has them.
#[derive(Default)]
struct ThreadRoots(HashMap<Ts, bool>);

impl ThreadRoots {
    /// Learns about the roots of the replies in these rows.
    async fn read(&mut self, channel: &JoinedChannel<'_>, rows: &[MessageView]) -> Result<(), ArchiveError> {
        let unknown = rows.iter().filter(|row| !row.is_broadcast()).filter_map(MessageView::replies_to);
        let unknown: BTreeSet<Ts> = unknown.filter(|root_ts| !self.0.contains_key(root_ts)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let found = channel.messages(&unknown.iter().collect::<Vec<_>>()).await?;
        let is_there = found.into_iter().map(|root| root.as_ref().and_then(project::message).is_some());
        self.0.extend(unknown.into_iter().zip(is_there));
        Ok(())
    }

    /// Whether the channel shows a message: an ordinary reply is shown with its root.
    fn shows(&self, row: &MessageView) -> bool {
        row.is_broadcast() || row.replies_to().is_none_or(|root_ts| self.0.get(&root_ts) == Some(&false))
    }
}

/// Converts a row to a message of a page, with the dates in its text in this zone.
pub fn page_message(row: MessageView, zone: &TimeZone) -> Option<PageMessage> {
    let ts = row.written_at()?;
    let content = text::read(&row, zone);
    Some(PageMessage { ts, row, content, thread: None })
}

/// Returns a timestamp shifted by microseconds, with the same number of digits, because keys are compared as
/// text.
fn neighbour(ts: &Ts, micros: i64) -> Ts {
    let moved = ts.micros().saturating_add(micros).max(0);
    let width = ts.as_str().len().saturating_sub(".000000".len());
    let text = format!("{:0width$}.{:06}", moved / 1_000_000, moved % 1_000_000);
    Ts::parse(&text).unwrap_or_else(|_| ts.clone())
}
