//! What identifies a message in every row that names one.

use ports::archive::{Attributes, text_attributes};
use slack::ids::{ChannelId, TeamId, Ts};

/// The attributes that identify a message.
pub(crate) fn identity(team: &TeamId, channel: &ChannelId, ts: &Ts) -> Attributes {
    text_attributes([
        ("type", "message"),
        ("team_id", team.as_str()),
        ("channel_id", channel.as_str()),
        ("ts", ts.as_str()),
    ])
}
