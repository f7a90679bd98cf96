//! A page of a channel: the messages that people see in it, replies left out unless they were sent to the channel too.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use ports::archive::{ArchiveError, Item, ItemKey, Query};
use reader::joined::JoinedChannel;
use reader::text;
use rules::project;
use serde_json::Value;
use slack::ids::Ts;

use crate::pages::message::PageMessage;
use crate::pages::timeline::{TimelineEnds, TimelinePage};
use crate::times;

/// Messages of one page.
pub const PAGE: usize = 50;

/// Rows that are read at once, and for one page: where nearly all of them are replies, a page has fewer messages and goes on.
const ROWS_AT_ONCE: usize = 64;
const MAX_ROWS: usize = 4_096;

/// Which messages of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimelineStart {
    /// The newest.
    Newest,
    /// Those before this one.
    Before(Ts),
    /// Those after this one.
    After(Ts),
    /// Those around this one.
    Around(Ts),
    /// Those from this day on.
    Day(Date),
}

/// Messages in one direction.
struct MessageRun {
    messages: Vec<PageMessage>,
    /// Where it goes on, if it does.
    next: Option<Ts>,
}

impl MessageRun {
    /// There are no messages, in as many rows as there are.
    fn is_over(&self) -> bool {
        self.messages.is_empty() && self.next.is_none()
    }
}

/// Reads a page.
///
/// # Errors
/// As [`ports::archive::Archive::query`].
pub async fn read(
    channel: &JoinedChannel<'_>,
    start: &TimelineStart,
    zone: &TimeZone,
) -> Result<TimelinePage, ArchiveError> {
    let mut page = TimelinePage {
        messages: Vec::new(),
        ends: TimelineEnds::default(),
        target: None,
        day: None,
        is_from_end: false,
    };
    match start {
        TimelineStart::Newest => {
            let older = older(channel, None, PAGE).await?;
            (page.messages, page.ends.older) = (older.messages, older.next);
            page.is_from_end = true;
        }
        TimelineStart::Before(ts) => {
            let run = older(channel, Some(ts.clone()), PAGE).await?;
            let edge = run.messages.last().map_or_else(|| neighbour(ts, -1), |last| last.ts.clone());
            page.ends.newer = there_is_newer(channel, &edge).await?;
            (page.messages, page.ends.older) = (run.messages, run.next);
            page.is_from_end = true;
        }
        TimelineStart::After(ts) => from(channel, ts, &mut page).await?,
        TimelineStart::Day(day) => {
            page.day = Some(*day);
            if let Some(first) = times::beginning(*day, zone) {
                from(channel, &neighbour(&first, -1), &mut page).await?;
            }
        }
        TimelineStart::Around(ts) => {
            let before = older(channel, Some(neighbour(ts, 1)), PAGE / 2).await?;
            let after = newer(channel, ts, PAGE / 2).await?;
            page.messages = before.messages;
            page.messages.extend(after.messages);
            page.ends = TimelineEnds { older: before.next, newer: after.next };
            page.target = Some(ts.clone());
        }
    }
    Ok(page)
}

/// The messages after a timestamp, and whether there are some before them.
async fn from(channel: &JoinedChannel<'_>, ts: &Ts, page: &mut TimelinePage) -> Result<(), ArchiveError> {
    let run = newer(channel, ts, PAGE).await?;
    let before = neighbour(ts, 1);
    let is_first = older(channel, Some(before.clone()), 1).await?.is_over();
    let first = run.messages.first().map_or(before, |first| first.ts.clone());
    (page.messages, page.ends.newer) = (run.messages, run.next);
    page.ends.older = (!is_first).then_some(first);
    Ok(())
}

/// This timestamp, if there are newer messages.
async fn there_is_newer(channel: &JoinedChannel<'_>, last: &Ts) -> Result<Option<Ts>, ArchiveError> {
    let run = newer(channel, last, 1).await?;
    Ok((!run.is_over()).then(|| last.clone()))
}

async fn older(
    channel: &JoinedChannel<'_>,
    before: Option<Ts>,
    most: usize,
) -> Result<MessageRun, ArchiveError> {
    let mut run = collect(channel, before, true, most).await?;
    run.messages.reverse();
    Ok(run)
}

async fn newer(channel: &JoinedChannel<'_>, after: &Ts, most: usize) -> Result<MessageRun, ArchiveError> {
    collect(channel, Some(after.clone()), false, most).await
}

/// Reads until there are enough messages, or too many rows were read.
async fn collect(
    channel: &JoinedChannel<'_>,
    after: Option<Ts>,
    descending: bool,
    most: usize,
) -> Result<MessageRun, ArchiveError> {
    let partition = channel.main().messages();
    let after = after.map(|after| ItemKey::new(partition.clone(), after.as_str()));
    let limit = ROWS_AT_ONCE.min(most + 1);
    let mut query = Query { after, descending, limit, ..Query::partition(partition) };
    let mut messages: Vec<PageMessage> = Vec::new();
    let mut read = 0;
    loop {
        let page = channel.query(&query).await?;
        read += page.items.len();
        for message in page.items.iter().filter_map(in_channel) {
            if messages.len() == most {
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
                query.limit = ROWS_AT_ONCE;
            }
        }
    }
}

/// A message that people see in the channel itself.
fn in_channel(item: &Item) -> Option<PageMessage> {
    let message = of_row(project::message(item)?)?;
    let is_seen = message.replies_to().is_none() || message.row["subtype"] == "thread_broadcast";
    is_seen.then_some(message)
}

/// A row as a message of a page.
#[must_use]
pub fn of_row(row: Value) -> Option<PageMessage> {
    let ts = Ts::parse(row["ts"].as_str().or(row["timestamp"].as_str())?).ok()?;
    let said = text::read_with_looks(&row);
    Some(PageMessage { ts, row, said, thread: None })
}

/// The timestamp this number of microseconds away, as long as this one: keys are compared as text.
fn neighbour(ts: &Ts, micros: i64) -> Ts {
    let moved = ts.micros().saturating_add(micros).max(0);
    let width = ts.as_str().len().saturating_sub(".000000".len());
    let text = format!("{:0width$}.{:06}", moved / 1_000_000, moved % 1_000_000);
    Ts::parse(&text).unwrap_or_else(|_| ts.clone())
}
