//! A thread: a root and its replies. The index on `parent` contains every reply and most roots. The root is
//! read by its key, so that a root whose row does not mention its replies is found too.

use ports::archive::key::thread_parent;
use ports::archive::{ArchiveError, Item, Query};
use rules::message::CONTENT_VERSION;
use rules::project;
use slack::ids::Ts;

use crate::joined::{ChannelOfTeam, JoinedChannel};
use crate::rows::VisibleRows;

/// Rows per page.
const PAGE: usize = 256;

/// Returns the replies to a message.
pub fn replies<'a>(channel: &'a JoinedChannel<'a>, root_ts: &Ts) -> VisibleRows<'a> {
    let is_reply = is_reply(channel, root_ts);
    let query = Query::parent(thread_parent(&channel.current_location().team, root_ts));
    VisibleRows::all(channel, query, move |item| is_reply(item).then(|| project::message(item)).flatten())
}

/// Calls `see` with the stored row of each reply to a message that was not deleted, oldest first.
pub(crate) async fn each_reply(
    channel: &JoinedChannel<'_>,
    root_ts: &Ts,
    mut see: impl FnMut(&Item),
) -> Result<(), ArchiveError> {
    let is_reply = is_reply(channel, root_ts);
    let is_there = |row: &&Item| row.text(CONTENT_VERSION).is_some() && !row.has_flag("deleted");
    let parent = thread_parent(&channel.current_location().team, root_ts);
    let mut query = Query { limit: PAGE, ..Query::parent(parent) };
    loop {
        let page = channel.query(&query).await?;
        page.items.iter().filter(|row| is_reply(row)).filter(is_there).for_each(&mut see);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(()),
        }
    }
}

/// Whether a row of a thread is a reply in the channel. The parent of a thread contains the workspace but no
/// channel, and the root may have the same parent.
pub fn is_reply(channel: &JoinedChannel<'_>, root_ts: &Ts) -> impl Fn(&Item) -> bool + Send + use<> {
    let partitions: Vec<String> = channel.locations().iter().map(ChannelOfTeam::messages).collect();
    let root = root_ts.to_string();
    move |item| partitions.contains(&item.key.item_id) && item.key.timestamp != root
}
