//! A Slack with a large directory and files of any size, as far as the bench asks for it.

use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::{Form, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::corpus::{Shape, TEAM, channel_id, user_id};
use tokio::net::TcpListener;

/// The token it knows.
pub(crate) const TOKEN: &str = "xoxb-bench";

/// What a page of a listing holds at most, as Slack's do.
const PAGE: usize = 1000;
/// Bytes of a file sent at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// How much there is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Size {
    /// Public channels.
    pub(crate) channels: usize,
    /// People.
    pub(crate) users: usize,
}

#[derive(Debug, Default, Deserialize)]
struct Paging {
    cursor: Option<String>,
}

/// Starts it and answers the base of its Web API.
pub(crate) async fn start(size: Size) -> anyhow::Result<String> {
    serve(size, channel, user).await
}

/// A Slack with the channels and people of a workload; any other id exists as well.
pub(crate) async fn start_for(shape: &Shape) -> anyhow::Result<String> {
    let of_channel = |n| with_id(channel(n), channel_id(n + 1));
    let of_user = |n| with_id(user(n), user_id(n));
    serve(Size { channels: shape.channels, users: shape.users }, of_channel, of_user).await
}

fn with_id(mut object: Value, id: String) -> Value {
    object["id"] = id.into();
    object
}

async fn serve(size: Size, channel: fn(usize) -> Value, user: fn(usize) -> Value) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
    let url = format!("http://{}/api/", listener.local_addr()?);
    let listed = move |of: fn(usize) -> Value, total: usize, name: &'static str| {
        post(move |Form(paging): Form<Paging>| async move { page(of, total, name, &paging) })
    };
    let dated = || async { json_answer(&json!({ "ok": true, "team_id": TEAM, "user_id": "U0" })) };
    let router = Router::new()
        .route("/api/auth.test", post(dated))
        .route("/api/conversations.list", listed(channel, size.channels, "channels"))
        .route("/api/users.list", listed(user, size.users, "members"))
        .route(
            "/api/team.info",
            post(|| async { json_answer(&json!({ "ok": true, "team": { "id": TEAM } })) }),
        )
        .route("/api/{method}", post(exists))
        .route("/api/emoji.list", post(|| async { json_answer(&json!({ "ok": true, "emoji": {} })) }))
        .route("/files/{bytes}/{id}", get(file))
        .with_state(Arc::new(Bytes::from(vec![0x5a; CHUNK_BYTES])));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(url)
}

/// Whatever is asked about, by whichever parameter.
#[derive(Debug, Default, Deserialize)]
struct Asked {
    user: Option<String>,
    bot: Option<String>,
    channel: Option<String>,
}

async fn exists(Form(Asked { user, bot, channel }): Form<Asked>) -> Response {
    let object = |id: Option<String>| json!({ "id": id });
    json_answer(&json!({ "ok": true, "user": object(user), "bot": object(bot), "channel": object(channel) }))
}

fn json_answer(body: &Value) -> Response {
    let headers = [("content-type", "application/json"), ("date", "Sat, 21 Nov 2026 12:00:00 GMT")];
    (headers, body.to_string()).into_response()
}

fn page(of: fn(usize) -> Value, total: usize, name: &str, paging: &Paging) -> Response {
    let from: usize = paging.cursor.as_deref().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let to = total.min(from + PAGE);
    let items: Vec<Value> = (from..to).map(of).collect();
    let next = if to < total { to.to_string() } else { String::new() };
    json_answer(&json!({ "ok": true, name: items, "response_metadata": { "next_cursor": next } }))
}

fn channel(n: usize) -> Value {
    json!({
        "id": format!("C{n:06}"), "name": format!("channel-{n}"), "name_normalized": format!("channel-{n}"),
        "is_channel": true, "is_group": false, "is_im": false, "is_mpim": false, "is_private": false,
        "is_archived": n.is_multiple_of(10), "is_general": n == 0, "is_shared": false, "is_ext_shared": false,
        "is_org_shared": false, "is_member": true, "created": 1_600_000_000 + n, "creator": "U000000",
        "unlinked": 0, "context_team_id": TEAM, "updated": 1_700_000_000_000_u64, "shared_team_ids": [TEAM],
        "pending_shared": [], "pending_connected_team_ids": [], "previous_names": [], "num_members": n % 300,
        "topic": { "value": format!("What channel {n} is about"), "creator": "U000000", "last_set": 1_600_000_000 },
        "purpose": { "value": "Everybody who works on it", "creator": "U000000", "last_set": 1_600_000_000 },
    })
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
