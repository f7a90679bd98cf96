//! A Slack of the demo's own: the Web API, files and pictures, as far as an archive asks for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::{Path, Query, RawQuery, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, DATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::definitions::{EMOJI, File, PEOPLE, SHARES};
use super::messages::CHANNELS;
use super::slack;
use super::workspace::DirectorySnapshot;

/// Slack may return fewer than asked for: small pages show that all of them are read.
const PAGE: usize = 4;

/// What Slack answers to a program it does not know.
const LOGIN_PAGE: &str =
    "<!DOCTYPE html><html><head><title>Sign in</title></head><body>Sign in</body></html>";

/// The made-up Slack.
pub(super) struct Server {
    token: String,
    origin: String,
    before: DirectorySnapshot,
    after: DirectorySnapshot,
    is_after: AtomicBool,
    joined: Mutex<BTreeSet<String>>,
}

impl Server {
    /// A Slack that is reached at `origin`, knows one token, and has this directory before and after the week.
    pub(super) fn new(
        token: String,
        origin: String,
        before: DirectorySnapshot,
        after: DirectorySnapshot,
    ) -> Arc<Self> {
        let (is_after, joined) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Self { token, origin, before, after, is_after, joined })
    }

    /// The week is over: that is what the directory says from now on.
    pub(super) fn end_the_week(&self) {
        self.is_after.store(true, Ordering::Relaxed);
    }

    fn directory(&self) -> &DirectorySnapshot {
        if self.is_after.load(Ordering::Relaxed) { &self.after } else { &self.before }
    }

    /// How many channels the app has joined.
    pub(super) fn joined(&self) -> usize {
        self.joined_now().len()
    }

    fn joined_now(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // What panics while it is held ends the demo anyway.
        self.joined.lock().unwrap_or_else(PoisonError::into_inner)
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
        let bearer =
            headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        bearer == Some(self.token.as_str())
    }

    fn call(&self, method: &str, parameters: &BTreeMap<String, String>) -> Value {
        let parameter = |name: &str| parameters.get(name).map(String::as_str).unwrap_or_default();
        match method {
            "auth.test" => json!({
                "ok": true, "url": self.origin, "team": "Demo", "team_id": slack::TEAM, "user": "annalist",
                "user_id": slack::BOT, "bot_id": "B0ANNALIST", "is_enterprise_install": false,
            }),
            "conversations.list" => page("channels", self.channels(), parameter("cursor")),
            "users.list" => page("members", self.directory().people.clone(), parameter("cursor")),
            "emoji.list" => {
                let emoji: BTreeMap<_, _> = self.directory().emoji.iter().cloned().collect();
                json!({ "ok": true, "emoji": emoji })
            }
            "conversations.join" => self.join(parameter("channel")),
            "team.info" => json!({ "ok": true, "team": { "id": slack::TEAM, "name": "Demo" } }),
            "users.info" => self.person(parameter("user")),
            "bots.info" => refusal("bot_not_found"),
            "conversations.info" => match self.channel(parameter("channel")) {
                Some(found) => json!({ "ok": true, "channel": found }),
                None => refusal("channel_not_found"),
            },
            "files.info" => match shared_file(parameter("file")) {
                Some(file) => json!({ "ok": true, "file": slack::whole_file(file, &self.origin) }),
                None => refusal("file_not_found"),
            },
            _ => refusal("unknown_method"),
        }
    }

    fn channels(&self) -> Vec<Value> {
        let mut channels = self.directory().channels.clone();
        let joined = self.joined_now();
        for channel in &mut channels {
            channel["is_member"] = channel["id"].as_str().is_some_and(|id| joined.contains(id)).into();
        }
        channels
    }

    /// Every person of the week, even those who join later: this Slack knows them from the start.
    fn person(&self, user: &str) -> Value {
        let all = self.directory().people.iter().chain(&self.after.people);
        match all.into_iter().find(|listed| listed["id"] == user) {
            Some(person) => json!({ "ok": true, "user": person }),
            None => refusal("user_not_found"),
        }
    }

    /// A channel by the id it has in the end: private ones too, which are in no list. An id that it left leads nowhere.
    fn channel(&self, channel: &str) -> Option<Value> {
        let mut known = CHANNELS.iter();
        if known.any(|known| known.ids().any(|id| id == channel) && known.ids().last() != Some(channel)) {
            return None;
        }
        let listed = self.channels().into_iter().chain(self.after.channels.iter().cloned());
        let mut listed = listed.filter(|listed| listed["id"] == channel);
        listed.next().or_else(|| {
            let made = CHANNELS.iter().find(|known| known.ids().any(|id| id == channel))?;
            Some(json!({ "id": channel, "name": made.before.unwrap_or_default(), "is_member": true }))
        })
    }

    /// A channel that is created during the week can be joined at once.
    fn join(&self, channel: &str) -> Value {
        let all = self.directory().channels.iter().chain(&self.after.channels);
        match all.into_iter().find(|listed| listed["id"] == channel) {
            None => refusal("channel_not_found"),
            Some(listed) if listed["is_archived"] == true => refusal("is_archived"),
            Some(listed) => {
                self.joined_now().insert(channel.to_owned());
                json!({ "ok": true, "channel": listed })
            }
        }
    }
}

