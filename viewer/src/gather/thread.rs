//! A page of a thread.

use jiff::tz::TimeZone;
use ports::archive::{ArchiveError, Query, key};
use reader::joined::JoinedChannel;
use reader::{rows, thread};
use rules::project;
use slack::ids::Ts;

use super::timeline::page_message;
use crate::pages::message::PageMessage;
use crate::pages::thread::ThreadPage;

/// Replies per page.
pub const REPLIES: usize = 200;

/// Reads a page of the thread with this root: the replies after `after`, or the page with the reply `target`.
/// `None` if the archive has nothing of the thread.
pub async fn read(
    channel: &JoinedChannel<'_>,
    root_ts: &Ts,
    after: Option<&Ts>,
    target: Option<Ts>,
    zone: &TimeZone,
) -> Result<Option<ThreadPage>, ArchiveError> {
    let root = rows::read_root(channel, root_ts).await?.and_then(|row| page_message(row, zone));
    let is_reply = thread::is_reply(channel, root_ts);
    let mut query = Query {
        limit: REPLIES,
        ..Query::parent(key::thread_parent(&channel.current_location().team, root_ts))
    };
    let is_before_target = |ts: &Ts| target.as_ref().is_some_and(|target| ts.micros() < target.micros());
    let mut replies: Vec<PageMessage> = Vec::new();
    let mut skipped = 0;
    let mut next = None;
    'pages: loop {
        let page = channel.query(&query).await?;
        for item in &page.items {
            let message = if is_reply(item) { project::message(item) } else { None };
            let Some(reply) = message.and_then(|row| page_message(row, zone)) else { continue };
            if after.is_some_and(|after| reply.ts.micros() <= after.micros()) {
                skipped += 1;
                continue;
            }
            if replies.len() == REPLIES {
                let last = replies.last().map(|last| last.ts.clone());
                if !last.as_ref().is_some_and(is_before_target) {
                    next = last;
                    break 'pages;
                }
                // The target comes later. Keep the second half, so that the page has replies before it.
                replies.drain(..REPLIES / 2);
                skipped += REPLIES / 2;
            }
            replies.push(reply);
        }
        match page.next {
            Some(next_key) => query.after = Some(next_key),
            None => break,
        }
    }
    if root.is_none() && replies.is_empty() && after.is_none() {
        return Ok(None);
    }
    let root_ts = root_ts.clone();
    Ok(Some(ThreadPage { root_ts, root, replies, next, skipped, size: None, target }))
}
