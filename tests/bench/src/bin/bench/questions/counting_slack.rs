//! A Slack that takes posts at once and remembers when, beside a processor that answers at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use axum::Router;
use axum::extract::{Form, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use testkit::corpus::TEAM;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Where it is, and what came.
pub(super) struct CountingSlack {
    /// The base of its Web API.
    pub(super) url: String,
    /// Where the processor is.
    pub(super) processor: String,
    posts: Arc<Posts>,
}

#[derive(Default)]
struct Posts {
    state: Mutex<PostCount>,
    more: Notify,
}

#[derive(Default)]
struct PostCount {
    count: usize,
    questions: BTreeSet<String>,
    last: Option<Instant>,
}

impl Posts {
    fn state(&self) -> MutexGuard<'_, PostCount> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CountingSlack {
    /// Starts it.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let origin = format!("http://{}", listener.local_addr()?);
        let posts = Arc::new(Posts::default());
        let router = Router::new()
            .route("/api/{method}", post(method).with_state(Arc::clone(&posts)))
            .route("/answer", post(async || answer(&json!({ "text": "an answer" }))));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { url: format!("{origin}/api/"), processor: format!("{origin}/answer"), posts })
    }

    /// When the post of this number came.
    pub(super) async fn posted(&self, number: usize, deadline: Duration) -> anyhow::Result<Instant> {
        let waiting = async {
            loop {
                let more = self.posts.more.notified();
                let (count, last) = {
                    let state = self.posts.state();
                    (state.count, state.last)
                };
                if let Some(last) = last.filter(|_| count >= number) {
                    return last;
                }
                more.await;
            }
        };
        match timeout(deadline, waiting).await {
            Ok(at) => Ok(at),
            Err(_) => bail!("{} of {number} posts came", self.posts.state().count),
        }
    }

    /// Posts, and the questions that they answer.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.posts.state();
        (state.count, state.questions.len())
    }
}

async fn method(
    State(posts): State<Arc<Posts>>,
    Path(method): Path<String>,
    Form(parameters): Form<BTreeMap<String, String>>,
) -> Response {
    if method != "chat.postMessage" {
        return answer(&match method.as_str() {
            "auth.test" => json!({ "ok": true, "team_id": TEAM, "user_id": "U0ANNALIST" }),
            "conversations.list" => json!({ "ok": true, "channels": [] }),
            "users.list" => json!({ "ok": true, "members": [] }),
            "emoji.list" => json!({ "ok": true, "emoji": {} }),
            "team.info" => json!({ "ok": true, "team": { "id": TEAM, "name": "Bench" } }),
            _ => json!({ "ok": false, "error": "unknown_method" }),
        });
    }
    let number = {
        let mut state = posts.state();
        state.count += 1;
        state.last = Some(Instant::now());
        state.questions.extend(parameters.get("metadata").cloned());
        state.count
    };
    posts.more.notify_waiters();
    let channel = parameters.get("channel").cloned().unwrap_or_default();
    answer(&json!({ "ok": true, "channel": channel, "ts": format!("1900000000.{number:06}") }))
}

fn answer(body: &Value) -> Response {
    ([("content-type", "application/json")], body.to_string()).into_response()
}
