//! What Slack answers to `apps.connections.open`, and what a connection says first: documented or not, each ends as a
//! reason of one line that the next attempt depends on. <https://docs.slack.dev/reference/methods/apps.connections.open>

use serde_json::{Value, json};
use testkit::fake_slack::SlackAnswer;
use testkit::fake_socket::TICKET;

use super::*;
use crate::{FailureCause, check_socket};

/// Slack will not accept this token, whenever it is asked.
const REFUSED: [&str; 11] = [
    "access_denied",
    "account_inactive",
    "invalid_auth",
    "invalid_token",
    "missing_scope",
    "no_permission",
    "not_allowed_token_type",
    "not_authed",
    "team_access_not_granted",
    "token_expired",
    "token_revoked",
];

/// The other errors that Slack documents, and one that it does not.
const MAY_PASS: [&str; 21] = [
    "accesslimited",
    "deprecated_endpoint",
    "ekm_access_denied",
    "enterprise_is_restricted",
    "fatal_error",
    "forbidden_team",
    "internal_error",
    "invalid_arg_name",
    "invalid_arguments",
    "invalid_array_arg",
    "invalid_charset",
    "invalid_form_data",
    "invalid_post_type",
    "method_deprecated",
    "missing_post_type",
    "org_login_required",
    "request_timeout",
    "service_unavailable",
    "team_added_to_org",
    "two_factor_setup_required",
    "an_error_of_next_year",
];

fn api(slack: &FakeSlack) -> SocketApi {
    SocketApi::new(slack.url().parse().unwrap(), AppToken::parse(APP_TOKEN).unwrap())
}

/// Asserts that the reason is one line without secrets.
fn assert_reason(reason: &str, context: &str) {
    assert!(!reason.is_empty() && !reason.contains('\n') && reason.len() < 300, "{context}: {reason}");
    assert!(!reason.contains(TICKET) && !reason.contains(APP_TOKEN), "{context}: {reason}");
}

#[tokio::test]
async fn every_answer_to_the_request_for_a_connection_says_when_to_ask_again() {
    let slack = FakeSlack::start().await;
    let refused = REFUSED.map(|code| (refusal(code), FailureCause::Refused));
    let passing = MAY_PASS.map(|code| (refusal(code), FailureCause::Other));
    let seconds = |seconds| FailureCause::Pause(Duration::from_secs(seconds));
    let deep = "[".repeat(10_000);
    let limits = [(SlackAnswer::rate_limited(7), seconds(7)), (refusal("ratelimited"), seconds(30))];
    let hostile = [
        json!({ "ok": true }),
        json!({ "ok": true, "url": null }),
        json!({ "ok": true, "url": 7 }),
        json!({ "ok": true, "url": [TICKET] }),
        json!({ "ok": true, "url": format!("wss://wss.example.com/?ticket={TICKET}") }),
        json!({ "ok": "true", "url": format!("wss://wss-primary.slack.com/?ticket={TICKET}") }),
        json!({ "ok": false }),
        json!({ "ok": false, "error": 7 }),
        json!({ "ok": false, "error": vec![TICKET; 10_000] }),
        json!(vec![Value::Null; 10_000]),
        json!({}),
        json!([]),
        Value::Null,
    ];
    let hostile = hostile.iter().map(SlackAnswer::json).chain([
        SlackAnswer::new(200),
        SlackAnswer::new(200).with_body("<html>"),
        SlackAnswer::new(200).with_body([0xff, 0xfe]),
        SlackAnswer::new(200).with_body(deep),
        SlackAnswer::new(302).with_header("location", "https://slack.com/"),
        SlackAnswer::new(404),
        SlackAnswer::new(500).with_body("<html>"),
        SlackAnswer::new(503).with_body("<html>"),
    ]);
    let hostile = hostile.map(|answer| (answer, FailureCause::Other));
    let all = refused.into_iter().chain(passing).chain(limits).chain(hostile);
    for (answer, expected) in all {
        let context: String = format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body));
        let context: String = context.chars().take(100).collect();
        slack.plan_answers("apps.connections.open", [answer]);
        let failure = check_socket(&api(&slack)).await.unwrap_err();
        assert_eq!(failure.cause, expected, "{context}: {failure:?}");
        assert_reason(&failure.reason, &context);
    }
}

#[tokio::test]
async fn a_connection_is_ready_with_hello_alone_whatever_comes_before_it() {
    let hello = r#"{"type":"hello"}"#;
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    for before in [
        "",
        "null",
        "[]",
        "7",
        r#"{"type":null}"#,
        r#"{"type":["hello"]}"#,
        r#"{"type":"HELLO"}"#,
        r#"{"type":"goodbye","reason":{}}"#,
        r#"{"type":"events_api","envelope_id":"e1","payload":{}}"#,
        r#"{"type":"slash_commands","envelope_id":null}"#,
        &deep,
    ] {
        let slack = FakeSlack::start().await;
        let mut host = FakeSocket::start(&slack, 1).await;
        let (checked, ()) = tokio::join!(async { check_socket(&api(&slack)).await }, async {
            let mut side = host.next().await;
            side.send_text(before).await;
            side.send_binary(b"\xff").await;
            side.send_text(hello).await;
            // Nothing is acked before the connection is ready: Slack delivers it again.
            assert_eq!(side.received().await, FromClient::Close(Some(1000)), "{before}");
        });
        assert!(checked.is_ok(), "{before}: {checked:?}");
    }
}

#[tokio::test]
async fn a_connection_that_ends_before_hello_says_why() {
    for (reason, cause) in [
        ("link_disabled", FailureCause::LinkDisabled),
        ("too_many_websockets", FailureCause::TooManyWebsockets),
        ("warning", FailureCause::Other),
        ("refresh_requested", FailureCause::Other),
        ("socket_of_next_year", FailureCause::Other),
        ("", FailureCause::Other),
    ] {
        let slack = FakeSlack::start().await;
        let mut host = FakeSocket::start(&slack, 1).await;
        let (checked, ()) = tokio::join!(async { check_socket(&api(&slack)).await }, async {
            host.next().await.disconnect(reason).await;
        });
        let failure = checked.unwrap_err();
        assert_eq!(failure.cause, cause, "{reason}");
        assert_reason(&failure.reason, reason);
    }
    let slack = FakeSlack::start().await;
    let mut host = FakeSocket::start(&slack, 1).await;
    let (checked, ()) = tokio::join!(async { check_socket(&api(&slack)).await }, async {
        drop(host.next().await);
    });
    assert_eq!(checked.unwrap_err().cause, FailureCause::Other);
}
