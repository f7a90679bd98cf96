//! Channels: every event is stored unchanged, and each row is folded from all the events up to its time.
//!
//! * [`event`]: the events of a channel, and how they are stored.
//! * [`fold`]: from stored events to the snapshots in a channel's rows.
//! * [`index`]: the ChannelIndex, a projection of the newest rows.
//!
//! An event is inserted as the attribute `raw#{kind}#{hash}` of the row at its clock. Then the channel is
//! folded again from all its rows, and a snapshot is replaced only by one folded from more events. The writer
//! that inserts last sees all the events, regardless of order, duplicates and crashes.

pub mod event;
pub mod fold;
pub mod index;

use serde_json::Value;

use slack::ids::FileId;

pub use event::{ChannelEvent, created};
pub use fold::{is_channel_changed, is_public, is_shared};

/// The maximum number of canvases of a channel: Slack shows a few tabs.
const MAX_CANVASES: usize = 20;

/// The canvases of a channel, from its object in Slack's directory: first its own, then those in its tabs.
///
/// <https://docs.slack.dev/reference/objects/conversation-object>
pub fn canvases(channel: &Value) -> Vec<FileId> {
    let properties = &channel["properties"];
    let tabs =
        ["tabs", "tabz"].into_iter().flat_map(|name| properties[name].as_array().into_iter().flatten());
    // Only a canvas has a file.
    let tabs = tabs.take(MAX_CANVASES).map(|tab| &tab["data"]["file_id"]);
    let mut found = Vec::new();
    for file in std::iter::once(&properties["canvas"]["file_id"]).chain(tabs) {
        if let Some(file) = file.as_str().and_then(|file| FileId::parse(file).ok())
            && !found.contains(&file)
        {
            found.push(file);
        }
    }
    found
}
