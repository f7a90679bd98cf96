//! Reactions: one register per message, name and user.
//!
//! <https://docs.slack.dev/reference/events/reaction_added>

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::identity;
use super::{Change, Malformed, SlackEvent, checked_name, version};
use ports::archive::{Attributes, Guard, ItemKey, Update};
use slack::catalogue::ReactionChange;
use slack::envelope::{object_or_default, string_value, text_or_none};
use slack::ids::{Ts, UserId};

/// Reactions taken from one message object: more than Slack lists.
pub(super) const MAX_LISTED: usize = 1000;

const PREFIX: &str = "reaction#";
const ADDED: &str = "added";
const REMOVED: &str = "removed";

#[derive(Default, Deserialize)]
struct ReactionEvent<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    reaction: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct ListedReaction<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    users: Option<&'a RawValue>,
}

/// The reactions in a message object, up to [`MAX_LISTED`]. Entries without a valid name or user are left
/// out.
pub(super) fn listed(raw: &RawValue) -> Vec<(String, UserId)> {
    let list = |raw: &RawValue| serde_json::from_str::<Vec<Box<RawValue>>>(raw.get()).unwrap_or_default();
    let mut reactions = Vec::new();
    for listed in list(raw) {
        let ListedReaction { name, users } = object_or_default(&listed);
        let Some(name) = name.filter(|name| checked_name(name, "reaction's name").is_ok()) else { continue };
        let users = users.map(list).unwrap_or_default();
        let users = users.iter().filter_map(|user| UserId::parse(&string_value(user)?).ok());
        reactions.extend(users.map(|user| (name.clone().into_owned(), user)));
    }
    reactions.truncate(MAX_LISTED);
    reactions
}

/// The registers of these reactions before any event. They have no clock, so an event about a reaction is
/// always greater: setting the register if it is absent has the same effect, and needs no separate write.
pub(super) fn initial(reactions: &[(String, UserId)]) -> Attributes {
    let version = format!("{}/{ADDED}", version::zero().padded());
    registers(reactions).map(|register| (register, version.clone().into())).collect()
}

/// The names of the registers of these reactions.
pub(super) fn registers(reactions: &[(String, UserId)]) -> impl Iterator<Item = String> {
    reactions.iter().map(|(name, user)| format!("{PREFIX}{name}#{user}"))
}

/// The names of the registers of the reactions that a message has now.
pub(super) fn added(attributes: &Attributes) -> impl Iterator<Item = &str> {
    let added = attributes.iter().filter(|(name, version)| {
        is_register(name) && version.as_str().is_some_and(|version| version.ends_with(ADDED))
    });
    added.map(|(name, _)| name.as_str())
}

/// The reactions that a message has now: the name of each, and the user.
pub(super) fn pairs(attributes: &Attributes) -> impl Iterator<Item = (&str, &str)> {
    added(attributes).filter_map(|register| register.strip_prefix(PREFIX)?.rsplit_once('#'))
}

/// The change that a reaction event makes to its message.
pub(super) fn changes(event: &SlackEvent<'_>, change: ReactionChange) -> Result<Vec<Change>, Malformed> {
    let missing = |field| Malformed::Missing { event: "reaction", field };
    let item = event.header.item().ok_or(missing("item"))?;
    let channel = event.channel()?;
    let ts = Ts::of_message(&item.ts().ok_or(missing("item.ts"))?)?;
    let user = event.user("reaction")?;
    let body: ReactionEvent<'_> = object_or_default(event.raw);
    let name = body.reaction.ok_or(missing("reaction"))?;
    let name = checked_name(&name, "reaction's name")?;
    let state = match change {
        ReactionChange::Added => ADDED,
        ReactionChange::Removed => REMOVED,
    };
    Ok(vec![Change::Register(Update {
        guard: Guard::Greater {
            register: format!("{PREFIX}{name}#{user}"),
            // At one clock, removed wins over added: any fixed order will do.
            version: format!("{}/{state}", event.clock().padded()),
        },
        set_if_absent: identity(&event.team, &channel, &ts),
        ..Update::new(ItemKey::message(&event.team, &channel, &ts))
    })])
}

/// Whether an attribute is a reaction's register.
pub(super) fn is_register(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The reactions among a message's attributes as Slack lists them: `[{"name", "users", "count"}]`, sorted.
pub(super) fn project(attributes: &Attributes) -> Option<Value> {
    let mut users_by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, user) in pairs(attributes) {
        users_by_name.entry(name).or_default().push(user);
    }
    if users_by_name.is_empty() {
        return None;
    }
    let listed = users_by_name.into_iter().map(|(name, mut users)| {
        users.sort_unstable();
        json!({ "name": name, "count": users.len(), "users": users })
    });
    Some(Value::Array(listed.collect()))
}
