//! What can exist.

use std::fmt;

use slack::ids::{ChannelId, TeamId, UserId};
use slack_api::Method;

/// Something an event is about. Slack is asked about each alone; a row of the cache is about three of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Entity {
    Team(TeamId),
    User(TeamId, UserId),
    /// A bot that wrote a message without a user of its own: `B…`.
    Bot(TeamId, UserId),
    Channel(TeamId, ChannelId),
}

impl Entity {
    pub(super) fn team(&self) -> &TeamId {
        match self {
            Self::Team(team) | Self::User(team, _) | Self::Bot(team, _) | Self::Channel(team, _) => team,
        }
    }

    /// What Slack is asked.
    pub(super) fn method(&self) -> Method {
        match self {
            Self::Team(_) => Method::TeamInfo,
            Self::User(..) => Method::UsersInfo,
            Self::Bot(..) => Method::BotsInfo,
            Self::Channel(..) => Method::ConversationsInfo,
        }
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Team(team) => write!(f, "workspace {team}"),
            Self::User(team, user) => write!(f, "user {user} of workspace {team}"),
            Self::Bot(team, bot) => write!(f, "bot {bot} of workspace {team}"),
            Self::Channel(team, channel) => write!(f, "channel {channel} of workspace {team}"),
        }
    }
}
