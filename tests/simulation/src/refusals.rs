//! The codes with which the simulated Slack refuses calls: every one that its documentation lists for the method,
//! unless it would be untrue or a person would have to act.

use slack_api::{ApiError, Method};
use testkit::fake_slack::errors::{COMMON_ERRORS, errors_of};

use super::workload::INVENTED_PERSON;
use super::world::World;

/// The parameters of a call.
type Form<'a> = [(&'a str, &'a str)];

/// Draws the code of a refusal. Half of them are codes that not every method has, if the method has any.
pub(super) fn draw(world: &World, method: &str, form: &Form<'_>) -> &'static str {
    let may_refuse = |code: &&'static str| is_temporary(method, code) && !is_untrue(method, code, form);
    let own: Vec<&str> = errors_of(method).iter().copied().filter(may_refuse).collect();
    let common: Vec<&str> = COMMON_ERRORS.iter().copied().filter(may_refuse).collect();
    let is_own = !own.is_empty() && world.chance_percent(50);
    let codes = if is_own { own } else { common };
    let index = usize::try_from(world.random_below(codes.len() as u64)).unwrap_or_default();
    let code = codes.get(index).copied().unwrap_or("fatal_error");
    world.count(|tally| {
        tally.own_refusals += u64::from(is_own);
        tally.hidden_histories += u64::from(hides_history(method, code));
    });
    code
}

/// Whether the fleet goes on by itself after this code, or a part of the simulation acts for a person.
fn is_temporary(method: &str, code: &str) -> bool {
    match method {
        // A part that may be in a thread that the app cannot read is posted again a minute later.
        "conversations.replies" => !matches!(
            code,
            "channel_not_found"
                | "missing_scope"
                | "no_permission"
                | "not_allowed_token_type"
                | "not_in_channel"
        ),
        // It ends a process that has never been connected, with a line that says what to do.
        "apps.connections.open" => {
            let error = ApiError::Refused {
                method: Method::AppsConnectionsOpen,
                error: code.to_owned(),
                needed: None,
            };
            !error.is_token_error()
                && !matches!(code, "not_allowed_token_type" | "missing_scope" | "no_permission")
        }
        // The check of a token needs no scope.
        "auth.test" => !matches!(code, "missing_scope" | "no_permission" | "not_allowed_token_type"),
        _ => true,
    }
}

/// Whether the code says something about the object that is not so. Slack says by itself what is so.
fn is_untrue(method: &str, code: &str, form: &Form<'_>) -> bool {
    let parameter = |name: &str| form.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value);
    match (method, code) {
        ("users.info", "user_not_found")
        | ("bots.info", "bot_not_found")
        | ("team.info", "team_not_found")
        | ("conversations.info", "channel_not_found")
        | ("conversations.replies", "thread_not_found") => true,
        // Such a person exists.
        ("users.info", "user_not_visible") => parameter("user") == INVENTED_PERSON,
        ("files.info", "file_not_found" | "file_deleted") => !parameter("file").starts_with("F0GONE"),
        _ => false,
    }
}

/// Whether the historian then asks for the channel again a day later.
fn hides_history(method: &str, code: &str) -> bool {
    method == "conversations.history"
        && matches!(code, "channel_not_found" | "missing_scope" | "not_in_channel")
}
