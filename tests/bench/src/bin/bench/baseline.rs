//! The baselines: a handler that only checks the signature, and the same with one durable commit per event.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ::tests::harness::client::PATH;
use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};
use ports::clock::{Clock, SystemClock};
use process::config;
use rusqlite::{Connection, params};
use serde::Deserialize;
use slack::signing_table::SigningTable;

#[derive(Clone)]
struct Bare {
    secrets: Arc<SigningTable>,
}

#[derive(Clone)]
struct CommitPerEvent {
    secrets: Arc<SigningTable>,
    database: Arc<Mutex<Connection>>,
}

/// Serves the upper limit: only HTTP and the signature check.
pub(crate) async fn serve_bare() -> anyhow::Result<()> {
    let bare = Bare { secrets: Arc::new(config::signing_table().await?) };
    let answer = |State(bare): State<Bare>, headers: HeaderMap, body: Bytes| async move {
        if is_genuine(&bare.secrets, &headers, &body) { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
    };
    serve(Router::new().route(PATH, post(answer)).with_state(bare)).await
}

/// Serves the best case of an app that stores each event before it answers: one durable commit per event.
pub(crate) async fn serve_commit_per_event(data: &Path) -> anyhow::Result<()> {
    let state = CommitPerEvent {
        secrets: Arc::new(config::signing_table().await?),
        database: Arc::new(Mutex::new(open(&data.join("messages.db"))?)),
    };
    let answer = |State(state): State<CommitPerEvent>, headers: HeaderMap, body: Bytes| async move {
        if !is_genuine(&state.secrets, &headers, &body) {
            return StatusCode::UNAUTHORIZED;
        }
        let stored = tokio::task::spawn_blocking(move || {
            let database = state.database.lock().unwrap_or_else(PoisonError::into_inner);
            store(&database, &body)
        });
        match stored.await {
            Ok(Ok(())) => StatusCode::OK,
            Ok(Err(_)) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    };
    serve(Router::new().route(PATH, post(answer)).with_state(state)).await
}

async fn serve(router: Router) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
    let listening =
        serde_json::json!({ "message": "listening", "address": listener.local_addr()?.to_string() });
    writeln!(std::io::stderr(), "{listening}")?;
    axum::serve(listener, router).await.context("cannot serve")
}

fn is_genuine(secrets: &SigningTable, headers: &HeaderMap, body: &[u8]) -> bool {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let (timestamp, signature) = (header("x-slack-request-timestamp"), header("x-slack-signature"));
    secrets.verify(None, [timestamp, signature], body, SystemClock.now().seconds()).is_ok()
}

fn open(file: &Path) -> rusqlite::Result<Connection> {
    let database = Connection::open(file)?;
    database.pragma_update(None, "journal_mode", "WAL")?;
    database.pragma_update(None, "synchronous", "FULL")?;
    database.execute_batch(
        "CREATE TABLE messages (
            team TEXT, channel TEXT, ts TEXT, user TEXT, text TEXT, thread_ts TEXT, deleted INTEGER, raw TEXT,
            PRIMARY KEY (team, channel, ts)
        ) WITHOUT ROWID;",
    )?;
    Ok(database)
}

#[derive(Deserialize)]
struct BaselineEnvelope {
    team_id: String,
    event: BaselineEvent,
}

#[derive(Deserialize)]
struct BaselineEvent {
    channel: String,
    subtype: Option<String>,
    ts: String,
    user: Option<String>,
    text: Option<String>,
    thread_ts: Option<String>,
    deleted_ts: Option<String>,
    message: Option<BaselineMessage>,
}

#[derive(Deserialize)]
struct BaselineMessage {
    ts: String,
    text: String,
}

fn store(database: &Connection, body: &[u8]) -> anyhow::Result<()> {
    let BaselineEnvelope { team_id, event } = serde_json::from_slice(body)?;
    match (event.subtype.as_deref(), event.message, event.deleted_ts) {
        (Some("message_changed"), Some(message), _) => database
            .prepare_cached("UPDATE messages SET text = ?4 WHERE team = ?1 AND channel = ?2 AND ts = ?3")?
            .execute(params![team_id, event.channel, message.ts, message.text])?,
        (Some("message_deleted"), _, Some(ts)) => database
            .prepare_cached("UPDATE messages SET deleted = 1 WHERE team = ?1 AND channel = ?2 AND ts = ?3")?
            .execute(params![team_id, event.channel, ts])?,
        (_, _, _) => database
            .prepare_cached("INSERT OR REPLACE INTO messages VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL, ?7)")?
            .execute(params![
                team_id,
                event.channel,
                event.ts,
                event.user,
                event.text,
                event.thread_ts,
                std::str::from_utf8(body)?
            ])?,
    };
    Ok(())
}
