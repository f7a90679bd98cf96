//! Slack's Web API, played on this machine: workspaces by their tokens, pages, joins, and whatever should go wrong.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use slack::ids::TeamId;
use slack_api::{ApiUrl, Token, Tokens, WebApi};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// The second at which its clock starts.
pub const START_S: i64 = 1_700_000_000;

/// A Slack that answers as long as this lives.
pub struct FakeSlack {
    server: MockServer,
    state: Arc<Mutex<State>>,
}

/// One workspace.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// Its id.
    pub team: String,
    /// What `conversations.list` lists.
    pub channels: Vec<Value>,
    /// What `users.list` lists.
    pub members: Vec<Value>,
    /// Bots that `bots.info` knows, by their ids.
    pub bots: BTreeSet<String>,
    /// What `emoji.list` lists.
    pub emoji: Value,
    /// Channels that were joined.
    pub joined: BTreeSet<String>,
    /// What its token may do; where it is empty, no answer says so.
    pub scopes: Vec<String>,
}

/// One call that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Which method.
    pub method: String,
    /// The bearer token; empty where there was none.
    pub token: String,
    /// Its form.
    pub parameters: BTreeMap<String, String>,
}

#[derive(Default)]
struct State {
    now_s: i64,
    page: usize,
    workspaces: BTreeMap<String, Workspace>,
    answers: BTreeMap<String, VecDeque<ResponseTemplate>>,
    refusals: BTreeMap<String, Value>,
    away: bool,
    calls: Vec<Call>,
}

impl Workspace {
    /// An empty workspace.
    #[must_use]
    pub fn new(team: &str) -> Self {
        Self {
            team: team.to_owned(),
            channels: Vec::new(),
            members: Vec::new(),
            bots: BTreeSet::new(),
            emoji: json!({}),
            joined: BTreeSet::new(),
            scopes: Vec::new(),
        }
    }

    /// With `channels` channels and `people` people.
    #[must_use]
    pub fn of(team: &str, channels: usize, people: usize) -> Self {
        let channels = (0..channels).map(|n| channel(&format!("C{n:05}"), &format!("channel-{n}"))).collect();
        let members = (0..people).map(|n| person(&format!("U{n:05}"), &format!("person-{n}"))).collect();
        Self { channels, members, ..Self::new(team) }
    }

    /// With six channels: the app is in two, could join three, and one is archived.
    #[must_use]
    pub fn half_joined(team: &str) -> Self {
        let mut workspace = Self::of(team, 6, 0);
        for channel in &mut workspace.channels[2..] {
            channel["is_member"] = false.into();
        }
        workspace.channels[5]["is_archived"] = true.into();
        workspace
    }
}

/// A public channel as Slack lists it; the app is in it.
#[must_use]
pub fn channel(id: &str, name: &str) -> Value {
    json!({
        "id": id, "name": name, "is_channel": true, "is_group": false, "is_im": false, "is_mpim": false,
        "is_private": false, "created": 1_600_000_000, "is_archived": false, "is_general": false, "unlinked": 0,
        "name_normalized": name, "is_shared": false, "is_org_shared": false, "is_pending_ext_shared": false,
        "pending_shared": [], "context_team_id": "T1", "updated": 1_600_000_000_000_u64, "parent_conversation": null,
        "creator": "U00000", "is_ext_shared": false, "shared_team_ids": ["T1"], "is_member": true,
        "topic": { "value": "", "creator": "", "last_set": 0 },
        "purpose": { "value": format!("for {name}"), "creator": "U00000", "last_set": 1_600_000_000 },
        "previous_names": [], "num_members": 3,
    })
}

