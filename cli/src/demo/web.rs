//! The demo's own Slack: the parts of the Web API that an archive uses, files and pictures.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::{Path, Query, RawQuery, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use bytes::Bytes;
use fake_slack::{FakeWorkspace, SlackState};
use serde_json::json;

use super::question;
use super::week::{BOT, DirectorySnapshot, SERVED, TEAM, WeekHead};

/// Slack may return fewer items than requested. Small pages show that the app reads all pages.
const PAGE: usize = 4;

/// Slack's response to a file request without a valid token.
const LOGIN_PAGE: &str =
    "<!DOCTYPE html><html><head><title>Sign in</title></head><body>Sign in</body></html>";

/// The made-up Slack.
pub(super) struct DemoSlack {
    token: String,
    after: DirectorySnapshot,
    played: Mutex<PlayedWorkspace>,
}

/// The state of the simulated Slack, and its clock.
struct PlayedWorkspace {
    state: SlackState,
    /// The time of the current directory snapshot.
    now_s: i64,
}

impl DemoSlack {
    /// Returns a Slack at `origin` that accepts one token.
    pub(super) fn new(token: String, origin: &str, week: &WeekHead) -> Arc<Self> {
        let mut state = SlackState::default();
        state.set_page_size(PAGE);
        state.set_workspace(&token, workspace(origin, week));
        let played = Mutex::new(PlayedWorkspace { state, now_s: week.before.at_s });
        Arc::new(Self { token, after: week.after.clone(), played })
    }

    /// Ends the week: from now on, Slack lists the later directory.
    pub(super) fn end_the_week(&self) {
        let mut played = self.played();
        played.now_s = self.after.at_s;
        if let Some(workspace) = played.state.workspace(&self.token) {
            set_directory(workspace, &self.after);
        }
    }

    /// Returns the number of channels that the app has joined.
    pub(super) fn joined(&self) -> usize {
        self.played().state.workspace(&self.token).map_or(0, |workspace| workspace.joined.len())
    }

    /// Returns the app's answer in the channel of the question.
    pub(super) fn answer(&self) -> Option<String> {
        self.played().state.workspace(&self.token).and_then(|workspace| question::answer(workspace))
    }

    fn played(&self) -> MutexGuard<'_, PlayedWorkspace> {
        // A panic while the lock is held ends the demo anyway.
        self.played.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the router for the Web API, files and pictures.
    pub(super) fn router(self: Arc<Self>) -> Router {
        Router::new().route("/api/{method}", any(method)).fallback(get(served)).with_state(self)
    }

    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        bearer(headers) == Some(self.token.as_str())
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

/// Returns the workspace before the week. Every person and channel of the week can be looked up from the
/// start, even those that are listed later.
fn workspace(origin: &str, week: &WeekHead) -> FakeWorkspace {
    let mut workspace = FakeWorkspace {
        name: "Demo".to_owned(),
        url: origin.to_owned(),
        bot_user: BOT.to_owned(),
        unlisted_channels: week.unlisted_channels.clone(),
        unlisted_members: week.after.people.clone(),
        files: week.files.clone().into_iter().collect(),
        unknown: week.unknown.iter().cloned().collect(),
        ..FakeWorkspace::new(TEAM)
    };
    set_directory(&mut workspace, &week.before);
    workspace
}

/// Replaces the listed channels, people and emoji of the workspace.
fn set_directory(workspace: &mut FakeWorkspace, directory: &DirectorySnapshot) {
    workspace.channels = directory.channels.clone();
    for channel in &mut workspace.channels {
        let is_member = channel["id"].as_str().is_some_and(|id| workspace.joined.contains(id));
        channel["is_member"] = is_member.into();
    }
    let app = json!({ "id": BOT, "team_id": TEAM, "name": "annalist", "is_bot": true,
        "profile": { "real_name": "Annalist", "display_name": "" } });
    workspace.members = directory.people.iter().cloned().chain([app]).collect();
    workspace.emoji = directory.emoji.clone().into_iter().collect();
}

async fn method(
    State(server): State<Arc<DemoSlack>>,
    Path(method): Path<String>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Response {
    let body = std::str::from_utf8(&body).unwrap_or_default();
    let parameters = parameters(&format!("{}&{body}", query.unwrap_or_default()));
    let answer = {
        let PlayedWorkspace { state, now_s } = &mut *server.played();
        state.answer(&method, bearer(&headers).unwrap_or_default(), parameters, *now_s * 1_000)
    };
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers =
        answer.headers.iter().filter_map(|(name, value)| Some((name.parse().ok()?, value.parse().ok()?)));
    (status, headers.collect::<HeaderMap>(), answer.body).into_response()
}

/// Parses parameters. Slack accepts them in the query string and in a form.
fn parameters(form: &str) -> BTreeMap<String, String> {
    let uri: Option<Uri> = format!("/?{form}").parse().ok();
    uri.and_then(|uri| Query::try_from_uri(&uri).ok()).map(|Query(parameters)| parameters).unwrap_or_default()
}

/// Serves a picture to everyone, except to requests with the token, which must not be sent there; and a file to
/// requests with the token, and the login page to all others, as Slack does.
async fn served(State(server): State<Arc<DemoSlack>>, uri: Uri, headers: HeaderMap) -> Response {
    let found = SERVED.iter().find(|(path, _, _)| *path == uri.path());
    match (uri.path().starts_with("/files-pri/"), found) {
        (true, Some((_, kind, bytes))) if server.is_authorized(&headers) => {
            ([(CONTENT_TYPE, *kind)], *bytes).into_response()
        }
        (true, _) => ([(CONTENT_TYPE, "text/html; charset=utf-8")], LOGIN_PAGE).into_response(),
        (false, _) if headers.contains_key(AUTHORIZATION) => StatusCode::BAD_REQUEST.into_response(),
        (false, Some((_, kind, bytes))) => ([(CONTENT_TYPE, *kind)], *bytes).into_response(),
        (false, None) => StatusCode::NOT_FOUND.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_strings_and_forms_are_parsed_alike() {
        let parameters = parameters("limit=4&cursor=from%3A4%3D%3D&x=a+b");
        assert_eq!((parameters["cursor"].as_str(), parameters["x"].as_str()), ("from:4==", "a b"));
    }
}
