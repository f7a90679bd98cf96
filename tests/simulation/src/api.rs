//! Slack's other side: its Web API, its files and its pictures, played without a socket.

use std::collections::BTreeSet;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, DATE, LOCATION, RETRY_AFTER};
use serde_json::{Value, json};
use slack_api::transport::{Body, HeaderMap, SlackRequest, SlackResponse, StatusCode, Transport};

use super::schedule::Steps;
use super::workload::{self, INVENTED_CHANNEL, INVENTED_PERSON, PRIVATE_CHANNEL};
use super::world::{Invariant, Kind, World, lock};
use testkit::corpus::TEAM;
use testkit::fake_slack::{channel, person};

/// Where a token may go: Slack itself, and where it keeps files.
const TRUSTED: [&str; 3] = ["slack.com", "files.slack.com", "files-origin.slack.com"];

/// Channels that only the directory lists.
pub(super) const LISTED_CHANNELS: usize = 3;

/// People that only the directory lists.
pub(super) const LISTED_PEOPLE: usize = 3;

/// What Slack knows, regardless of who asks.
#[derive(Default)]
pub(super) struct Directory {
    joined: Mutex<BTreeSet<String>>,
    /// Ids that channels had.
    left: Mutex<BTreeSet<String>>,
}

impl Directory {
    /// Channels that were joined.
    pub(super) fn joined(&self) -> BTreeSet<String> {
        lock(&self.joined).clone()
    }

    /// From now on a channel has another id than this.
    pub(super) fn leave(&self, id: &str) {
        lock(&self.left).insert(id.to_owned());
    }
}

/// Slack as one process of the fleet sees it.
pub(super) struct PlayedSlack {
    pub(super) world: Arc<World>,
    pub(super) steps: Steps,
    pub(super) directory: Arc<Directory>,
}

impl fmt::Debug for PlayedSlack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlayedSlack")
    }
}

/// What is played back.
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    /// The connection is cut after half of it.
    cut: bool,
}

impl Reply {
    fn new(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers =
            HeaderMap::from_iter([(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type))]);
        Self { status, headers, body: body.into(), cut: false }
    }

    fn json(value: &Value) -> Self {
        Self::new(200, "application/json; charset=utf-8", value.to_string())
    }

    fn with(mut self, name: hyper::header::HeaderName, value: &str) -> Self {
        if let Ok(value) = value.parse() {
            self.headers.insert(name, value);
        }
        self
    }
}

#[async_trait]
impl Transport for PlayedSlack {
    async fn carry(&self, question: SlackRequest<'_>) -> Result<SlackResponse, String> {
        self.steps.step().await;
        let host = question.url.host_str().unwrap_or_default().to_owned();
        if question.token.is_some() && !TRUSTED.contains(&host.as_str()) {
            self.world.broke(Invariant::Secret, format!("the token goes to {host}"));
        }
        let what = format!("{host}{}", question.url.path());
        let time_limit = question.time_limit;
        let reply = match time_limit {
            Some(time_limit) => tokio::time::timeout(time_limit, self.reply(&question, &host, &what)).await,
            None => Ok(self.reply(&question, &host, &what).await),
        };
        let reply = reply.map_err(|_| "no answer in time".to_owned())??;
        self.steps.hold_up().await;
        self.steps.life.go_on().await;
        let size_bytes = Some(reply.body.len() as u64);
        let (whole, cut) = (reply.body, reply.cut);
        let half = if cut { whole.slice(..whole.len() / 2) } else { whole };
        let body = Box::new(PlayedBody { rest: Some(half), cut });
        Ok(SlackResponse { status: reply.status, headers: reply.headers, size_bytes, body })
    }
}

impl PlayedSlack {
    async fn reply(&self, question: &SlackRequest<'_>, host: &str, what: &str) -> Result<Reply, String> {
        let (world, who) = (&self.world, self.steps.life.name.as_str());
        tokio::time::sleep(world.millis(5..120)).await;
        world.note(who, || format!("asks {what}"));
        if world.strikes(Kind::Unreachable) {
            world.fault(Kind::Unreachable, who, || what.to_owned());
            return match world.below(4) {
                0 => pending().await,
                1 => Ok(Reply::new(503, "text/html", "<html>down for maintenance</html>")),
                2 => Ok(Reply::json(&json!({ "ok": false, "error": "internal_error" }))),
                _ => Err("connection reset".to_owned()),
            };
        }
        if world.strikes(Kind::RateLimited) {
            let seconds = world.below(90) + 1;
            world.fault(Kind::RateLimited, who, || format!("{what}: {seconds} s"));
            return Ok(Reply::new(429, "text/plain", "").with(RETRY_AFTER, &seconds.to_string()));
        }
        let revoked = world.is_in(Kind::TokenRevoked) && question.token.is_some();
        if revoked {
            world.fault(Kind::TokenRevoked, who, || what.to_owned());
        }
        let mut reply = match (host, revoked) {
            ("slack.com", true) => Reply::json(&json!({ "ok": false, "error": "token_revoked" })),
            (_, true) => Reply::new(302, "text/html", "").with(LOCATION, "https://slack.com/?redir=login"),
            ("slack.com", false) => self.method(question),
            (_, false) => workload::download(host, question.url.path()).map_or_else(
                |status| Reply::new(status, "text/plain", ""),
                |(kind, body)| Reply::new(200, kind, body),
            ),
        };
        reply = reply.with(DATE, &self.date());
        // An answer to a request without a token has no length or shape to be checked against.
        if question.token.is_some() && world.strikes(Kind::GarbageAnswer) {
            world.fault(Kind::GarbageAnswer, who, || what.to_owned());
            self.garble(&mut reply);
        }
        Ok(reply)
    }