fn refusal(error: &str) -> Value {
    json!({ "ok": false, "error": error })
}

/// One page of a list. The cursor is opaque to the client, and has to be escaped in a URL.
fn page(name: &str, all: Vec<Value>, cursor: &str) -> Value {
    let from: usize = match cursor {
        "" => 0,
        _ => match cursor.strip_prefix("from:").and_then(|rest| rest.strip_suffix("==")?.parse().ok()) {
            Some(from) => from,
            None => return refusal("invalid_cursor"),
        },
    };
    let end = all.len().min(from.saturating_add(PAGE));
    let next = if end < all.len() { format!("from:{end}==") } else { String::new() };
    json!({
        "ok": true, name: all.get(from..end).unwrap_or_default(),
        "response_metadata": { "next_cursor": next },
    })
}

fn shared_file(id: &str) -> Option<&'static File> {
    SHARES.iter().map(|(_, _, file)| file).find(|file| file.id == id)
}

async fn method(
    State(server): State<Arc<Server>>,
    Path(method): Path<String>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Response {
    let answer = if server.knows(&headers) {
        let body = std::str::from_utf8(&body).unwrap_or_default();
        server.call(&method, &parameters(&format!("{}&{body}", query.unwrap_or_default())))
    } else {
        refusal("invalid_auth")
    };
    let mut answer =
        ([(CONTENT_TYPE, "application/json; charset=utf-8")], answer.to_string()).into_response();
    answer.headers_mut().extend(server.date().map(|date| (DATE, date)));
    answer
}

/// Slack takes parameters from the address and from a form alike.
fn parameters(form: &str) -> BTreeMap<String, String> {
    let uri: Option<Uri> = format!("/?{form}").parse().ok();
    uri.and_then(|uri| Query::try_from_uri(&uri).ok()).map(|Query(parameters)| parameters).unwrap_or_default()
}

impl Server {
    /// Slack's clock: the time at which the directory says what it says.
    fn date(&self) -> Option<HeaderValue> {
        let time = Timestamp::from_second(self.directory().at_s).ok()?;
        HeaderValue::from_str(&time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()).ok()
    }
}

/// A file, for requests with the token; the login page for all others, as Slack does it.
async fn file(
    State(server): State<Arc<Server>>,
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

    fn server() -> Arc<Server> {
        let channels = (0..9).map(|n| json!({ "id": format!("C{n}"), "is_archived": n == 3 })).collect();
        let directory = DirectorySnapshot { channels, ..DirectorySnapshot::default() };
        Server::new("a token".into(), "http://127.0.0.1:1".into(), directory, DirectorySnapshot::default())
    }

    fn ids(answer: &Value) -> Vec<&str> {
        answer["channels"].as_array().unwrap().iter().map(|channel| channel["id"].as_str().unwrap()).collect()
    }

    #[test]
    fn every_channel_is_on_one_page() {
        let server = server();
        let (mut seen, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let answer = server.call("conversations.list", &BTreeMap::from([("cursor".into(), cursor)]));
            seen.extend(ids(&answer).into_iter().map(str::to_owned));
            pages += 1;
            cursor = answer["response_metadata"]["next_cursor"].as_str().unwrap().to_owned();
            if cursor.is_empty() {
                break;
            }
        }
        assert_eq!((seen.len(), pages), (9, 3));
        let wrong = server.call("conversations.list", &BTreeMap::from([("cursor".into(), "x".into())]));
        assert_eq!(wrong["error"], "invalid_cursor");
    }

    #[test]
    fn a_channel_that_was_joined_says_so_and_an_archived_one_cannot_be() {
        let server = server();
        let join =
            |id: &str| server.call("conversations.join", &BTreeMap::from([("channel".into(), id.into())]));
        assert_eq!(join("C1")["ok"], true);
        assert_eq!(join("C3")["error"], "is_archived");
        assert_eq!(join("C77")["error"], "channel_not_found");
        assert_eq!(server.joined(), 1);
        assert_eq!(server.channels()[1]["is_member"], true);
        assert_eq!(server.channels()[2]["is_member"], false);
    }

    #[test]
    fn parameters_come_from_the_address_and_from_a_form() {
        let parameters = parameters("limit=4&cursor=from%3A4%3D%3D&x=a+b");
        assert_eq!((parameters["cursor"].as_str(), parameters["x"].as_str()), ("from:4==", "a b"));
    }
}
