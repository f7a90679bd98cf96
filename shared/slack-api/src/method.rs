//! The methods of Slack's Web API that are called, and how often they may be.

use std::num::NonZeroU32;

/// A method. <https://docs.slack.dev/reference/methods>
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// Which workspace a token belongs to.
    AuthTest,
    /// The channels of a workspace.
    ConversationsList,
    /// Joins a public channel.
    ConversationsJoin,
    /// The people of a workspace.
    UsersList,
    /// The custom emoji of a workspace.
    EmojiList,
    /// One file.
    FilesInfo,
    /// The workspace itself.
    TeamInfo,
    /// One person.
    UsersInfo,
    /// One bot.
    BotsInfo,
    /// One channel.
    ConversationsInfo,
}

impl Method {
    /// The name Slack gives it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AuthTest => "auth.test",
            Self::ConversationsList => "conversations.list",
            Self::ConversationsJoin => "conversations.join",
            Self::UsersList => "users.list",
            Self::EmojiList => "emoji.list",
            Self::FilesInfo => "files.info",
            Self::TeamInfo => "team.info",
            Self::UsersInfo => "users.info",
            Self::BotsInfo => "bots.info",
            Self::ConversationsInfo => "conversations.info",
        }
    }

    /// How often a minute it may be called for one workspace: 20, 50 or 100 for tiers 2, 3 and 4. `auth.test` has a
    /// limit of its own, "hundreds". <https://docs.slack.dev/apis/web-api/rate-limits>
    #[must_use]
    pub fn calls_per_minute(self) -> NonZeroU32 {
        const TIER_2: NonZeroU32 = NonZeroU32::new(20).unwrap();
        const TIER_3: NonZeroU32 = NonZeroU32::new(50).unwrap();
        const TIER_4: NonZeroU32 = NonZeroU32::new(100).unwrap();
        match self {
            Self::ConversationsList | Self::UsersList | Self::EmojiList => TIER_2,
            Self::ConversationsJoin | Self::TeamInfo | Self::BotsInfo | Self::ConversationsInfo => TIER_3,
            Self::FilesInfo | Self::AuthTest | Self::UsersInfo => TIER_4,
        }
    }
}
