//! A thread: a root and its replies. The index on `parent` has every reply and most roots; the root is read by its key, so
//! that one that never learned of its replies is there too.

use ports::archive::key::thread_parent;
use ports::archive::{Item, Query};
use rules::project;
use serde_json::Value;
use slack::ids::Ts;

use crate::joined::{ChannelPlace, JoinedChannel};
use crate::rows::Rows;

/// The root of the thread that a message is in. Any message of a thread names it.
#[must_use]
pub fn root_ts(message: &Value) -> Option<Ts> {
    Ts::parse(message["thread_ts"].as_str()?).ok()
}

/// The replies to a message.
#[must_use]
pub fn replies<'a>(channel: &'a JoinedChannel<'a>, root_ts: &Ts) -> Rows<'a> {
    let partitions: Vec<String> = channel.places().iter().map(ChannelPlace::messages).collect();
    let root = root_ts.to_string();
    let is_reply = move |item: &Item| partitions.contains(&item.key.item_id) && item.key.timestamp != root;
    let query = Query::parent(thread_parent(&channel.main().team, root_ts));
    Rows::all(channel, query, move |item| is_reply(item).then(|| project::message(item)).flatten())
}
