//! Checks Socket Mode: the app-level token, whether Socket Mode is on, whether both tokens are of one app, and who else
//! has connections of the app.

use ingest::{ConnectionFailure, FailureCause, SocketHello};

use super::check::DoctorCheck;
use super::facts::{Facts, SocketFacts, TokenFacts};
use crate::plain;

const SOCKET: &str = "socket";

pub(super) fn check(facts: &Facts) -> DoctorCheck {
    match &facts.socket {
        SocketFacts::NoToken => {
            DoctorCheck::skipped(SOCKET, "SLACK_APP_TOKEN is not set: Slack sends events to the Request URL")
        }
        SocketFacts::Unusable(why) => DoctorCheck::unusable_setting(SOCKET, why),
        SocketFacts::Asked(Err(failure)) => failed(failure),
        SocketFacts::Asked(Ok(hello)) => another_app(hello, facts.slack.asked())
            .unwrap_or_else(|| connected(hello, facts.ingest.connections, facts.on_aws)),
    }
}

fn failed(failure: &ConnectionFailure) -> DoctorCheck {
    let finding = |next: &str| DoctorCheck::finding(SOCKET, failure.reason.as_str(), next);
    match failure.cause {
        FailureCause::Pause(_) => DoctorCheck::skipped(SOCKET, failure.reason.as_str()),
        FailureCause::Refused => finding(
            "generate an app-level token with the scope connections:write at api.slack.com/apps > your app > Basic \
             Information > App-Level Tokens, set SLACK_APP_TOKEN to it and start `annalist up` again",
        ),
        FailureCause::LinkDisabled => DoctorCheck::finding(
            SOCKET,
            "Socket Mode is turned off for this app: no event arrives over it",
            "turn it on at api.slack.com/apps > your app > Socket Mode",
        ),
        FailureCause::TooManyWebsockets => finding(
            "stop other programs that use this token, or let each open fewer (--socket-connections); if you do not \
             know them, revoke the token at api.slack.com/apps > your app > Basic Information > App-Level Tokens",
        ),
        FailureCause::Other => finding(
            "let this machine reach slack.com and its subdomains on port 443; behind a proxy, set HTTPS_PROXY",
        ),
    }
}

/// A finding if a bot token is of another app: then the events are not those of the app that is in the channels.
fn another_app(hello: &SocketHello, tokens: &[TokenFacts]) -> Option<DoctorCheck> {
    let app_id = hello.app_id.as_ref()?;
    let other = tokens.iter().filter_map(|token| token.app_id.as_ref()).find(|other| *other != app_id)?;
    Some(DoctorCheck::finding(
        SOCKET,
        format!("SLACK_APP_TOKEN is of the app {app_id}, and the bot token of the app {other}"),
        "take both tokens from one app at api.slack.com/apps, and start `annalist up` again",
    ))
}

/// Compares the connections of the app with those of the process: Slack sends an event to one of all connections. The
/// connections of the fleet on AWS are on other machines.
fn connected(hello: &SocketHello, own: Option<u64>, on_aws: bool) -> DoctorCheck {
    let of_app = hello.app_id.as_ref().map(|app_id| format!(" of the app {app_id}")).unwrap_or_default();
    let accepted = format!("the app-level token{of_app} is accepted");
    // Without the doctor's own.
    let open = hello.num_connections.map(|connections| connections.saturating_sub(1));
    let counted = |count| plain::counted(count, "connection", "connections");
    match (open, own) {
        (_, Some(0)) if !on_aws => DoctorCheck::finding(
            SOCKET,
            format!("{accepted}, but the process that runs has no connection"),
            "start `annalist up` again with SLACK_APP_TOKEN; if it has the token, check its log",
        ),
        (Some(open), Some(own)) if open > own && !on_aws => DoctorCheck::finding(
            SOCKET,
            format!(
                "{accepted}; the process that runs has {}, and others have {}: Slack sends each event to one of them",
                counted(own),
                counted(open - own)
            ),
            "run `annalist doctor` again in a minute, since Slack still counts connections that have just ended; if others \
             remain and are not processes of this archive, revoke the token at api.slack.com/apps > your app > Basic \
             Information > App-Level Tokens and generate another",
        ),
        (_, Some(own)) if !on_aws => {
            DoctorCheck::ok(SOCKET, format!("{accepted}; the process that runs has {}", counted(own)))
        }
        (Some(open), _) => DoctorCheck::ok(SOCKET, format!("{accepted}; {} of the app", counted(open))),
        (None, _) => DoctorCheck::ok(SOCKET, accepted),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{CheckState, assert_check};
    use super::*;

    fn hello(num_connections: Option<u64>) -> SocketHello {
        SocketHello { app_id: Some("A0ANNALIST".to_owned()), num_connections }
    }

    #[test]
    fn the_connections_of_the_app_are_compared_with_those_of_the_process() {
        for (num_connections, own, on_aws, state, expected) in [
            (
                Some(3),
                Some(2),
                false,
                CheckState::Ok,
                "A0ANNALIST is accepted; the process that runs has 2 connections",
            ),
            (Some(2), Some(2), false, CheckState::Ok, "2 connections"),
            (None, Some(1), false, CheckState::Ok, "1 connection"),
            (Some(4), Some(2), false, CheckState::Finding, "others have 1 connection"),
            (Some(4), Some(2), false, CheckState::Finding, "revoke the token"),
            (Some(4), Some(2), true, CheckState::Ok, "3 connections of the app"),
            (Some(1), Some(0), false, CheckState::Finding, "with SLACK_APP_TOKEN"),
            (Some(1), Some(0), true, CheckState::Ok, "0 connections of the app"),
            (Some(3), None, false, CheckState::Ok, "2 connections of the app"),
            (Some(0), None, false, CheckState::Ok, "0 connections of the app"),
            (None, None, false, CheckState::Ok, "is accepted"),
        ] {
            assert_check(&connected(&hello(num_connections), own, on_aws), state, expected);
        }
    }

    #[test]
    fn a_bot_token_of_another_app_is_a_finding() {
        let token = |app_id: Option<&str>| TokenFacts {
            app_id: app_id.map(str::to_owned),
            ..TokenFacts::accepted(&[])
        };
        let tokens = [token(None), token(Some("A0ANNALIST")), token(Some("A0OTHER"))];
        let check = another_app(&hello(None), &tokens).unwrap();
        assert_check(&check, CheckState::Finding, "A0ANNALIST, and the bot token of the app A0OTHER");
        assert_eq!(another_app(&hello(None), &tokens[..2]), None);
        assert_eq!(another_app(&SocketHello::default(), &tokens), None, "Slack names no app");
    }
}
