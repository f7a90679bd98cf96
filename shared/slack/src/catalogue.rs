//! The types of Slack's events, in one table: the router, the rules, the existence check, the manifest and the documentation
//! read it, or match on its enums.
//!
//! <https://docs.slack.dev/reference/events>

/// The type of the request, which carries no event, that says that Slack held events back for a minute.
pub const APP_RATE_LIMITED: &str = "app_rate_limited";

/// What is known of one type of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventType {
    /// Its name in a subscription: the event's type, and for messages the kind of conversation behind a dot.
    pub name: &'static str,
    /// Whether the app subscribes to it.
    pub subscription: Subscription,
    /// Where ingest sends it.
    pub destination: Destination,
    /// What is made of it.
    pub rule: EventRule,
    /// What says who may read the channel it is about.
    pub visibility: Visibility,
}

/// Whether the app subscribes to a type of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subscription {
    /// It does, with this scope.
    Scope(&'static str),
    /// It does, and Slack asks for no scope.
    NoScope,
    /// It does not.
    Unsubscribed,
}

/// Where ingest sends an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// To the message-writer.
    Events,
    /// To the channel-indexer.
    Channels,
    /// To both: the message-writer carries the public mark over in the old channel's message group, the row is the
    /// channel-indexer's.
    EventsAndChannels,
    /// To the channel-indexer if it is about the app itself, else to the message-writer.
    ChannelsIfOwn,
}

/// What is made of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventRule {
    /// A message, or a change to one.
    Message,
    /// A reaction to a message.
    Reaction(ReactionChange),
    /// A person as they are now.
    User,
    /// The workspace has another name or address.
    Team(TeamChange),
    /// Custom emoji.
    Emoji,
    /// A file was deleted.
    FileDeleted,
    /// Something happened to a channel.
    Channel(ChannelChange),
    /// Events may be missing.
    Gap(GapKind),
    /// A member joined a channel: if that is the app itself, a gap ends.
    Joined,
    /// Nothing, for this reason.
    Ignored(&'static str),
}

/// What happened to a reaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReactionChange {
    /// A person reacted.
    Added,
    /// They took it back.
    Removed,
}

/// What changed of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TeamChange {
    /// Its name.
    Name,
    /// Its address.
    Domain,
}

/// What happened to a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelChange {
    /// It was made.
    Created,
    /// It has another name.
    Renamed,
    /// It was archived.
    Archived,
    /// It is no longer archived.
    Unarchived,
    /// It was deleted.
    Deleted,
    /// The app is no longer in it: a gap begins, too.
    Left,
    /// It is shared with another workspace.
    Shared,
    /// It is no longer shared with a workspace.
    Unshared,
    /// It goes on under another id.
    IdChanged,
    /// It has another topic.
    Topic,
    /// It has another purpose.
    Purpose,
    /// It became private.
    MadePrivate,
    /// It became public.
    MadePublic,
    /// Others may post in it now.
    PostingPermissions,
}

/// Why events may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapKind {
    /// Slack held events back for a minute. It says so by a request without an event.
    RateLimited,
    /// The app's token was revoked.
    TokensRevoked,
    /// The app was uninstalled.
    Uninstalled,
    /// Slack changed many messages of a channel at once.
    HistoryChanged,
}

/// What says who may read the channel that an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// Its `channel_type`; without one the archive or Slack says it.
    ChannelType,
    /// Its type: Slack sends it for public channels only.
    PublicByType,
    /// `is_private` in its channel object.
    ChannelObject,
    /// A letter in `channel_type`: `G` stands for a private channel.
    ChannelLetter,
    /// Only the archive: Slack sends it for private channels too.
    Archive,
    /// Only the channel's public mark in the archive.
    PublicMark,
    /// It is about no channel.
    NoChannel,
}

const WITH_MESSAGE: &str = "files are stored with the messages that share them";
const TOLD_BY_USER_CHANGE: &str = "user_change says the same";
const TOLD_BY_MESSAGE: &str = "a message event says the same";
const NO_HISTORY: &str = "it changes nothing that is stored";

