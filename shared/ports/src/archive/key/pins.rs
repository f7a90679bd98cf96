//! Keys of pins.

use slack::ids::{ChannelId, TeamId, Ts};

use crate::archive::ItemKey;

impl ItemKey {
    /// A record that a message of a channel was pinned.
    pub fn pin(team: &TeamId, channel: &ChannelId, ts: &Ts) -> Self {
        Self::new(pins(team, channel), ts.as_str())
    }

    /// Whether the pins of a channel were listed.
    pub fn pin_list(team: &TeamId, channel: &ChannelId) -> Self {
        Self::new(pin_lists(team), channel.as_str())
    }
}

/// The partition of the messages of a channel that were pinned at any time.
pub fn pins(team: &TeamId, channel: &ChannelId) -> String {
    format!("pins#{team}#{channel}")
}

/// The partition of the channels whose pins were listed.
pub fn pin_lists(team: &TeamId) -> String {
    format!("meta#{team}#pinlists")
}
