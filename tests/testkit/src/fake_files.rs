//! A mock Slack that accepts every token, person and channel, and serves every file: its content is the id,
//! repeated. A token `xoxb-T…` is of the workspace that it names, and every other one of [`TEAM`].

use serde_json::{Value, json};
use wiremock::matchers::{method, path, path_regex};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::corpus::{TEAM, event};

/// How often a file repeats its id.
const REPETITIONS: usize = 100;

/// Starts a mock Slack, which answers until it is dropped.
pub async fn slack() -> MockServer {
    let server = MockServer::start().await;
    let file = |request: &Request| {
        let id = request.url.path().rsplit('/').next().unwrap_or_default();
        ResponseTemplate::new(200).set_body_raw(content(id), "application/octet-stream")
    };
    Mock::given(method("GET")).and(path_regex("^/files/")).respond_with(file).mount(&server).await;
    // Every requested id exists.
    for (method, parameter) in
        [("users.info", "user"), ("bots.info", "bot"), ("conversations.info", "channel")]
    {
        let exists = move |request: &Request| {
            let form = String::from_utf8_lossy(&request.body).into_owned();
            let id = form.strip_prefix(parameter).and_then(|rest| rest.strip_prefix('=')).unwrap_or_default();
            ResponseTemplate::new(200).set_body_json(json!({ "ok": true, parameter: { "id": id } }))
        };
        Mock::given(path(format!("/api/{method}"))).respond_with(exists).mount(&server).await;
    }
    // `auth.test` and `team.info` get the workspace, and list calls get empty lists.
    let workspace = |request: &Request| {
        let team = team_of(request);
        let lists = json!({ "ok": true, "team_id": team, "channels": [], "members": [], "emoji": {}, "team": { "id": team } });
        ResponseTemplate::new(200).set_body_json(lists)
    };
    Mock::given(path_regex("^/api/")).respond_with(workspace).mount(&server).await;
    server
}

fn team_of(request: &Request) -> &str {
    let token = request.headers.get("authorization").and_then(|value| value.to_str().ok());
    let team = token.and_then(|token| token.strip_prefix("Bearer xoxb-"));
    team.filter(|team| team.starts_with('T')).unwrap_or(TEAM)
}

/// The content of a file.
pub fn content(id: &str) -> Vec<u8> {
    id.repeat(REPETITIONS).into_bytes()
}

/// A message that shares a file of this mock Slack.
pub fn message_with_file(slack: &MockServer, id: &str, ts: &str) -> Value {
    let url = format!("{}/files/{id}", slack.uri());
    let file = event::with_fields(
        event::file(id, "U01"),
        [
            ("url_private", json!(url)),
            ("url_private_download", json!(url)),
            ("size", json!(content(id).len())),
        ],
    );
    event::with_fields(event::message(ts, "U01", "look"), [("files", json!([file]))])
}
