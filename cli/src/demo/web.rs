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
use serde_json::{Value, json};

use super::definitions::{ChannelStep, DemoFile, EMOJI, PEOPLE, SHARES};
use super::messages::CHANNELS;
use super::workspace::DirectorySnapshot;
use super::{question, slack};

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
    /// Returns a Slack at `origin` that accepts one token and has these directories before and after the
    /// week.
    pub(super) fn new(
        token: String,
        origin: &str,
        before: &DirectorySnapshot,
        after: DirectorySnapshot,
    ) -> Arc<Self> {
        let mut state = SlackState::default();
        state.set_page_size(PAGE);
        state.set_workspace(&token, workspace(origin, before, &after));
        let played = Mutex::new(PlayedWorkspace { state, now_s: before.at_s });
        Arc::new(Self { token, after, played })
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
        Router::new()
            .route("/api/{method}", any(method))
            .route("/files-pri/{id}/{name}", get(file))
            .route("/avatars/{name}", get(picture))
            .route("/emoji/{name}", get(picture))
            .with_state(self)
    }

    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        bearer(headers) == Some(self.token.as_str())
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

/// Returns the workspace before the week. Every person and channel of the week can be looked up from the
/// start, even those that are listed later. A channel can be looked up only by its last id, so its earlier
/// ids are unknown.
fn workspace(origin: &str, before: &DirectorySnapshot, after: &DirectorySnapshot) -> FakeWorkspace {
    let unlisted = CHANNELS.iter().filter_map(|channel| {
        let id = channel.ids().last()?;
        // A channel that is deleted during the week can be looked up, but not joined.
        let is_deleted = channel.steps.iter().any(|(_, step)| *step == ChannelStep::Deleted);
        let name = channel.initial_name.unwrap_or_default();
        Some(json!({ "id": id, "name": name, "is_member": true, "is_archived": is_deleted }))
    });
    let replaced_ids = CHANNELS.iter().flat_map(|channel| {
        let last = channel.ids().last();
        channel.ids().filter(move |id| Some(*id) != last)
    });
    let mut workspace = FakeWorkspace {
        name: "Demo".to_owned(),
        url: origin.to_owned(),
        bot_user: slack::BOT.to_owned(),
        unlisted_channels: after.channels.iter().cloned().chain(unlisted).collect(),
        unlisted_members: after.people.clone(),
        files: SHARES
            .iter()
            .map(|(_, _, file)| (file.id.to_owned(), slack::file_info(file, origin)))
            .collect(),
        unknown: replaced_ids.map(str::to_owned).collect(),
        ..FakeWorkspace::new(slack::TEAM)
    };
    set_directory(&mut workspace, before);
    workspace
}

/// Replaces the listed channels, people and emoji of the workspace.
fn set_directory(workspace: &mut FakeWorkspace, directory: &DirectorySnapshot) {
    workspace.channels = directory.channels.clone();
    for channel in &mut workspace.channels {
        let is_member = channel["id"].as_str().is_some_and(|id| workspace.joined.contains(id));
        channel["is_member"] = is_member.into();
    }
    workspace.members = directory.people.clone();
    workspace.emoji =
        directory.emoji.iter().map(|(name, url)| (name.clone(), Value::from(url.as_str()))).collect();
}

fn shared_file(id: &str) -> Option<&'static DemoFile> {
    SHARES.iter().map(|(_, _, file)| file).find(|file| file.id == id)
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

/// Serves a file to requests with the token, and the login page to all others, as Slack does.
async fn file(
    State(server): State<Arc<DemoSlack>>,
    Path((id, _)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let prefix = format!("{}-", slack::TEAM);
    let Some(file) = id.strip_prefix(&prefix).and_then(shared_file) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match slack::hosted_bytes(file).filter(|_| server.is_authorized(&headers)) {
        Some(bytes) => ([(CONTENT_TYPE, file.mimetype)], bytes).into_response(),
        None => ([(CONTENT_TYPE, "text/html; charset=utf-8")], LOGIN_PAGE).into_response(),
    }
}

/// Serves a public picture. Rejects requests with a token, which must not be sent here.
async fn picture(Path(name): Path<String>, headers: HeaderMap) -> Response {
    if headers.contains_key(AUTHORIZATION) {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let avatars = PEOPLE.iter().map(|person| (person.name, person.avatar));
    let mut pictures = avatars.chain(EMOJI);
    match pictures.find(|(known, _)| name.strip_suffix(".png") == Some(*known)) {
        Some((_, bytes)) => ([(CONTENT_TYPE, "image/png")], bytes).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
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
