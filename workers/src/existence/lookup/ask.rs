//! Asks Slack whether an entity exists: one call, one answer.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use ports::archive::Update;
use ports::queue::waiting::WaitCause;
use rules::bot;
use rules::visibility::VisibilityEvidence;
use serde::Deserialize;
use serde_json::value::RawValue;
use slack::envelope::{self, text_or_none};
use slack_api::{ApiError, ApiReply, WebApi};

use crate::existence::entities::{ChannelReach, Entity};

/// Slack's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::existence) enum ExistenceAnswer {
    /// The entity exists. For a channel, with its visibility.
    Found { reach: Option<ChannelReach> },
    /// The entity does not exist, with this error code.
    Missing(String),
    /// Slack demands a pause.
    Paused(Duration, String),
    /// Something that a person has to change: the token, or a scope.
    Blocked(WaitCause, String),
    /// Slack fails.
    Failed(String),
}

/// The whole list of people was read without a match, and the person was not asked about separately.
pub(in crate::existence) const NOT_LISTED: &str = "not_in_users_list";

/// The answer contains another entity.
const ANOTHER: &str = "answered with another id";

/// The channel is private, and the app may not see it.
pub(in crate::existence) const NO_GROUPS: &str = "it is private, and the app lacks the scope groups:read";

/// Slack's error code for a call that needs a scope the app lacks.
const MISSING_SCOPE: &str = "missing_scope";

/// What an answer shows besides the entity's existence.
#[derive(Default)]
pub(in crate::existence) struct ShownFacts {
    /// The update of the row of a bot.
    pub(in crate::existence) bot_row: Option<Update>,
    /// Whether a channel is public.
    pub(in crate::existence) visibility: Option<VisibilityEvidence>,
}

/// Asks Slack about an entity.
pub(in crate::existence) async fn ask(api: &WebApi, entity: &Entity) -> (ExistenceAnswer, ShownFacts) {
    let parameters: &[(&str, &str)] = if matches!(entity, Entity::Team(_)) { &[] } else { &[entity.field()] };
    match api.call_without_pauses(entity.team(), entity.method(), parameters).await {
        Ok(reply) => {
            let answer = read(&reply, entity);
            let shown = match &answer {
                ExistenceAnswer::Found { reach } => ShownFacts {
                    bot_row: bot_row(&reply, entity),
                    visibility: reach.and_then(|reach| visibility(&reply, entity, reach)),
                },
                ExistenceAnswer::Missing(_)
                | ExistenceAnswer::Paused(..)
                | ExistenceAnswer::Blocked(..)
                | ExistenceAnswer::Failed(_) => ShownFacts::default(),
            };
            (answer, shown)
        }
        Err(error) => (refused(&error), ShownFacts::default()),
    }
}

/// What a channel's object shows, by Slack's clock.
fn visibility(reply: &ApiReply, entity: &Entity, reach: ChannelReach) -> Option<VisibilityEvidence> {
    let Entity::Channel(team, channel) = entity else { return None };
    Some(VisibilityEvidence::object(team, channel, reach.private, reply.date()?))
}

/// The update of a bot's row, by Slack's clock.
fn bot_row(reply: &ApiReply, entity: &Entity) -> Option<Update> {
    let Entity::Bot(team, _) = entity else { return None };
    let body: HashMap<Cow<'_, str>, &RawValue> = reply.read().ok()?;
    let object = envelope::parse_value(body.get(entity.field().0)?.get()).ok()?;
    bot::update(team, &object, reply.date()?)
}

#[derive(Default, Deserialize)]
struct ObjectId<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    id: Option<Cow<'a, str>>,
}

/// The ID of a Slack object.
pub(super) fn id_of(object: &RawValue) -> Option<Cow<'_, str>> {
    envelope::object_or_default::<ObjectId<'_>>(object).id
}

fn read(reply: &ApiReply, entity: &Entity) -> ExistenceAnswer {
    let body: HashMap<Cow<'_, str>, &RawValue> = match reply.read() {
        Ok(body) => body,
        Err(error) => return ExistenceAnswer::Failed(error.to_string()),
    };
    let (name, id) = entity.field();
    let object = body.get(name).copied();
    match object.and_then(id_of) {
        Some(answered_id) if answered_id == id => {
            let channel = object.filter(|_| matches!(entity, Entity::Channel(..)));
            ExistenceAnswer::Found { reach: channel.map(ChannelReach::from_channel) }
        }
        Some(_) => ExistenceAnswer::Missing(ANOTHER.to_owned()),
        None => {
            let nothing = ApiError::Garbled { method: entity.method(), why: "it contains no object" };
            ExistenceAnswer::Failed(nothing.to_string())
        }
    }
}

fn refused(error: &ApiError) -> ExistenceAnswer {
    match error {
        ApiError::NoToken(team) => ExistenceAnswer::Blocked(
            WaitCause::NoToken,
            format!(
                "there is no token for {team}: add it to SLACK_BOT_TOKENS_FILE; if it is not yours, change the signing secret"
            ),
        ),
        ApiError::RateLimited { retry_after, .. } => ExistenceAnswer::Paused(*retry_after, error.to_string()),
        ApiError::Refused { error: code, needed, .. } => match code.as_str() {
            "user_not_found" | "channel_not_found" | "team_not_found" | "bot_not_found" => {
                ExistenceAnswer::Missing(code.clone())
            }
            // A user that the app must not see exists all the same.
            "user_not_visible" => ExistenceAnswer::Found { reach: None },
            MISSING_SCOPE if needs_only_private(needed.as_deref()) => {
                ExistenceAnswer::Missing(NO_GROUPS.to_owned())
            }
            MISSING_SCOPE => ExistenceAnswer::Blocked(
                WaitCause::Scope,
                format!(
                    "{error}: add it at api.slack.com/apps > your app > OAuth & Permissions, and install the app again"
                ),
            ),
            _ if error.is_token_error() => ExistenceAnswer::Blocked(
                WaitCause::Token,
                format!("{error}: install the app again, and replace the token"),
            ),
            _ => ExistenceAnswer::Failed(error.to_string()),
        },
        // It is a configuration error, and no sign of a forgery.
        ApiError::WrongToken { .. } => ExistenceAnswer::Blocked(WaitCause::Token, error.to_string()),
        ApiError::Unreachable { .. } | ApiError::Garbled { .. } => ExistenceAnswer::Failed(error.to_string()),
    }
}

/// Whether a channel is private and the app sees only public ones: the missing scope shows it.
fn needs_only_private(needed: Option<&str>) -> bool {
    let scopes = || needed.into_iter().flat_map(|needed| needed.split(','));
    scopes().any(|scope| scope.trim() == "groups:read")
        && scopes().all(|scope| scope.trim() != "channels:read")
}

#[cfg(test)]
mod tests {
    use slack_api::Method;

    use super::*;

    #[test]
    fn a_missing_scope_is_not_allowed_unless_it_only_hides_a_private_channel() {
        let refused = |needed: Option<&str>| {
            refused(&ApiError::Refused {
                method: Method::ConversationsInfo,
                error: MISSING_SCOPE.into(),
                needed: needed.map(str::to_owned),
            })
        };
        assert_eq!(refused(Some("groups:read")), ExistenceAnswer::Missing(NO_GROUPS.into()));
        for needed in [None, Some("channels:read"), Some("channels:read,groups:read,mpim:read,im:read")] {
            assert!(
                matches!(refused(needed), ExistenceAnswer::Blocked(WaitCause::Scope, why) if why.contains("OAuth")),
                "{needed:?}"
            );
        }
    }
}
