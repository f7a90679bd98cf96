//! The methods of Slack's Web API that Annalist calls, with their rate limits and timeouts.

use std::num::NonZeroU32;
use std::time::Duration;

/// The timeout of a small call, which Slack answers within a fraction of a second.
const SHORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout of a large page, for which Slack takes some seconds; it also limits a body that arrives
/// slowly.
const LONG_TIMEOUT: Duration = Duration::from_secs(60);

/// A method. <https://docs.slack.dev/reference/methods>
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// The workspace that owns a token.
    AuthTest,
    /// The channels of a workspace.
    ConversationsList,
    /// Joins a public channel.
    ConversationsJoin,
    /// The users of a workspace.
    UsersList,
    /// The custom emoji of a workspace.
    EmojiList,
    /// The user groups of a workspace.
    UsergroupsList,
    /// The bookmarks of a channel.
    BookmarksList,
    /// One file.
    FilesInfo,
    /// The workspace itself.
    TeamInfo,
    UsersInfo,
    BotsInfo,
    /// One channel.
    ConversationsInfo,
    /// The members of a channel.
    ConversationsMembers,
    /// The messages of a channel.
    ConversationsHistory,
    /// The messages of a thread.
    ConversationsReplies,
    /// The pins of a channel.
    PinsList,
    ChatPostMessage,
    /// Opens a connection of Socket Mode.
    AppsConnectionsOpen,
}

/// The rate limit of a method for one workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRate {
    pub per_minute: NonZeroU32,
    /// The largest burst of them.
    pub at_once: NonZeroU32,
}

impl CallRate {
    const fn burst(per_minute: NonZeroU32) -> Self {
        Self { per_minute, at_once: per_minute }
    }

    /// The rate for posting messages, with a small burst; unlimited if `None`.
    pub(crate) const fn posts(per_minute: Option<NonZeroU32>) -> Self {
        const AT_ONCE: NonZeroU32 = NonZeroU32::new(10).unwrap();
        match per_minute {
            Some(per_minute) => Self { per_minute, at_once: AT_ONCE },
            None => Self::burst(NonZeroU32::MAX),
        }
    }

    /// Evenly spaced calls, without bursts.
    pub const fn steady(per_minute: NonZeroU32) -> Self {
        Self { per_minute, at_once: NonZeroU32::MIN }
    }
}

impl Method {
    /// Slack's name of the method.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AuthTest => "auth.test",
            Self::ConversationsList => "conversations.list",
            Self::ConversationsJoin => "conversations.join",
            Self::UsersList => "users.list",
            Self::EmojiList => "emoji.list",
            Self::UsergroupsList => "usergroups.list",
            Self::BookmarksList => "bookmarks.list",
            Self::FilesInfo => "files.info",
            Self::TeamInfo => "team.info",
            Self::UsersInfo => "users.info",
            Self::BotsInfo => "bots.info",
            Self::ConversationsInfo => "conversations.info",
            Self::ConversationsMembers => "conversations.members",
            Self::ConversationsHistory => "conversations.history",
            Self::ConversationsReplies => "conversations.replies",
            Self::PinsList => "pins.list",
            Self::ChatPostMessage => "chat.postMessage",
            Self::AppsConnectionsOpen => "apps.connections.open",
        }
    }

    /// The rate limit for one workspace: 20, 50 or 100 calls per minute for tiers 2, 3 and 4. `auth.test` has
    /// a limit of its own, "hundreds". Reading history takes hours, so its calls are evenly spaced, and one
    /// per minute fewer than Slack permits, so that no minute as counted by Slack exceeds the limit.
    /// <https://docs.slack.dev/apis/web-api/rate-limits>
    #[must_use]
    pub fn call_rate(self) -> CallRate {
        const TIER_2: NonZeroU32 = NonZeroU32::new(20).unwrap();
        const TIER_3: NonZeroU32 = NonZeroU32::new(50).unwrap();
        const TIER_4: NonZeroU32 = NonZeroU32::new(100).unwrap();
        const HISTORY: NonZeroU32 = NonZeroU32::new(49).unwrap();
        // Of tier 4, but a sync lists many channels: other calls of the token have time between them.
        const MEMBERS: NonZeroU32 = NonZeroU32::new(60).unwrap();
        // "Several hundred messages per minute" for a workspace; the caller must enforce the limit of one per
        // second for a channel.
        const POSTS: NonZeroU32 = NonZeroU32::new(200).unwrap();
        match self {
            Self::ConversationsList
            | Self::UsersList
            | Self::EmojiList
            | Self::PinsList
            | Self::AppsConnectionsOpen
            | Self::UsergroupsList => CallRate::burst(TIER_2),
            Self::ConversationsJoin
            | Self::TeamInfo
            | Self::BotsInfo
            | Self::BookmarksList
            | Self::ConversationsInfo => CallRate::burst(TIER_3),
            Self::FilesInfo | Self::AuthTest | Self::UsersInfo => CallRate::burst(TIER_4),
            Self::ConversationsMembers => CallRate::burst(MEMBERS),
            Self::ConversationsHistory | Self::ConversationsReplies => CallRate::steady(HISTORY),
            Self::ChatPostMessage => CallRate::posts(Some(POSTS)),
        }
    }

    /// The timeout of a single call without waits.
    pub(crate) fn time_limit(self) -> Duration {
        match self {
            Self::ConversationsHistory | Self::ConversationsReplies | Self::UsergroupsList => LONG_TIMEOUT,
            Self::AuthTest
            | Self::ConversationsList
            | Self::ConversationsJoin
            | Self::UsersList
            | Self::EmojiList
            | Self::BookmarksList
            | Self::FilesInfo
            | Self::TeamInfo
            | Self::UsersInfo
            | Self::BotsInfo
            | Self::ConversationsInfo
            | Self::ConversationsMembers
            | Self::PinsList
            | Self::AppsConnectionsOpen
            | Self::ChatPostMessage => SHORT_TIMEOUT,
        }
    }
}
