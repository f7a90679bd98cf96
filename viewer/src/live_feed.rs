//! The changes that open pages follow, and how many pages follow them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use slack::ids::{ChannelId, TeamId};
use tokio::sync::watch;

/// The channels that changed, each with the number of times since the feed began.
pub(crate) type ChangedChannels = BTreeMap<(TeamId, ChannelId), u64>;

/// The changes of all channels, and the open streams.
#[derive(Default)]
pub(crate) struct LiveFeed {
    pub(crate) changed: watch::Sender<ChangedChannels>,
    pub(crate) is_followed: Mutex<bool>,
    /// The number of streams by reader.
    pub(crate) streams: Mutex<BTreeMap<String, usize>>,
}