/// The types of events that are known: first those the app subscribes to, sorted by name, then the others. Each of the
/// former changes what is stored; the others would only use up the 30,000 deliveries an hour.
/// Slack sends `member_joined_channel` for every person; only the app's own joining is stored.
#[rustfmt::skip]
pub const EVENTS: [EventType; 44] = [
    asked("app_uninstalled", Subscription::NoScope, Destination::Channels, EventRule::Gap(GapKind::Uninstalled), Visibility::NoChannel),
    channel("channel_archive", ChannelChange::Archived, Visibility::PublicByType),
    channel("channel_created", ChannelChange::Created, Visibility::ChannelObject),
    channel("channel_deleted", ChannelChange::Deleted, Visibility::PublicByType),
    asked("channel_history_changed", Subscription::Scope("channels:history"), Destination::Channels, EventRule::Gap(GapKind::HistoryChanged), Visibility::PublicMark),
    asked("channel_id_changed", Subscription::Scope("channels:read"), Destination::EventsAndChannels, EventRule::Channel(ChannelChange::IdChanged), Visibility::Archive),
    channel("channel_left", ChannelChange::Left, Visibility::PublicByType),
    channel("channel_rename", ChannelChange::Renamed, Visibility::ChannelObject),
    channel("channel_shared", ChannelChange::Shared, Visibility::Archive),
    channel("channel_unarchive", ChannelChange::Unarchived, Visibility::PublicByType),
    channel("channel_unshared", ChannelChange::Unshared, Visibility::Archive),
    of_no_channel("emoji_changed", "emoji:read", EventRule::Emoji),
    of_no_channel("file_deleted", "files:read", EventRule::FileDeleted),
    group("group_archive", ChannelChange::Archived),
    group("group_deleted", ChannelChange::Deleted),
    asked("group_history_changed", Subscription::Scope("groups:history"), Destination::Channels, EventRule::Gap(GapKind::HistoryChanged), Visibility::PublicMark),
    group("group_left", ChannelChange::Left),
    group("group_rename", ChannelChange::Renamed),
    group("group_unarchive", ChannelChange::Unarchived),
    asked("member_joined_channel", Subscription::Scope("channels:read"), Destination::ChannelsIfOwn, EventRule::Joined, Visibility::ChannelLetter),
    typed("message.channels", "channels:history", EventRule::Message),
    typed("message.groups", "groups:history", EventRule::Message),
    typed("reaction_added", "reactions:read", EventRule::Reaction(ReactionChange::Added)),
    typed("reaction_removed", "reactions:read", EventRule::Reaction(ReactionChange::Removed)),
    of_no_channel("team_domain_change", "team:read", EventRule::Team(TeamChange::Domain)),
    of_no_channel("team_join", "users:read", EventRule::User),
    of_no_channel("team_rename", "team:read", EventRule::Team(TeamChange::Name)),
    asked("tokens_revoked", Subscription::NoScope, Destination::Channels, EventRule::Gap(GapKind::TokensRevoked), Visibility::NoChannel),
    of_no_channel("user_change", "users:read", EventRule::User),
    asked(APP_RATE_LIMITED, Subscription::Unsubscribed, Destination::Channels, EventRule::Gap(GapKind::RateLimited), Visibility::NoChannel),
    ignored("app_home_opened", NO_HISTORY),
    ignored("app_mention", TOLD_BY_MESSAGE),
    ignored("file_change", WITH_MESSAGE),
    ignored("file_created", WITH_MESSAGE),
    ignored("file_public", WITH_MESSAGE),
    ignored("file_shared", WITH_MESSAGE),
    ignored("file_unshared", WITH_MESSAGE),
    ignored("link_shared", TOLD_BY_MESSAGE),
    ignored("member_left_channel", NO_HISTORY),
    ignored("pin_added", NO_HISTORY),
    ignored("pin_removed", NO_HISTORY),
    ignored("user_huddle_changed", TOLD_BY_USER_CHANGE),
    ignored("user_profile_changed", TOLD_BY_USER_CHANGE),
    ignored("user_status_changed", TOLD_BY_USER_CHANGE),
];

