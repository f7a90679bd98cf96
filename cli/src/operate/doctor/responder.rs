//! Checks whether questions are answered, and whether the token may post.

use super::check::DoctorCheck;
use super::facts::{Facts, ResponderFacts, SlackFacts, TokenFacts};
use crate::manifest::RESPONDER_SCOPE;

const RESPONDER: &str = "responder";

pub(super) fn check(facts: &Facts) -> DoctorCheck {
    match &facts.responder {
        ResponderFacts::Off => {
            DoctorCheck::ok(RESPONDER, "off: questions are not answered, and nothing is posted")
        }
        ResponderFacts::Unusable(why) => DoctorCheck::unusable_setting(RESPONDER, why),
        ResponderFacts::On => may_post(&facts.slack),
    }
}

fn may_post(slack: &SlackFacts) -> DoctorCheck {
    let asked = slack.asked();
    if asked.is_empty() {
        return DoctorCheck::finding(
            RESPONDER,
            "the responder is on, but there is no token to post with",
            "set SLACK_BOT_TOKEN to the token of an app with the scopes of `annalist manifest --responder`",
        );
    }
    let lacks_scope =
        |token: &TokenFacts| token.scopes.as_ref().is_some_and(|scopes| !scopes.contains(RESPONDER_SCOPE));
    if asked.iter().any(lacks_scope) {
        return DoctorCheck::finding(
            RESPONDER,
            format!("the responder is on, but the app lacks {RESPONDER_SCOPE}"),
            "add it at api.slack.com/apps > your app > OAuth & Permissions > Bot Token Scopes, then reinstall the app",
        );
    }
    DoctorCheck::ok(RESPONDER, "on: questions are answered in their threads, and the app may post")
}

#[cfg(test)]
mod tests {
    use super::super::check::{CheckState, assert_check};
    use super::*;

    fn with(scopes: &[&str]) -> SlackFacts {
        SlackFacts::Tokens { total: 1, asked: vec![TokenFacts::accepted(scopes)] }
    }

    #[test]
    fn the_responder_needs_a_token_that_may_post() {
        assert_check(&may_post(&with(&["channels:history", "chat:write"])), CheckState::Ok, "on");
        assert_check(&may_post(&with(&["channels:history"])), CheckState::Finding, "chat:write");
        assert_check(&may_post(&SlackFacts::NoToken(None)), CheckState::Finding, "SLACK_BOT_TOKEN");
    }
}
