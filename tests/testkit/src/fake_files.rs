//! A mock Slack that accepts every token, person and channel, and serves every file: its content is the id,
//! repeated.

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
    let team = ResponseTemplate::new(200).set_body_json(json!({ "ok": true, "team": { "id": TEAM } }));
    Mock::given(path("/api/team.info")).respond_with(team).mount(&server).await;
    // `auth.test` gets the workspace, and list calls get empty lists.
    let workspace = json!({ "ok": true, "team_id": TEAM, "channels": [], "members": [], "emoji": {} });
    let workspace = ResponseTemplate::new(200).set_body_json(workspace);
    Mock::given(path_regex("^/api/")).respond_with(workspace).mount(&server).await;
    server
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
