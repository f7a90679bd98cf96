//! A Slack of the demo's own: the Web API, files and pictures, as far as an archive asks for them.

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

use super::definitions::{ChannelStep, EMOJI, File, PEOPLE, SHARES};
use super::messages::CHANNELS;
use super::workspace::DirectorySnapshot;
use super::{question, slack};

/// Slack may return fewer than asked for: small pages show that all of them are read.
const PAGE: usize = 4;

/// What Slack answers to a program it does not know.
const LOGIN_PAGE: &str =
    "<!DOCTYPE html><html><head><title>Sign in</title></head><body>Sign in</body></html>";

/// The made-up Slack.
pub(super) struct DemoSlack {
    token: String,
    after: DirectorySnapshot,
    played: Mutex<PlayedWorkspace>,
}

/// What answers, and its clock.
struct PlayedWorkspace {
    state: SlackState,
    /// The time at which the directory says what it says.
    now_s: i64,
}

impl DemoSlack {
    /// A Slack that is reached at `origin`, knows one token, and has this directory before and after the week.
    pub(super) fn new(
        token: String,
        origin: &str,
        before: &DirectorySnapshot,
        after: DirectorySnapshot,
    ) -> Arc<Self> {
        let mut state = SlackState::default();
        state.pages_of(PAGE);
        state.set(&token, workspace(origin, before, &after));
        let played = Mutex::new(PlayedWorkspace { state, now_s: before.at_s });
        Arc::new(Self { token, after, played })
    }

    /// The week is over: that is what the directory says from now on.
    pub(super) fn end_the_week(&self) {
        let mut played = self.played();
        played.now_s = self.after.at_s;
        if let Some(workspace) = played.state.workspace(&self.token) {
            show(workspace, &self.after);
        }
    }

    /// How many channels the app has joined.
    pub(super) fn joined(&self) -> usize {
        self.played().state.workspace(&self.token).map_or(0, |workspace| workspace.joined.len())
    }

    /// What the app has answered in the channel where it was asked.
    pub(super) fn answer(&self) -> Option<String> {
        self.played().state.workspace(&self.token).and_then(|workspace| question::answer(workspace))
    }

    fn played(&self) -> MutexGuard<'_, PlayedWorkspace> {
        // What panics while it is held ends the demo anyway.
        self.played.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything it serves.
    pub(super) fn router(self: Arc<Self>) -> Router {
        Router::new()
            .route("/api/{method}", any(method))
            .route("/files-pri/{id}/{name}", get(file))
            .route("/avatars/{name}", get(picture))
            .route("/emoji/{name}", get(picture))
            .with_state(self)
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        bearer(headers) == Some(self.token.as_str())
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

/// The workspace before the week. Every person and channel of the week is known from the start, even those that are
/// listed later; a channel is known by the id it has in the end, so that an id that it left leads nowhere.
fn workspace(origin: &str, before: &DirectorySnapshot, after: &DirectorySnapshot) -> FakeWorkspace {
    let unlisted = CHANNELS.iter().filter_map(|channel| {
        let id = channel.ids().last()?;
        // A channel that is deleted during the week can be looked up, and not be joined.
        let is_deleted = channel.steps.iter().any(|(_, step)| *step == ChannelStep::Deleted);
        let name = channel.before.unwrap_or_default();
        Some(json!({ "id": id, "name": name, "is_member": true, "is_archived": is_deleted }))
    });
    let left = CHANNELS.iter().flat_map(|channel| {
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
            .map(|(_, _, file)| (file.id.to_owned(), slack::whole_file(file, origin)))
            .collect(),
        unknown: left.map(str::to_owned).collect(),
        ..FakeWorkspace::new(slack::TEAM)
    };
    show(&mut workspace, before);
    workspace
}

/// Lets the workspace list what the directory has.
fn show(workspace: &mut FakeWorkspace, directory: &DirectorySnapshot) {
    workspace.channels = directory.channels.clone();
    for channel in &mut workspace.channels {
        let is_member = channel["id"].as_str().is_some_and(|id| workspace.joined.contains(id));
        channel["is_member"] = is_member.into();
    }
    workspace.members = directory.people.clone();
    workspace.emoji =
        directory.emoji.iter().map(|(name, url)| (name.clone(), Value::from(url.as_str()))).collect();
}

fn shared_file(id: &str) -> Option<&'static File> {
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

/// Slack takes parameters from the address and from a form alike.
fn parameters(form: &str) -> BTreeMap<String, String> {
    let uri: Option<Uri> = format!("/?{form}").parse().ok();
    uri.and_then(|uri| Query::try_from_uri(&uri).ok()).map(|Query(parameters)| parameters).unwrap_or_default()
}

/// A file, for requests with the token; the login page for all others, as Slack does it.
async fn file(
    State(server): State<Arc<DemoSlack>>,
    Path((id, _)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let prefix = format!("{}-", slack::TEAM);
    let Some(file) = id.strip_prefix(&prefix).and_then(shared_file) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match slack::bytes(file).filter(|_| server.knows(&headers)) {
        Some(bytes) => ([(CONTENT_TYPE, file.mimetype)], bytes).into_response(),
        None => ([(CONTENT_TYPE, "text/html; charset=utf-8")], LOGIN_PAGE).into_response(),
    }
}

/// A picture that everybody may see. A token has no business here.
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
    fn parameters_come_from_the_address_and_from_a_form() {
        let parameters = parameters("limit=4&cursor=from%3A4%3D%3D&x=a+b");
        assert_eq!((parameters["cursor"].as_str(), parameters["x"].as_str()), ("from:4==", "a b"));
    }
}