/// A person as Slack lists them.
#[must_use]
pub fn person(id: &str, name: &str) -> Value {
    json!({
        "id": id, "team_id": "T1", "name": name, "deleted": false, "color": "9f69e7", "real_name": format!("Real {name}"),
        "tz": "Europe/Berlin", "tz_label": "Central European Time", "tz_offset": 3600, "is_admin": false,
        "is_owner": false, "is_bot": false, "is_app_user": false, "updated": 1_600_000_000, "is_email_confirmed": true,
        "profile": {
            "title": "", "phone": "", "skype": "", "real_name": format!("Real {name}"), "display_name": name,
            "status_text": "", "status_emoji": "", "avatar_hash": "0123", "team": "T1",
            "image_24": format!("https://avatars.slack-edge.com/2024-01-01/{id}_24.png"),
            "image_192": format!("https://avatars.slack-edge.com/2024-01-01/{id}_192.png"),
        },
    })
}

/// A refusal as Slack words it.
#[must_use]
pub fn refusal(error: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({ "ok": false, "error": error }))
}

impl FakeSlack {
    /// A Slack that knows no token yet.
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(State { now_s: START_S, page: 1_000, ..State::default() }));
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(Player(Arc::clone(&state))).mount(&server).await;
        Self { server, state }
    }

    /// The base for `SLACK_API_URL`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/api/", self.server.uri())
    }

    /// A client with these tokens.
    ///
    /// # Panics
    /// Never: its own address is a base.
    #[must_use]
    pub fn client(&self, tokens: Tokens) -> Arc<WebApi> {
        let url: ApiUrl = self.url().parse().expect("a loopback address is a base");
        Arc::new(WebApi::new(url, tokens))
    }

    /// A workspace behind a token; it replaces what was there.
    pub fn set(&self, token: &str, workspace: Workspace) {
        self.state().workspaces.insert(token.to_owned(), workspace);
    }

    /// Changes a workspace.
    ///
    /// # Panics
    /// If no workspace has this token.
    pub fn change(&self, token: &str, change: impl FnOnce(&mut Workspace)) {
        change(self.state().workspaces.get_mut(token).expect("the workspace was set"));
    }

    /// Pages have at most this many entries, whatever is asked for.
    pub fn pages_of(&self, entries: usize) {
        self.state().page = entries;
    }

    /// Moves its clock.
    pub fn at(&self, now_s: i64) {
        self.state().now_s = now_s;
    }

    /// The next answers of a method; after them it answers as it should.
    pub fn next(&self, method: &str, answers: impl IntoIterator<Item = ResponseTemplate>) {
        self.state().answers.entry(method.to_owned()).or_default().extend(answers);
    }

    /// From now on a method refuses: the whole answer.
    pub fn refuse(&self, method: &str, answer: Value) {
        self.state().refusals.insert(method.to_owned(), answer);
    }

    /// From now on it answers nothing but 503, or answers again.
    pub fn away(&self, away: bool) {
        self.state().away = away;
    }

    /// Every call so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// How often a method was called.
    #[must_use]
    pub fn called(&self, method: &str) -> usize {
        self.state().calls.iter().filter(|call| call.method == method).count()
    }

    /// The channels that were joined with this token.
    #[must_use]
    pub fn joined(&self, token: &str) -> Vec<String> {
        let state = self.state();
        let joined = state.workspaces.get(token).map(|workspace| &workspace.joined);
        joined.into_iter().flatten().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One token, for any workspace.
///
/// # Panics
/// If it is not a token.
#[must_use]
pub fn one_token(token: &str) -> Tokens {
    Tokens::one(Token::parse(token).expect("a token of a test"))
}

/// A token for each workspace.
///
/// # Panics
/// If something is not what it should be.
#[must_use]
pub fn tokens(entries: &[(&str, &str)]) -> Tokens {
    let entry = |(team, token): &(&str, &str)| {
        let team = TeamId::parse(team).expect("an id of a test");
        (team, Token::parse(token).expect("a token of a test"))
    };
    let table = Arc::new(entries.iter().map(entry).collect());
    Tokens::per_team(move || Arc::clone(&table))
}

struct Player(Arc<Mutex<State>>);

impl Respond for Player {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let call = Call::read(request);
        state.calls.push(call.clone());
        let date = jiff::Timestamp::from_second(state.now_s).unwrap_or_default();
        let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        if state.away {
            return ResponseTemplate::new(503);
        }
        let planned = state.answers.get_mut(&call.method).and_then(VecDeque::pop_front);
        let answer = planned.unwrap_or_else(|| ResponseTemplate::new(200).set_body_json(state.answer(&call)));
        let answer = answer.insert_header("date", date.as_str());
        match state.workspaces.get(&call.token).map(|workspace| workspace.scopes.join(",")) {
            Some(scopes) if !scopes.is_empty() => answer.insert_header("x-oauth-scopes", scopes.as_str()),
            Some(_) | None => answer,
        }
    }
}

