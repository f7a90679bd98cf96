//! The keys of bots and of other organisations.

use slack::ids::{TeamId, UserId};

use super::ItemKey;

impl ItemKey {
    /// A bot of an app. Its id has the shape of a user's.
    pub fn bot(team: &TeamId, bot: &UserId) -> Self {
        Self::new(bots(team), bot.as_str())
    }

    /// Another organisation, whose people write in channels that are shared with it.
    pub fn organisation(team: &TeamId, organisation: &TeamId) -> Self {
        Self::new(organisations(team), organisation.as_str())
    }
}

/// The partition of the bots of a workspace's apps.
pub fn bots(team: &TeamId) -> String {
    format!("bot#{team}")
}

/// The partition of the other organisations that share channels with a workspace.
pub fn organisations(team: &TeamId) -> String {
    format!("team#{team}")
}
