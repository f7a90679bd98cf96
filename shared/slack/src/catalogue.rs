//! The types of Slack's events in one table. The router, the rules, the existence check, the manifest and the
//! documentation read it or match on its enums.
//!
//! <https://docs.slack.dev/reference/events>

/// The type of the request, without an event, that reports that Slack dropped the events of a minute.
pub const APP_RATE_LIMITED: &str = "app_rate_limited";

/// A row of the table: one type of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventType {
    /// Its name in a subscription: the event's type, for messages followed by a dot and the kind of
    /// conversation.
    pub name: &'static str,
    /// Whether the app subscribes to it.
    pub subscription: Subscription,
    pub destination: Destination,
    pub rule: EventRule,
    /// The source for the visibility of its channel.
    pub visibility: Visibility,
}

/// Whether the app subscribes to a type of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subscription {
    /// Subscribed, with this scope.
    Scope(&'static str),
    /// Subscribed; Slack requires no scope.
    NoScope,
    /// Not subscribed.
    Unsubscribed,
}

/// The queues to which ingest sends an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// To the message-writer.
    Events,
    /// To the channel-indexer.
    Channels,
    /// To both: the message-writer copies the public mark in the message group of the old channel, and the
    /// channel-indexer writes the row.
    EventsAndChannels,
    /// To the channel-indexer if the event is about the app itself, otherwise to the message-writer.
    ChannelsIfOwn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventRule {
    /// A message, or a change to one.
    Message,
    /// A reaction to a message.
    Reaction(ReactionChange),
    /// A pin of a message.
    Pin(PinChange),
    /// A user's current profile.
    User,
    /// The name or domain of the workspace changed.
    Team(TeamChange),
    /// Custom emoji.
    Emoji,
    /// A file was changed: a canvas was edited.
    FileChanged,
    FileDeleted,
    UserGroup(UserGroupChange),
    /// Something happened to a channel.
    Channel(ChannelChange),
    /// Events may be missing, or arrive again.
    Gap(GapKind),
    /// A member joined a channel; if it is the app itself, a gap ends.
    Joined,
    /// The event is ignored, for this reason.
    Ignored(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReactionChange {
    /// A user added it.
    Added,
    /// The user removed it.
    Removed,
}

/// A change to the pins of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinChange {
    /// A user pinned a message.
    Added,
    /// A user removed the pin.
    Removed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TeamChange {
    Name,
    Domain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserGroupChange {
    /// The event contains the group as it is now.
    State,
    /// The event contains the people who were added and removed.
    Members,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelChange {
    Created,
    Renamed,
    Archived,
    Unarchived,
    Deleted,
    /// The app left it, which also starts a gap.
    Left,
    /// It was shared with another workspace.
    Shared,
    /// It was unshared from a workspace.
    Unshared,
    IdChanged,
    /// Its topic changed.
    Topic,
    /// Its purpose changed.
    Purpose,
    /// It became private.
    MadePrivate,
    /// It became public.
    MadePublic,
    /// Its posting permissions changed.
    PostingPermissions,
}

/// Why events may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapKind {
    /// Slack dropped the events of a minute. It reports this with a request without an event.
    RateLimited,
    /// The app's token was revoked.
    TokensRevoked,
    /// The app was uninstalled.
    Uninstalled,
    /// An organization's app lost its access to workspaces.
    AccessRevoked,
    /// An organization's app has access to workspaces again, which ends a gap.
    AccessGranted,
    /// The workspace's migration to Enterprise Grid started.
    MigrationStarted,
    /// The workspace's migration to Enterprise Grid finished, which ends a gap.
    MigrationFinished,
    /// Slack changed many messages of a channel at once.
    HistoryChanged,
}

/// The source for the visibility of an event's channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// Its `channel_type`; if that is missing, the archive or Slack.
    ChannelType,
    /// Its event type: Slack sends it only for public channels.
    PublicByType,
    /// `is_private` in its channel object.
    ChannelObject,
    /// A letter in `channel_type`: `G` is a private channel.
    ChannelLetter,
    /// Only the archive: Slack sends it for private channels too.
    Archive,
    /// Only the channel's public mark in the archive.
    PublicMark,
    /// The event has no channel.
    NoChannel,
}

const WITH_MESSAGE: &str = "files are stored with the messages that share them";
const IN_USER_CHANGE: &str = "user_change has the same data";
const IN_MESSAGE: &str = "a message event has the same data";
const NO_HISTORY: &str = "it changes nothing that is stored";

/// The known types of events: first those the app subscribes to, sorted by name, then the others. Each of the
/// former changes stored data; the others would only use up the 30,000 deliveries per hour. Slack sends
/// `member_joined_channel` for every user; only the app's own join is stored.
#[rustfmt::skip]
pub const EVENTS: [EventType; 51] = [
    event_type_row("app_uninstalled", Subscription::NoScope, Destination::Channels, EventRule::Gap(GapKind::Uninstalled), Visibility::NoChannel),
    channel("channel_archive", ChannelChange::Archived, Visibility::PublicByType),
    channel("channel_created", ChannelChange::Created, Visibility::ChannelObject),
    channel("channel_deleted", ChannelChange::Deleted, Visibility::PublicByType),
    event_type_row("channel_history_changed", Subscription::Scope("channels:history"), Destination::Channels, EventRule::Gap(GapKind::HistoryChanged), Visibility::PublicMark),
    event_type_row("channel_id_changed", Subscription::Scope("channels:read"), Destination::EventsAndChannels, EventRule::Channel(ChannelChange::IdChanged), Visibility::Archive),
    channel("channel_left", ChannelChange::Left, Visibility::PublicByType),
    channel("channel_rename", ChannelChange::Renamed, Visibility::ChannelObject),
    channel("channel_shared", ChannelChange::Shared, Visibility::Archive),
    channel("channel_unarchive", ChannelChange::Unarchived, Visibility::PublicByType),
    channel("channel_unshared", ChannelChange::Unshared, Visibility::Archive),
    without_channel("emoji_changed", "emoji:read", EventRule::Emoji),
    without_channel("file_change", "files:read", EventRule::FileChanged),
    without_channel("file_deleted", "files:read", EventRule::FileDeleted),
    event_type_row("grid_migration_finished", Subscription::NoScope, Destination::Channels, EventRule::Gap(GapKind::MigrationFinished), Visibility::NoChannel),
    event_type_row("grid_migration_started", Subscription::NoScope, Destination::Channels, EventRule::Gap(GapKind::MigrationStarted), Visibility::NoChannel),
    group("group_archive", ChannelChange::Archived),
    group("group_deleted", ChannelChange::Deleted),
    event_type_row("group_history_changed", Subscription::Scope("groups:history"), Destination::Channels, EventRule::Gap(GapKind::HistoryChanged), Visibility::PublicMark),
    group("group_left", ChannelChange::Left),
    group("group_rename", ChannelChange::Renamed),
    group("group_unarchive", ChannelChange::Unarchived),
    event_type_row("member_joined_channel", Subscription::Scope("channels:read"), Destination::ChannelsIfOwn, EventRule::Joined, Visibility::ChannelLetter),
    with_channel_type("message.channels", "channels:history", EventRule::Message),
    with_channel_type("message.groups", "groups:history", EventRule::Message),
    with_channel_type("pin_added", "pins:read", EventRule::Pin(PinChange::Added)),
    with_channel_type("pin_removed", "pins:read", EventRule::Pin(PinChange::Removed)),
    with_channel_type("reaction_added", "reactions:read", EventRule::Reaction(ReactionChange::Added)),
    with_channel_type("reaction_removed", "reactions:read", EventRule::Reaction(ReactionChange::Removed)),
    without_channel("subteam_created", "usergroups:read", EventRule::UserGroup(UserGroupChange::State)),
    without_channel("subteam_members_changed", "usergroups:read", EventRule::UserGroup(UserGroupChange::Members)),
    without_channel("subteam_updated", "usergroups:read", EventRule::UserGroup(UserGroupChange::State)),
    event_type_row("team_access_granted", Subscription::NoScope, Destination::Channels, EventRule::Gap(GapKind::AccessGranted), Visibility::NoChannel),
    event_type_row("team_access_revoked", Subscription::NoScope, Destination::Channels, EventRule::Gap(GapKind::AccessRevoked), Visibility::NoChannel),
    without_channel("team_domain_change", "team:read", EventRule::Team(TeamChange::Domain)),
    without_channel("team_join", "users:read", EventRule::User),
    without_channel("team_rename", "team:read", EventRule::Team(TeamChange::Name)),
    event_type_row("tokens_revoked", Subscription::NoScope, Destination::Channels, EventRule::Gap(GapKind::TokensRevoked), Visibility::NoChannel),
    without_channel("user_change", "users:read", EventRule::User),
    event_type_row(APP_RATE_LIMITED, Subscription::Unsubscribed, Destination::Channels, EventRule::Gap(GapKind::RateLimited), Visibility::NoChannel),
    ignored("app_home_opened", NO_HISTORY),
    ignored("app_mention", IN_MESSAGE),
    ignored("file_created", WITH_MESSAGE),
    ignored("file_public", WITH_MESSAGE),
    ignored("file_shared", WITH_MESSAGE),
    ignored("file_unshared", WITH_MESSAGE),
    ignored("link_shared", IN_MESSAGE),
    ignored("member_left_channel", NO_HISTORY),
    ignored("user_huddle_changed", IN_USER_CHANGE),
    ignored("user_profile_changed", IN_USER_CHANGE),
    ignored("user_status_changed", IN_USER_CHANGE),
];

/// Changes to a channel that have no event of their own: only messages with these subtypes report them.
pub const CHANNEL_SUBTYPES: [(&str, ChannelChange); 7] = [
    ("channel_convert_to_private", ChannelChange::MadePrivate),
    ("channel_convert_to_public", ChannelChange::MadePublic),
    ("channel_posting_permissions", ChannelChange::PostingPermissions),
    ("channel_purpose", ChannelChange::Purpose),
    ("channel_topic", ChannelChange::Topic),
    ("group_purpose", ChannelChange::Purpose),
    ("group_topic", ChannelChange::Topic),
];

impl EventType {
    /// The event type with this name, as in the `type` field of an event or a request.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        EVENTS.iter().find(|event_type| {
            let rest = event_type.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}

impl EventRule {
    /// The rule for events with this type name; `None` if the name is unknown.
    pub fn by_name(name: &str) -> Option<Self> {
        EventType::by_name(name).map(|event_type| event_type.rule)
    }
}

/// The Markdown table in the documentation.
pub fn markdown_table() -> String {
    let mut table = String::from("| Event | Scope | What Annalist stores |\n|---|---|---|\n");
    for event_type in EVENTS {
        let scope = match event_type.subscription {
            Subscription::Scope(scope) => format!("`{scope}`"),
            Subscription::NoScope => "no scope".to_owned(),
            Subscription::Unsubscribed => "not subscribed".to_owned(),
        };
        let kept = match event_type.rule {
            EventRule::Message => "the message, its versions and thread",
            EventRule::Reaction(_) => "the reaction",
            EventRule::Pin(_) => "the pin",
            EventRule::User => "the person",
            EventRule::Team(_) => "the workspace's name and address",
            EventRule::Emoji => "the emoji",
            EventRule::FileChanged => "another version of the file, if it is a canvas",
            EventRule::FileDeleted => "that the file is deleted",
            EventRule::UserGroup(_) => "the user group and its members",
            EventRule::Channel(ChannelChange::Left) => "the channel, and a gap",
            EventRule::Channel(_) => "the channel",
            EventRule::Gap(GapKind::AccessGranted | GapKind::MigrationFinished) => "the end of a gap",
            EventRule::Gap(_) => "a gap",
            EventRule::Joined => "the end of a gap, if the app itself joined",
            EventRule::Ignored(why) => &format!("nothing: {why}"),
        };
        table.push_str(&format!("| `{}` | {scope} | {kept} |\n", event_type.name));
    }
    table
}

impl ChannelChange {
    /// The channel change that a message with this subtype reports.
    pub fn from_subtype(subtype: &str) -> Option<Self> {
        CHANNEL_SUBTYPES.iter().find(|(name, _)| *name == subtype).map(|(_, change)| *change)
    }

    /// The channel change that an event type or a message subtype with this name reports.
    pub fn by_name(name: &str) -> Option<Self> {
        match EventRule::by_name(name) {
            Some(EventRule::Channel(change)) => Some(change),
            Some(_) | None => Self::from_subtype(name),
        }
    }
}

const fn event_type_row(
    name: &'static str,
    subscription: Subscription,
    destination: Destination,
    rule: EventRule,
    visibility: Visibility,
) -> EventType {
    EventType { name, subscription, destination, rule, visibility }
}

/// A change to a channel. Writes to channel rows are serial per workspace.
const fn channel(name: &'static str, change: ChannelChange, visibility: Visibility) -> EventType {
    let scope = Subscription::Scope("channels:read");
    event_type_row(name, scope, Destination::Channels, EventRule::Channel(change), visibility)
}

/// A change to a private channel.
const fn group(name: &'static str, change: ChannelChange) -> EventType {
    let scope = Subscription::Scope("groups:read");
    event_type_row(name, scope, Destination::Channels, EventRule::Channel(change), Visibility::Archive)
}

const fn with_channel_type(name: &'static str, scope: &'static str, rule: EventRule) -> EventType {
    event_type_row(name, Subscription::Scope(scope), Destination::Events, rule, Visibility::ChannelType)
}

const fn without_channel(name: &'static str, scope: &'static str, rule: EventRule) -> EventType {
    event_type_row(name, Subscription::Scope(scope), Destination::Events, rule, Visibility::NoChannel)
}

const fn ignored(name: &'static str, why: &'static str) -> EventType {
    event_type_row(
        name,
        Subscription::Unsubscribed,
        Destination::Events,
        EventRule::Ignored(why),
        Visibility::NoChannel,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_subscribed(event_type: &EventType) -> bool {
        event_type.subscription != Subscription::Unsubscribed
    }

    #[test]
    fn ignored_events_are_not_subscribed_to() {
        for event_type in EVENTS {
            let ignored = matches!(event_type.rule, EventRule::Ignored(_));
            assert!(!(ignored && is_subscribed(&event_type)), "{}", event_type.name);
            // Only the request that Slack sends without a subscription is handled without one.
            assert!(ignored || is_subscribed(&event_type) || event_type.name == APP_RATE_LIMITED);
        }
    }

    #[test]
    fn each_type_appears_once_and_has_one_rule() {
        let names = EVENTS.map(|event_type| event_type.name);
        let subscribed = EVENTS.iter().take_while(|event_type| is_subscribed(event_type)).count();
        assert!(
            names[..subscribed].is_sorted() && EVENTS[subscribed..].iter().all(|row| !is_subscribed(row))
        );
        for event_type in &EVENTS {
            assert_eq!(names.iter().filter(|name| **name == event_type.name).count(), 1, "{event_type:?}");
            let type_name = event_type.name.split('.').next().unwrap();
            let found = EventType::by_name(type_name).unwrap();
            assert_eq!((found.rule, found.destination, found.visibility), {
                (event_type.rule, event_type.destination, event_type.visibility)
            });
            // A name is not both an event type and a message subtype.
            assert_eq!(ChannelChange::from_subtype(type_name), None);
        }
        assert_eq!(EventRule::by_name("message"), Some(EventRule::Message));
        assert_eq!(EventRule::by_name("something_new"), None);
        assert_eq!(ChannelChange::by_name("group_topic"), Some(ChannelChange::Topic));
    }
}
