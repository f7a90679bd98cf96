//! The client of Slack's Web API against a Slack that misbehaves.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ports::clock::{ManualClock, TimestampMs};
use serde::Deserialize;
use serde_json::{Value, json};
use slack::ids::TeamId;
use slack_api::download::{DownloadStatus, DownloadTimeLimits};
use slack_api::tokens::{ReadTokens, TokenSecret};
use slack_api::{ApiError, ApiUrl, BotToken, Method, Tokens, WebApi};
use testkit::fake_slack::{FakeSlack, FakeWorkspace, SlackAnswer, one_token, refusal, tokens};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use wiremock::matchers::{header, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

const TOKEN: &str = "xoxb-1-hidden";

fn team(id: &str) -> TeamId {
    TeamId::parse(id).unwrap()
}

async fn slack() -> FakeSlack {
    let slack = FakeSlack::start().await;
    slack.set_workspace(TOKEN, FakeWorkspace::with_size("T1", 3, 0));
    slack
}

async fn list(api: &WebApi) -> Result<Value, ApiError> {
    api.call(&team("T1"), Method::UsersList, &[]).await?.read()
}

fn limited(retry_after: &str) -> SlackAnswer {
    SlackAnswer::new(429).with_header("retry-after", retry_after)
}

#[tokio::test]
async fn a_call_sends_its_token_and_form_and_returns_slacks_date() {
    let slack = slack().await;
    let api = slack.client(one_token(TOKEN));
    let reply = api.call(&team("T1"), Method::ConversationsList, &[("types", "a=&b"), ("limit", "2")]).await;
    let reply = reply.unwrap();
    assert_eq!(reply.date().unwrap().as_str(), "1700000000.000000");
    #[derive(Deserialize)]
    struct ListedChannels {
        channels: Vec<Value>,
    }
    assert_eq!(reply.read::<ListedChannels>().unwrap().channels.len(), 3);
    let [identity, call] = &slack.calls()[..] else { panic!("{:?}", slack.calls()) };
    assert_eq!((identity.method.as_str(), call.method.as_str()), ("auth.test", "conversations.list"));
    assert_eq!((identity.token.as_str(), call.token.as_str()), (TOKEN, TOKEN));
    assert_eq!(call.parameters["types"], "a=&b");
}

#[tokio::test]
async fn a_short_pause_is_waited_out() {
    let slack = slack().await;
    let api = slack.client(one_token(TOKEN));
    slack.plan_answers("users.list", [limited("1")]);
    let start = Instant::now();
    list(&api).await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(slack.call_count("users.list"), 2);
}

#[tokio::test]
async fn a_long_pause_is_returned_to_the_caller_and_pauses_only_that_method() {
    let slack = slack().await;
    let api = slack.client(one_token(TOKEN));
    slack.plan_answers("users.list", [limited("120")]);
    for _ in 0..2 {
        let error = list(&api).await.unwrap_err();
        let ApiError::RateLimited { method: Method::UsersList, retry_after } = error else {
            panic!("{error}")
        };
        assert!((118..=120).contains(&retry_after.as_secs()), "{retry_after:?}");
    }
    assert_eq!(slack.call_count("users.list"), 1, "a paused method is not called");
    api.call(&team("T1"), Method::EmojiList, &[]).await.unwrap();
}

#[tokio::test]
async fn endless_pauses_are_not_waited_out() {
    let slack = slack().await;
    let api = slack.client(one_token(TOKEN));
    slack.plan_answers("users.list", (0..9).map(|_| limited("0")));
    assert!(matches!(list(&api).await, Err(ApiError::RateLimited { .. })));
    assert_eq!(slack.call_count("users.list"), 4);
    // The same, with the code in the body.
    slack.plan_answers("emoji.list", [refusal("ratelimited").with_header("retry-after", "300")]);
    let error = api.call(&team("T1"), Method::EmojiList, &[]).await.unwrap_err();
    assert!(matches!(error, ApiError::RateLimited { retry_after, .. } if retry_after.as_secs() == 300));
}

#[tokio::test]
async fn every_kind_of_bad_response_has_an_error_without_its_text() {
    let slack = slack().await;
    let api = slack.client(one_token(TOKEN));
    let body = |status: u16, body: &str| SlackAnswer::new(status).with_body(body);
    let cases = [
        (body(500, "oops hidden"), "cannot be reached for users.list: HTTP 500"),
        (body(503, r#"{"ok":true,"members":[]}"#), "HTTP 503"),
        (body(302, "").with_header("location", "https://evil.example/hidden"), "HTTP 302"),
        (refusal("internal_error"), "cannot be reached"),
        (body(200, "<html>hidden</html>"), "makes no sense"),
        (body(200, "[true]"), "makes no sense"),
        (body(200, ""), "makes no sense"),
        (body(200, r#"{"ok":true"#), "makes no sense"),
        (body(200, r#"{"ok":"hidden"}"#), "makes no sense"),
        (body(200, r#"{"members":[]}"#), "makes no sense"),
        (SlackAnswer::new(200).with_body(b"{\"ok\":true,\"x\":\"\xff\"}".to_vec()), "UTF-8"),
        (body(404, "hidden"), "makes no sense"),
        (refusal("invalid_arguments"), "refused users.list: invalid_arguments"),
        (refusal(&format!("no such token {TOKEN}")), "no reason given"),
        (body(403, r#"{"ok":false}"#), "no reason given"),
    ];
    for (answer, expected) in cases {
        slack.plan_answers("users.list", [answer]);
        let error = list(&api).await.unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("hidden") && !error.contains('\n'), "{error}");
    }
    let refused =
        json!({ "ok": false, "error": "missing_scope", "needed": "emoji:read", "provided": "hidden" });
    slack.refuse("emoji.list", refused);
    let error = api.call(&team("T1"), Method::EmojiList, &[]).await.unwrap_err();
    assert_eq!(
        error,
        ApiError::Refused {
            method: Method::EmojiList,
            error: "missing_scope".into(),
            needed: Some("emoji:read".into())
        }
    );
}

#[tokio::test]
async fn an_endless_body_and_an_incomplete_one_are_errors() {
    // A raw socket: a well-behaved server cannot declare more bytes than it sends.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: ApiUrl = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let serve = async {
        let identity = r#"{"ok":true,"team_id":"T1"}"#;
        for part in 0..3 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n";
            let answer = match part {
                0 => format!("{head}content-length: {}\r\n\r\n{identity}", identity.len()),
                1 => format!("{head}content-length: 1000\r\n\r\n{{\"ok\":true,"),
                _ => format!("{head}\r\n{{\"ok\":true,\"members\":\""),
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
            let endless = vec![b'x'; 1024 * 1024];
            while part == 2 && stream.write_all(&endless).await.is_ok() {}
        }
    };
    let calls = async {
        let api = WebApi::new(url, one_token(TOKEN));
        let incomplete = list(&api).await.unwrap_err();
        assert!(matches!(incomplete, ApiError::Unreachable { .. }), "{incomplete}");
        let endless = list(&api).await.unwrap_err();
        assert!(endless.to_string().contains("longer than 16 MiB"), "{endless}");
        assert!(endless.is_too_long() && !incomplete.is_too_long());
    };
    tokio::join!(serve, calls);
}

#[tokio::test]
async fn an_address_without_a_server_is_unreachable_and_the_error_has_no_url() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let api = WebApi::new(format!("http://{address}/hidden/").parse().unwrap(), one_token(TOKEN));
    let error = api.teams().await.unwrap_err();
    assert!(matches!(error, ApiError::Unreachable { .. }), "{error}");
    assert!(!error.to_string().contains("hidden"), "{error}");
}

#[tokio::test]
async fn the_only_token_is_used_only_for_its_own_workspace() {
    let slack = slack().await;
    let api = slack.client(one_token(TOKEN));
    assert_eq!(api.teams().await.unwrap(), [team("T1")]);
    assert!(api.has_token_for(&team("T1")).await.unwrap() && !api.has_token_for(&team("T2")).await.unwrap());
    let error = api.call(&team("T2"), Method::UsersList, &[]).await.unwrap_err();
    assert_eq!(error, ApiError::NoToken(team("T2")));
    assert_eq!(slack.calls().len(), 1, "the only call asks Slack for the owner of the token");
}

#[tokio::test]
async fn each_workspace_has_its_token_and_a_mix_up_is_detected() {
    let slack = slack().await;
    slack.set_workspace("xoxb-2", FakeWorkspace::new("T2"));
    let api = slack.client(tokens(&[("T1", TOKEN), ("T2", "xoxb-2"), ("T3", "xoxb-2")]));
    for id in ["T1", "T2"] {
        api.call(&team(id), Method::UsersList, &[]).await.unwrap();
    }
    let mixed_up = api.call(&team("T3"), Method::UsersList, &[]).await.unwrap_err();
    assert_eq!(mixed_up, ApiError::WrongToken { team: team("T3"), owner: team("T2") });
    let list_calls: Vec<_> = slack.calls().into_iter().filter(|call| call.method == "users.list").collect();
    assert_eq!(list_calls.iter().map(|call| call.token.as_str()).collect::<Vec<_>>(), [TOKEN, "xoxb-2"]);
    let missing = api.call(&team("T4"), Method::UsersList, &[]).await.unwrap_err();
    assert_eq!(missing, ApiError::NoToken(team("T4")));
}

/// Tokens that a test changes, and their clock.
struct ChangingTokens {
    stored: Arc<Mutex<Vec<TokenSecret>>>,
    clock: Arc<ManualClock>,
}

impl ChangingTokens {
    fn new(first: &[TokenSecret]) -> (Self, Tokens) {
        let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
        let stored = Arc::new(Mutex::new(first.to_vec()));
        let source = Arc::clone(&stored);
        let read: ReadTokens = Box::new(move || {
            let secrets = source.lock().unwrap().clone();
            Box::pin(async { Ok(secrets) })
        });
        let tokens = Tokens::reread("NAME", first.to_vec(), Duration::from_secs(300), clock.clone(), read);
        (Self { stored, clock }, tokens)
    }

    fn set(&self, secrets: &[TokenSecret]) {
        *self.stored.lock().unwrap() = secrets.to_vec();
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

fn table(entries: &[(&str, &str)]) -> TokenSecret {
    let entry = |(id, token): &(&str, &str)| (team(id), BotToken::parse(token).unwrap());
    TokenSecret::PerTeam(entries.iter().map(entry).collect())
}

fn one(token: &str) -> TokenSecret {
    TokenSecret::One(BotToken::parse(token).unwrap())
}

#[tokio::test]
async fn a_token_that_slack_refuses_is_replaced_by_the_one_that_was_read_again() {
    for (old, new) in [(one(TOKEN), one("xoxb-new")), (table(&[("T1", TOKEN)]), table(&[("T1", "xoxb-new")]))]
    {
        for is_confirmed_before in [true, false] {
            let slack = slack().await;
            let (stored, tokens) = ChangingTokens::new(std::slice::from_ref(&old));
            let api = slack.client(tokens);
            if is_confirmed_before {
                list(&api).await.unwrap();
            }
            slack.set_workspace("xoxb-new", FakeWorkspace::new("T1"));
            slack.remove_workspace(TOKEN);
            stored.set(std::slice::from_ref(&new));
            let refused = list(&api).await.unwrap_err();
            assert!(refused.is_token_error(), "the tokens were just read: {refused}");
            stored.pass(15);
            list(&api).await.unwrap();
            assert_eq!(slack.calls().last().unwrap().token, "xoxb-new");
            assert_eq!(api.teams().await.unwrap(), [team("T1")]);
        }
    }
}

#[tokio::test]
async fn a_permitted_call_uses_the_new_token() {
    let slack = slack().await;
    let (stored, tokens) = ChangingTokens::new(&[table(&[("T1", TOKEN)])]);
    let api = slack.client(tokens);
    let permit = api.permit(&team("T1"), Method::UsersList).await.unwrap();
    slack.set_workspace("xoxb-new", FakeWorkspace::new("T1"));
    slack.remove_workspace(TOKEN);
    stored.set(&[table(&[("T1", "xoxb-new")])]);
    stored.pass(15);
    permit.execute(&[]).await.unwrap();
    assert_eq!(slack.calls().last().unwrap().token, "xoxb-new");
}

#[tokio::test]
async fn a_download_uses_the_new_token() {
    let slack = MockServer::start().await;
    let identity = ResponseTemplate::new(200).set_body_json(json!({ "ok": true, "team_id": "T1" }));
    Mock::given(path("/api/auth.test")).respond_with(identity).mount(&slack).await;
    let found = Mock::given(path("/file")).and(header("authorization", "Bearer xoxb-new"));
    found.respond_with(ResponseTemplate::new(200)).mount(&slack).await;
    let refused = Mock::given(path("/file")).and(header("authorization", format!("Bearer {TOKEN}").as_str()));
    refused.respond_with(ResponseTemplate::new(401)).mount(&slack).await;
    let (stored, tokens) = ChangingTokens::new(&[one(TOKEN)]);
    let api = WebApi::new(format!("{}/api/", slack.uri()).parse().unwrap(), tokens);
    let url = format!("{}/file", slack.uri());
    for (new, expected) in [(TOKEN, DownloadStatus::Unauthorized), ("xoxb-new", DownloadStatus::Found)] {
        stored.set(&[one(new)]);
        stored.pass(15);
        let download = api.download(&team("T1"), &url, DownloadTimeLimits::default()).await.unwrap();
        assert_eq!(download.status, expected);
    }
}

#[tokio::test]
async fn tokens_are_read_again_for_an_unknown_workspace_and_when_they_are_old() {
    let slack = slack().await;
    slack.set_workspace("xoxb-2", FakeWorkspace::new("T2"));
    let (stored, tokens) = ChangingTokens::new(&[]);
    let api = slack.client(tokens);
    stored.set(&[table(&[("T1", TOKEN)])]);
    assert!(!api.has_token_for(&team("T1")).await.unwrap(), "they were just read");
    stored.pass(15);
    list(&api).await.unwrap();
    stored.set(&[table(&[("T1", TOKEN)]), one("xoxb-2")]);
    stored.pass(299);
    assert_eq!(api.teams().await.unwrap(), [team("T1")]);
    stored.pass(1);
    assert_eq!(api.teams().await.unwrap(), [team("T1"), team("T2")]);
    list(&api).await.unwrap();
    assert_eq!(slack.call_count("auth.test"), 2, "a token that stays is not confirmed again");
    stored.set(&[]);
    stored.pass(15);
    api.reread_tokens().await;
    assert!(!api.has_tokens());
}

#[tokio::test]
async fn a_later_secret_replaces_an_earlier_one_and_a_dead_token_hides_no_other() {
    let slack = slack().await;
    for token in ["xoxb-late", "xoxb-2"] {
        slack.set_workspace(token, FakeWorkspace::new(if token == "xoxb-2" { "T2" } else { "T1" }));
    }
    for (secrets, team_1, team_2) in [
        (
            vec![table(&[("T1", TOKEN)]), table(&[("T1", "xoxb-late"), ("T2", "xoxb-2")])],
            "xoxb-late",
            "xoxb-2",
        ),
        (vec![table(&[("T1", TOKEN), ("T2", "xoxb-2")]), one("xoxb-late")], "xoxb-late", "xoxb-2"),
        (vec![one("xoxb-late"), table(&[("T1", TOKEN)]), one("xoxb-2"), one("xoxb-dead")], TOKEN, "xoxb-2"),
    ] {
        let api = slack.client(Tokens::fixed(secrets));
        assert_eq!(api.teams().await.unwrap(), [team("T1"), team("T2")]);
        for (id, token) in [("T1", team_1), ("T2", team_2)] {
            api.call(&team(id), Method::UsersList, &[]).await.unwrap();
            assert_eq!(slack.calls().last().unwrap().token, token);
        }
    }
}

#[tokio::test]
async fn calls_beyond_the_limit_wait() {
    let slack = slack().await;
    let api = slack.client(one_token(TOKEN));
    for _ in 0..20 {
        list(&api).await.unwrap();
    }
    let next = tokio::time::timeout(Duration::from_millis(200), list(&api)).await;
    assert!(next.is_err(), "the limit of tier 2 is used up");
    assert_eq!(slack.call_count("users.list"), 20);
}
