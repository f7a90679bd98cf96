//! A fake Slack that records the times of posts, and a processor that answers immediately.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use axum::Router;
use axum::extract::{Form, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use ports::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use testkit::corpus::TEAM;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::observer::DEADLINE;

/// Number of words of the long answer, which is split into three messages.
const LONG_ANSWER_WORDS: usize = 2_000;

/// The addresses of the servers, and the recorded posts.
pub(super) struct CountingSlack {
    /// The base URL of the Web API.
    pub(super) url: String,
    /// The URL of the processor that answers with one message.
    pub(super) processor: String,
    /// The URL of the processor that answers with three messages.
    pub(super) long_processor: String,
    posts: Arc<Posts>,
}

#[derive(Default)]
struct Posts {
    /// Minimum interval between two messages of a channel. An earlier message is refused.
    min_interval: Duration,
    state: Mutex<PostCount>,
    more: Notify,
}

#[derive(Default)]
struct PostCount {
    count: usize,
    refused: usize,
    questions: BTreeSet<String>,
    last: Option<Instant>,
    last_micros: i64,
    /// The times of each channel's messages, including refused ones.
    channels: BTreeMap<String, Vec<Instant>>,
}

impl Posts {
    fn state(&self) -> MutexGuard<'_, PostCount> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CountingSlack {
    /// Starts a fake Slack that accepts every post.
    pub(super) async fn start() -> anyhow::Result<Self> {
        Self::start_with_min_interval(Duration::ZERO).await
    }

    /// Starts a fake Slack that answers 429 to a post that follows another one to its channel within this
    /// interval.
    pub(super) async fn start_with_min_interval(min_interval: Duration) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let origin = format!("http://{}", listener.local_addr()?);
        let posts = Arc::new(Posts { min_interval, ..Posts::default() });
        let router = Router::new()
            .route("/api/{method}", post(method).with_state(Arc::clone(&posts)))
            .route("/answer", post(async || answer(&json!({ "text": "an answer" }))))
            .route("/long", post(async || answer(&json!({ "text": "word ".repeat(LONG_ANSWER_WORDS) }))));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let (url, processor) = (format!("{origin}/api/"), format!("{origin}/answer"));
        Ok(Self { url, processor, long_processor: format!("{origin}/long"), posts })
    }

    /// Waits for the post of this number. Returns the time of the last post.
    pub(super) async fn wait_for_post(&self, number: usize) -> anyhow::Result<Instant> {
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
        match timeout(DEADLINE, waiting).await {
            Ok(at) => Ok(at),
            Err(_) => bail!("{} of {number} posts came", self.posts.state().count),
        }
    }

    /// Returns the number of accepted posts, and how many of them are distinct.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.posts.state();
        (state.count, state.questions.len())
    }

    /// Returns the number of posts that were answered 429.
    pub(super) fn refused(&self) -> usize {
        self.posts.state().refused
    }

    /// Returns the times of each channel's messages, including refused ones.
    pub(super) fn channels(&self) -> Vec<Vec<Instant>> {
        self.posts.state().channels.values().cloned().collect()
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
    let channel = parameters.get("channel").cloned().unwrap_or_default();
    let ts_micros = {
        let (mut state, now) = (posts.state(), Instant::now());
        let channel_times = state.channels.entry(channel.clone()).or_default();
        let before = channel_times.last().copied();
        channel_times.push(now);
        if before.is_some_and(|before| now.duration_since(before) < posts.min_interval) {
            state.refused += 1;
            let refused = answer(&json!({ "ok": false, "error": "ratelimited" }));
            return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")], refused).into_response();
        }
        state.count += 1;
        state.last = Some(now);
        state.questions.extend(parameters.get("metadata").cloned());
        // The poster keeps its pace by these timestamps.
        state.last_micros = (state.last_micros + 1).max(SystemClock.now().0 * 1_000);
        state.last_micros
    };
    posts.more.notify_waiters();
    let ts = format!("{}.{:06}", ts_micros / 1_000_000, ts_micros % 1_000_000);
    answer(&json!({ "ok": true, "channel": channel, "ts": ts }))
}

fn answer(body: &Value) -> Response {
    ([("content-type", "application/json")], body.to_string()).into_response()
}