    fn garble(&self, reply: &mut Reply) {
        match self.world.below(5) {
            0 => reply.cut = true,
            1 => reply.body = reply.body.slice(..reply.body.len() / 2),
            2 => reply.body = Bytes::from_static(b"\xff\xfe\x00"),
            3 => reply.body = Bytes::from_static(b"[1, 2, 3]"),
            _ => {
                reply.body = Bytes::from_static(
                    br#"{"ok": true, "channels": 7, "members": {}, "emoji": [], "file": "", "team_id": {}}"#,
                );
            }
        }
    }

    fn date(&self) -> String {
        let now = jiff::Timestamp::from_millisecond(self.world.true_now().0).unwrap_or_default();
        now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }

    fn method(&self, question: &SlackRequest<'_>) -> Reply {
        let method = question.url.path().trim_start_matches("/api/");
        let form = question.form.unwrap_or_default();
        let parameter =
            |name: &str| form.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| *value);
        Reply::json(&match method {
            "auth.test" => json!({ "ok": true, "team_id": TEAM, "team": "Simulated", "user": "annalist" }),
            "conversations.list" => {
                let joined = self.directory.joined();
                let listed = (0..LISTED_CHANNELS).map(|n| {
                    let mut listed = channel(&listed_channel(n), &format!("listed-{n}"));
                    listed["is_member"] = joined.contains(&listed_channel(n)).into();
                    listed
                });
                page("channels", listed.collect(), parameter("cursor"))
            }
            "users.list" => {
                let listed = (0..LISTED_PEOPLE).map(|n| person(&listed_person(n), &format!("person-{n}")));
                page("members", listed.collect(), parameter("cursor"))
            }
            "emoji.list" => {
                json!({ "ok": true, "emoji": { "listed": "https://emoji.slack-edge.com/listed.png" } })
            }
            "conversations.join" => {
                lock(&self.directory.joined).insert(parameter("channel").to_owned());
                json!({ "ok": true, "channel": { "id": parameter("channel") } })
            }
            "team.info" => json!({ "ok": true, "team": { "id": TEAM } }),
            "users.info" if parameter("user") == INVENTED_PERSON => {
                json!({ "ok": false, "error": "user_not_found" })
            }
            "conversations.info"
                if parameter("channel") == INVENTED_CHANNEL
                    || lock(&self.directory.left).contains(parameter("channel")) =>
            {
                json!({ "ok": false, "error": "channel_not_found" })
            }
            "users.info" => json!({ "ok": true, "user": { "id": parameter("user") } }),
            "bots.info" => json!({ "ok": true, "bot": { "id": parameter("bot") } }),
            "conversations.info" => {
                let channel = parameter("channel");
                let private = channel == PRIVATE_CHANNEL;
                json!({ "ok": true, "channel": { "id": channel, "is_private": private, "is_ext_shared": false } })
            }
            "files.info" => match workload::file_object(parameter("file")) {
                Some(file) => json!({ "ok": true, "file": file }),
                None => json!({ "ok": false, "error": "file_not_found" }),
            },
            _ => json!({ "ok": false, "error": "unknown_method" }),
        })
    }
}

/// Two on a page.
fn page(name: &str, all: Vec<Value>, cursor: &str) -> Value {
    let from: usize = cursor.strip_prefix("from:").and_then(|rest| rest.parse().ok()).unwrap_or(0);
    let end = all.len().min(from + 2);
    let next = if end < all.len() { format!("from:{end}") } else { String::new() };
    json!({ "ok": true, name: &all[from.min(end)..end], "response_metadata": { "next_cursor": next } })
}

/// The id of a listed channel.
pub(super) fn listed_channel(n: usize) -> String {
    format!("C9{n:05}")
}

/// The id of a listed person.
pub(super) fn listed_person(n: usize) -> String {
    format!("U9{n:05}")
}

#[derive(Debug)]
struct PlayedBody {
    rest: Option<Bytes>,
    cut: bool,
}

#[async_trait]
impl Body for PlayedBody {
    async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        match self.rest.take() {
            Some(piece) if !piece.is_empty() => Ok(Some(piece)),
            Some(_) | None if self.cut => Err("connection reset in the middle".to_owned()),
            Some(_) | None => Ok(None),
        }
    }
}