/// What happens to a channel without an event of its own: only messages of these subtypes tell of it.
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
    /// The type of this name, as an event or a request carries it.
    pub fn named(name: &str) -> Option<&'static Self> {
        EVENTS.iter().find(|event_type| {
            let rest = event_type.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}

impl EventRule {
    /// What is made of an event whose type has this name; `None` if the name is unknown.
    pub fn named(name: &str) -> Option<Self> {
        EventType::named(name).map(|event_type| event_type.rule)
    }
}

/// The table as the documentation shows it.
pub fn markdown_table() -> String {
    let mut table = String::from("| Event | Scope | What Annalist keeps of it |\n|---|---|---|\n");
    for event_type in EVENTS {
        let scope = match event_type.subscription {
            Subscription::Scope(scope) => format!("`{scope}`"),
            Subscription::NoScope => "no scope".to_owned(),
            Subscription::Unsubscribed => "not subscribed".to_owned(),
        };
        let kept = match event_type.rule {
            EventRule::Message => "the message, its versions and thread",
            EventRule::Reaction(_) => "the reaction",
            EventRule::User => "the person",
            EventRule::Team(_) => "the workspace's name and address",
            EventRule::Emoji => "the emoji",
            EventRule::FileDeleted => "that the file is deleted",
            EventRule::Channel(ChannelChange::Left) => "the channel, and a gap",
            EventRule::Channel(_) => "the channel",
            EventRule::Gap(_) => "a gap",
            EventRule::Joined => "the end of a gap, if the app itself joined",
            EventRule::Ignored(why) => &format!("nothing: {why}"),
        };
        table.push_str(&format!("| `{}` | {scope} | {kept} |\n", event_type.name));
    }
    table
}

impl ChannelChange {
    /// What a message of this subtype says happened to its channel.
    pub fn told_by(subtype: &str) -> Option<Self> {
        CHANNEL_SUBTYPES.iter().find(|(name, _)| *name == subtype).map(|(_, change)| *change)
    }

    /// What an event or a message of this name says happened to a channel.
    pub fn named(name: &str) -> Option<Self> {
        match EventRule::named(name) {
            Some(EventRule::Channel(change)) => Some(change),
            Some(_) | None => Self::told_by(name),
        }
    }
}

const fn asked(
    name: &'static str,
    subscription: Subscription,
    destination: Destination,
    rule: EventRule,
    visibility: Visibility,
) -> EventType {
    EventType { name, subscription, destination, rule, visibility }
}

/// What happens to channels. Rows of channels are serial per workspace.
const fn channel(name: &'static str, change: ChannelChange, visibility: Visibility) -> EventType {
    let scope = Subscription::Scope("channels:read");
    asked(name, scope, Destination::Channels, EventRule::Channel(change), visibility)
}

/// What happens to private channels.
const fn group(name: &'static str, change: ChannelChange) -> EventType {
    let scope = Subscription::Scope("groups:read");
    asked(name, scope, Destination::Channels, EventRule::Channel(change), Visibility::Archive)
}

const fn typed(name: &'static str, scope: &'static str, rule: EventRule) -> EventType {
    asked(name, Subscription::Scope(scope), Destination::Events, rule, Visibility::ChannelType)
}

const fn of_no_channel(name: &'static str, scope: &'static str, rule: EventRule) -> EventType {
    asked(name, Subscription::Scope(scope), Destination::Events, rule, Visibility::NoChannel)
}

const fn ignored(name: &'static str, why: &'static str) -> EventType {
    asked(
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
    fn what_is_ignored_is_not_subscribed_to() {
        for event_type in EVENTS {
            let ignored = matches!(event_type.rule, EventRule::Ignored(_));
            assert!(!(ignored && is_subscribed(&event_type)), "{}", event_type.name);
            // Nothing but the request that Slack sends unasked is made something of without a subscription.
            assert!(ignored || is_subscribed(&event_type) || event_type.name == APP_RATE_LIMITED);
        }
    }

    #[test]
    fn each_type_stands_once_and_has_one_rule() {
        let names = EVENTS.map(|event_type| event_type.name);
        let subscribed = EVENTS.iter().take_while(|event_type| is_subscribed(event_type)).count();
        assert!(
            names[..subscribed].is_sorted() && EVENTS[subscribed..].iter().all(|row| !is_subscribed(row))
        );
        for event_type in &EVENTS {
            assert_eq!(names.iter().filter(|name| **name == event_type.name).count(), 1, "{event_type:?}");
            let type_name = event_type.name.split('.').next().unwrap();
            let found = EventType::named(type_name).unwrap();
            assert_eq!((found.rule, found.destination, found.visibility), {
                (event_type.rule, event_type.destination, event_type.visibility)
            });
            // A name means one thing, in an event and in a message.
            assert_eq!(ChannelChange::told_by(type_name), None);
        }
        assert_eq!(EventRule::named("message"), Some(EventRule::Message));
        assert_eq!(EventRule::named("something_new"), None);
        assert_eq!(ChannelChange::named("group_topic"), Some(ChannelChange::Topic));
    }
}
