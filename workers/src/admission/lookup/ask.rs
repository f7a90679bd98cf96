//! Asks Slack whether an entity exists: one call, one answer.

use std::borrow::Cow;
use std::collections::HashMap;

use ports::archive::Update;
use ports::queue::waiting::WaitCause;
use rules::bot;
use rules::visibility::VisibilityEvidence;
use serde::Deserialize;
use serde_json::value::RawValue;
use slack::envelope::{self, text_or_none};
use slack_api::{ApiError, ApiReply, WebApi};

use crate::admission::SOON;
use crate::admission::entities::{ChannelReach, Entity};
use crate::admission::evaluate::Fact;

/// The answer contains another entity.
const ANOTHER: &str = "answered with another id";

/// The channel is private, and the app may not see it.
pub(in crate::admission) const NO_GROUPS: &str = "it is private, and the app lacks the scope groups:read";

/// Slack's error code for a call that needs a scope the app lacks.
const MISSING_SCOPE: &str = "missing_scope";

/// What an answer shows besides the entity's existence.
#[derive(Default)]
pub(in crate::admission) struct ShownFacts {
    /// The update of the row of a bot.
    pub(in crate::admission) bot_row: Option<Update>,
    /// Whether a channel is public.
    pub(in crate::admission) visibility: Option<VisibilityEvidence>,
}

/// Asks Slack about an entity. The answer is never [`Fact::Undetermined`].
pub(in crate::admission) async fn ask(api: &WebApi, entity: &Entity) -> (Fact, ShownFacts) {
    let parameters: &[(&str, &str)] = if matches!(entity, Entity::Team(_)) { &[] } else { &[entity.field()] };
    match api.call_without_pauses(entity.team(), entity.method(), parameters).await {
        Ok(reply) => {
            let answer = read(&reply, entity);
            let shown = match &answer {
                Fact::Found { reach } => ShownFacts {
                    bot_row: bot_row(&reply, entity),
                    visibility: reach.and_then(|reach| visibility(&reply, entity, reach)),
                },
                Fact::Missing(_)
                | Fact::Later { .. }
                | Fact::Blocked { .. }
                | Fact::Failed { .. }
                | Fact::Undetermined(_) => ShownFacts::default(),
            };
            (answer, shown)
        }
        Err(error) => (refused(&error, entity), ShownFacts::default()),
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
fn id_of(object: &RawValue) -> Option<Cow<'_, str>> {
    envelope::object_or_default::<ObjectId<'_>>(object).id
}

fn read(reply: &ApiReply, entity: &Entity) -> Fact {
    let body: HashMap<Cow<'_, str>, &RawValue> = match reply.read() {
        Ok(body) => body,
        Err(error) => return failed(error.to_string()),
    };
    let (name, id) = entity.field();
    let object = body.get(name).copied();
    match object.and_then(id_of) {
        Some(answered_id) if answered_id == id => {
            let channel = object.filter(|_| matches!(entity, Entity::Channel(..)));
            Fact::Found { reach: channel.map(ChannelReach::from_channel) }
        }
        Some(_) => Fact::Missing(ANOTHER.to_owned()),
        None => {
            let nothing = ApiError::Garbled { method: entity.method(), why: "it contains no object" };
            failed(nothing.to_string())
        }
    }
}

fn failed(why: String) -> Fact {
    Fact::Failed { after: SOON, why }
}

/// Something that a person has to change: the token, or a scope.
fn blocked(cause: WaitCause, why: String) -> Fact {
    Fact::Blocked { cause, why }
}

/// The fact that an error shows, by the codes that the method has.
fn refused(error: &ApiError, entity: &Entity) -> Fact {
    match error {
        ApiError::NoToken(team) => blocked(
            WaitCause::NoToken,
            format!(
                "there is no token for {team}: add it to SLACK_BOT_TOKENS_FILE; if it is not yours, change the signing secret"
            ),
        ),
        ApiError::RateLimited { retry_after, .. } => {
            Fact::Later { after: *retry_after, why: error.to_string() }
        }
        ApiError::Refused { error: code, needed, .. } => match code.as_str() {
            // `team.info` also has `user_not_found`, and `bots.info` `team_not_found`: about something else.
            code if code.strip_suffix("_not_found") == Some(entity.field().0) => {
                Fact::Missing(code.to_owned())
            }
            // A user that the app must not see exists all the same.
            "user_not_visible" => Fact::Found { reach: None },
            MISSING_SCOPE if needs_only_private(needed.as_deref()) => Fact::Missing(NO_GROUPS.to_owned()),
            MISSING_SCOPE => blocked(
                WaitCause::Scope,
                format!(
                    "{error}: add it at api.slack.com/apps > your app > OAuth & Permissions, and install the app again"
                ),
            ),
            _ if error.is_token_error() => {
                blocked(WaitCause::Token, format!("{error}: install the app again, and replace the token"))
            }
            _ => failed(error.to_string()),
        },
        // It is a configuration error, and no sign of a forgery.
        ApiError::WrongToken { .. } => blocked(WaitCause::Token, error.to_string()),
        ApiError::Unreachable { .. } | ApiError::Garbled { .. } => failed(error.to_string()),
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
    use slack::ids::{ChannelId, TeamId, UserId};
    use slack_api::Method;

    use super::*;

    fn team() -> TeamId {
        TeamId::parse("T1").unwrap()
    }

    fn channel() -> Entity {
        Entity::Channel(team(), ChannelId::parse("C1").unwrap())
    }

    #[test]
    fn only_the_code_of_the_entity_itself_says_that_it_does_not_exist() {
        let id = || UserId::parse("U1").unwrap();
        let entities =
            [Entity::Team(team()), Entity::User(team(), id()), Entity::Bot(team(), id()), channel()];
        let codes = ["team_not_found", "user_not_found", "bot_not_found", "channel_not_found"];
        for (at, entity) in entities.iter().enumerate() {
            for (other, code) in codes.iter().enumerate() {
                let error =
                    ApiError::Refused { method: entity.method(), error: (*code).to_owned(), needed: None };
                let is_missing = matches!(refused(&error, entity), Fact::Missing(_));
                assert_eq!(is_missing, at == other, "{entity}: {code}");
            }
        }
    }

    #[test]
    fn a_missing_scope_is_not_allowed_unless_it_only_hides_a_private_channel() {
        let refused = |needed: Option<&str>| {
            let error = ApiError::Refused {
                method: Method::ConversationsInfo,
                error: MISSING_SCOPE.into(),
                needed: needed.map(str::to_owned),
            };
            refused(&error, &channel())
        };
        assert_eq!(refused(Some("groups:read")), Fact::Missing(NO_GROUPS.into()));
        for needed in [None, Some("channels:read"), Some("channels:read,groups:read,mpim:read,im:read")] {
            assert!(
                matches!(refused(needed), Fact::Blocked { cause: WaitCause::Scope, why } if why.contains("OAuth")),
                "{needed:?}"
            );
        }
    }
}