impl Call {
    fn read(request: &Request) -> Self {
        let header = request.headers.get("authorization").and_then(|value| value.to_str().ok());
        let mut form = request.url.clone();
        form.set_query(Some(&String::from_utf8_lossy(&request.body)));
        Self {
            method: request.url.path().trim_start_matches("/api/").to_owned(),
            token: header.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default().to_owned(),
            parameters: form
                .query_pairs()
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        }
    }
}

impl State {
    fn answer(&mut self, call: &Call) -> Value {
        let parameter = |name: &str| call.parameters.get(name).map(String::as_str).unwrap_or_default();
        let Some(workspace) = self.workspaces.get_mut(&call.token) else {
            return json!({ "ok": false, "error": "invalid_auth" });
        };
        if let Some(refusal) = self.refusals.get(&call.method) {
            return refusal.clone();
        }
        match call.method.as_str() {
            "auth.test" => json!({
                "ok": true, "url": "https://example.slack.com/", "team": format!("Workspace {}", workspace.team),
                "user": "annalist", "team_id": workspace.team, "user_id": "U0BOT", "bot_id": "B0BOT",
                "is_enterprise_install": false,
            }),
            "conversations.list" => page("channels", &workspace.channels, self.page, parameter("cursor")),
            "team.info" => json!({
                "ok": true, "team": { "id": workspace.team, "name": format!("Workspace {}", workspace.team) },
            }),
            "users.info" => one("user", &workspace.members, parameter("user")),
            "bots.info" if workspace.bots.contains(parameter("bot")) => {
                json!({ "ok": true, "bot": { "id": parameter("bot"), "name": "a bot", "deleted": false } })
            }
            "bots.info" => json!({ "ok": false, "error": "bot_not_found" }),
            "conversations.info" => one("channel", &workspace.channels, parameter("channel")),
            "users.list" => page("members", &workspace.members, self.page, parameter("cursor")),
            "emoji.list" => json!({ "ok": true, "emoji": workspace.emoji }),
            "conversations.join" => {
                let channel = parameter("channel").to_owned();
                match workspace.channels.iter_mut().find(|listed| listed["id"] == channel.as_str()) {
                    None => json!({ "ok": false, "error": "channel_not_found" }),
                    Some(listed) if listed["is_archived"] == true => {
                        json!({ "ok": false, "error": "is_archived" })
                    }
                    Some(listed) => {
                        listed["is_member"] = true.into();
                        workspace.joined.insert(channel);
                        json!({ "ok": true, "channel": listed })
                    }
                }
            }
            _ => json!({ "ok": false, "error": "unknown_method" }),
        }
    }
}

/// What `users.info` and `conversations.info` answer.
fn one(kind: &str, all: &[Value], id: &str) -> Value {
    match all.iter().find(|listed| listed["id"] == id) {
        Some(found) => json!({ "ok": true, kind: found }),
        None => json!({ "ok": false, "error": format!("{kind}_not_found") }),
    }
}

fn page(name: &str, all: &[Value], most: usize, cursor: &str) -> Value {
    let from: usize = cursor.strip_prefix("from:").and_then(|rest| rest.parse().ok()).unwrap_or(0);
    let end = all.len().min(from + most);
    let next = if end < all.len() { format!("from:{end}") } else { String::new() };
    json!({ "ok": true, name: &all[from.min(end)..end], "response_metadata": { "next_cursor": next } })
}
