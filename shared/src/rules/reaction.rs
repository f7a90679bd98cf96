//! Reactions: one register per message, name and person.
//!
//! <https://docs.slack.dev/reference/events/reaction_added>

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Change, Event, Malformed, checked_name};
use crate::archive::{Attributes, Guard, ItemKey, Update};
use crate::slack::envelope::{object, text_or_none};
use crate::slack::ids::Ts;

const PREFIX: &str = "reaction#";
const ADDED: &str = "added";
const REMOVED: &str = "removed";

#[derive(Default, Deserialize)]
struct Reaction<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    reaction: Option<Cow<'a, str>>,
}

/// What a reaction to a message changes.
pub(super) fn changes(event: &Event<'_>) -> Result<Vec<Change>, Malformed> {
    let missing = |field| Malformed::Missing { event: "reaction", field };
    let item = event.header.item().ok_or(missing("item"))?;
    let channel = event.channel()?;
    let ts = Ts::parse(item.ts.as_deref().ok_or(missing("item.ts"))?)?;
    let user = event.user("reaction")?;
    let body: Reaction<'_> = object(event.raw);
    let name = body.reaction.ok_or(missing("reaction"))?;
    let name = checked_name(&name, "reaction's name")?;
    let state = if event.header.kind.as_deref() == Some("reaction_removed") { REMOVED } else { ADDED };
    let identity = [
        ("type", "message"),
        ("team_id", event.team.as_str()),
        ("channel_id", channel.as_str()),
        ("ts", ts.as_str()),
    ];
    Ok(vec![Change::Register(Update {
        guard: Guard::Greater {
            register: format!("{PREFIX}{name}#{user}"),
            // At one clock, removed wins over added: any fixed order will do.
            version: format!("{}/{state}", event.clock().padded()),
        },
        set_if_absent: identity.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
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
    for (attribute, value) in attributes {
        let Some((name, user)) =
            attribute.strip_prefix(PREFIX).and_then(|register| register.rsplit_once('#'))
        else {
            continue;
        };
        if value.as_str().is_some_and(|version| version.ends_with(ADDED)) {
            users_by_name.entry(name).or_default().push(user);
        }
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
