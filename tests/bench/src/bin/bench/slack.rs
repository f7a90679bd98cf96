//! A fake Slack with a large directory and files of any size, with the methods that the bench needs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::{Form, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};
use testkit::corpus::{Shape, TEAM, channel_id, event, user_id};
use testkit::fake_slack::{self, FakeWorkspace, SlackState};
use tokio::net::TcpListener;

/// The valid token.
pub(crate) const TOKEN: &str = "xoxb-bench";

/// The fixed clock: noon of 2026-11-21.
const NOW_MS: i64 = 1_795_262_400_000;
/// Number of bytes of a file per chunk.
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DirectorySize {
    /// Number of public channels.
    pub(crate) channels: usize,
    pub(crate) users: usize,
}

/// Number of messages in a page of history.
pub(crate) const PAGE_MESSAGES: usize = 999;

/// A fake Slack with history.
pub(crate) struct SlackWithHistory {
    /// Base URL of its Web API.
    pub(crate) url: String,
    state: Arc<Mutex<SlackState>>,
}

impl SlackWithHistory {
    /// How often a method was called.
    pub(crate) fn calls(&self, method: &str) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).call_count(method)
    }
}

/// Starts a fake Slack with channels of this many messages each; a page has at most [`PAGE_MESSAGES`].
pub(crate) async fn start_with_history(channels: usize, messages: usize) -> anyhow::Result<SlackWithHistory> {
    let mut state = state_of(DirectorySize { channels: 0, users: 0 }, channel, user);
    if let Some(workspace) = state.workspace(TOKEN) {
        for n in 0..channels {
            let id = format!("CHISTORY{n:03}");
            workspace.channels.push(fake_slack::channel(&id, &format!("history-{n}")));
            for message in 0..messages {
                let ts = format!("{}.000100", 1_700_000_000 + message * 60);
                let message =
                    event::message(&ts, &user_id(message % 50), &"a message of long ago ".repeat(10));
                workspace.channel_history(&id).post(&message);
            }
        }
    }
    let state = Arc::new(Mutex::new(state));
    let url = listen(Arc::clone(&state)).await?;
    Ok(SlackWithHistory { url, state })
}

/// Starts the fake Slack and returns the base URL of its Web API.
pub(crate) async fn start(size: DirectorySize) -> anyhow::Result<String> {
    serve(size, channel, user).await
}

/// Starts a fake Slack with the channels and people of a workload. Every other id exists as well.
pub(crate) async fn start_for(shape: &Shape) -> anyhow::Result<String> {
    let workload_channel = |n| with_id(channel(n), channel_id(n + 1));
    let workload_user = |n| with_id(user(n), user_id(n));
    serve(DirectorySize { channels: shape.channels, users: shape.users }, workload_channel, workload_user)
        .await
}

fn with_id(mut object: Value, id: String) -> Value {
    object["id"] = id.into();
    object
}

async fn serve(
    size: DirectorySize,
    channel: fn(usize) -> Value,
    user: fn(usize) -> Value,
) -> anyhow::Result<String> {
    listen(Arc::new(Mutex::new(state_of(size, channel, user)))).await
}

fn state_of(size: DirectorySize, channel: fn(usize) -> Value, user: fn(usize) -> Value) -> SlackState {
    let mut state = SlackState::default();
    let workspace = FakeWorkspace {
        channels: (0..size.channels).map(channel).collect(),
        members: (0..size.users).map(user).collect(),
        knows_every_id: true,
        ..FakeWorkspace::new(TEAM)
    };
    state.set_workspace(TOKEN, workspace);
    state
}

async fn listen(state: Arc<Mutex<SlackState>>) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
    let url = format!("http://{}/api/", listener.local_addr()?);
    let router = Router::new()
        .route("/api/{method}", post(method).with_state(state))
        .route("/files/{bytes}/{id}", get(file))
        .with_state(Arc::new(Bytes::from(vec![0x5a; CHUNK_BYTES])));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(url)
}

async fn method(
    State(state): State<Arc<Mutex<SlackState>>>,
    Path(method): Path<String>,
    Form(parameters): Form<BTreeMap<String, String>>,
) -> Response {
    let answer =
        state.lock().unwrap_or_else(PoisonError::into_inner).answer(&method, TOKEN, parameters, NOW_MS);
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers =
        answer.headers.iter().filter_map(|(name, value)| Some((name.parse().ok()?, value.parse().ok()?)));
    (status, headers.collect::<HeaderMap>(), answer.body).into_response()
}

fn channel(n: usize) -> Value {
    let mut channel = fake_slack::channel(&format!("C{n:06}"), &format!("channel-{n}"));
    channel["is_archived"] = n.is_multiple_of(10).into();
    channel["num_members"] = (n % 300).into();
    channel
}

fn user(n: usize) -> Value {
    json!({
        "id": format!("U{n:06}"), "team_id": TEAM, "name": format!("user{n}"), "deleted": n.is_multiple_of(20),
        "color": "9f69e7", "real_name": format!("User Number {n}"), "tz": "Europe/Berlin",
        "tz_label": "Central European Time", "tz_offset": 3600, "is_admin": false, "is_owner": false,
        "is_primary_owner": false, "is_restricted": false, "is_ultra_restricted": false, "is_bot": false,
        "is_app_user": false, "updated": 1_600_000_000, "is_email_confirmed": true, "profile": profile(n),
        "who_can_share_contact_card": "EVERYONE",
    })
}

fn profile(n: usize) -> Value {
    let image = |size: usize| format!("https://avatars.slack-edge.com/2020-01-01/{n}_{size}.png");
    json!({
        "title": "Engineer", "phone": "", "skype": "", "real_name": format!("User Number {n}"),
        "real_name_normalized": format!("User Number {n}"), "display_name": format!("user{n}"),
        "display_name_normalized": format!("user{n}"), "fields": null, "status_text": "", "status_emoji": "",
        "status_emoji_display_info": [], "status_expiration": 0, "avatar_hash": format!("{n:012x}"),
        "image_original": image(0), "image_24": image(24), "image_32": image(32), "image_48": image(48),
        "image_72": image(72), "image_192": image(192), "image_512": image(512), "image_1024": image(1024),
        "first_name": "User", "last_name": format!("Number {n}"), "team": TEAM,
    })
}

async fn file(State(chunk): State<Arc<Bytes>>, Path((bytes, _id)): Path<(usize, String)>) -> Response {
    let chunks = (0..bytes.div_ceil(CHUNK_BYTES)).map(move |n| {
        let left = bytes - n * CHUNK_BYTES;
        Ok::<_, std::convert::Infallible>(chunk.slice(..left.min(CHUNK_BYTES)))
    });
    let headers =
        [("content-type", "application/octet-stream".to_owned()), ("content-length", bytes.to_string())];
    (headers, Body::from_stream(stream::iter(chunks))).into_response()
}
