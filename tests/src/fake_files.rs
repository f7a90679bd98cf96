//! A Slack that knows every token and hands out every file: the id, again and again.

use serde_json::{Value, json};
use wiremock::matchers::{method, path_regex};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::corpus::{TEAM, event};

/// How often the id stands in a file.
const TIMES: usize = 100;

/// Starts one; it answers as long as it lives.
pub async fn slack() -> MockServer {
    let server = MockServer::start().await;
    let file = |request: &Request| {
        let id = request.url.path().rsplit('/').next().unwrap_or_default();
        ResponseTemplate::new(200).set_body_raw(content(id), "application/octet-stream")
    };
    Mock::given(method("GET")).and(path_regex("^/files/")).respond_with(file).mount(&server).await;
    // Whose token it is, and nothing to list.
    let workspace = json!({ "ok": true, "team_id": TEAM, "channels": [], "members": [], "emoji": {} });
    let workspace = ResponseTemplate::new(200).set_body_json(workspace);
    Mock::given(path_regex("^/api/")).respond_with(workspace).mount(&server).await;
    server
}

/// What it hands out for a file.
#[must_use]
pub fn content(id: &str) -> Vec<u8> {
    id.repeat(TIMES).into_bytes()
}

/// A message that shares a file of this Slack's.
#[must_use]
pub fn shared(slack: &MockServer, id: &str, ts: &str) -> Value {
    let url = format!("{}/files/{id}", slack.uri());
    let file = event::with(
        event::file(id, "U01"),
        [
            ("url_private", json!(url)),
            ("url_private_download", json!(url)),
            ("size", json!(content(id).len())),
        ],
    );
    event::with(event::message(ts, "U01", "look"), [("files", json!([file]))])
}
