//! The keys of user groups and of what a channel's members share: its bookmarks.

use slack::ids::{ChannelId, TeamId, UserGroupId, UserId};

use super::ItemKey;

impl ItemKey {
    /// A user group.
    pub fn user_group(team: &TeamId, group: &UserGroupId) -> Self {
        Self::new(user_groups(team), group.as_str())
    }

    /// A member of a user group, or a person who was one.
    pub fn user_group_member(team: &TeamId, group: &UserGroupId, user: &UserId) -> Self {
        Self::new(user_group_members(team, group), user.as_str())
    }

    /// A name that a user group had; `hash` distinguishes it from the group's other names.
    pub fn user_group_name(team: &TeamId, group: &UserGroupId, hash: &str) -> Self {
        Self::new(user_group_names(team, group), hash)
    }

    /// A bookmark of a channel.
    pub fn bookmark(team: &TeamId, channel: &ChannelId, bookmark: &str) -> Self {
        Self::new(bookmarks(team, channel), bookmark)
    }

    /// When a channel was last read for what no event reports.
    pub fn daily_reading(team: &TeamId, channel: &ChannelId) -> Self {
        Self::new(format!("meta#{team}#daily"), channel.as_str())
    }
}

/// The partition of a channel's bookmarks.
pub fn bookmarks(team: &TeamId, channel: &ChannelId) -> String {
    format!("bookmark#{team}#{channel}")
}

/// The partition of a workspace's user groups.
pub fn user_groups(team: &TeamId) -> String {
    format!("usergroup#{team}")
}

/// The partition of the people who are or were members of a user group.
pub fn user_group_members(team: &TeamId, group: &UserGroupId) -> String {
    format!("usergroupmember#{team}#{group}")
}

/// The partition of a user group's names, including the current one.
pub fn user_group_names(team: &TeamId, group: &UserGroupId) -> String {
    format!("usergroupname#{team}#{group}")
}
