//! Redirects Slack's links to the pages of their targets.

use axum::extract::{Path, Query, State};
use axum::http::Uri;
use reader::permalink::SlackLink;
use reader::thread as threads;
use serde::Deserialize;
use slack::ids::{ChannelId, Ts};

use super::{LINKS, PageResult, SharedState, no_channel, timestamp};
use crate::answer::{PageError, redirect_to};
use crate::gather::channel;
use crate::links::{LinkScheme, anchor_in_thread};
use crate::router::ViewerState;

/// `/archives/{channel}`
pub(crate) async fn channel_link(State(state): SharedState, Path(called): Path<String>) -> PageResult {
    let channel = ChannelId::parse(&called).map_err(|_| no_channel())?;
    let channel = channel::channel_in_any_team(&*state.archive, &channel).await?.ok_or_else(no_channel)?;
    Ok(redirect_to(&LINKS.channel(channel.current_location())))
}

/// The query of Slack's link to a reply.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PermalinkParams {
    thread_ts: Option<String>,
}

/// `/archives/{channel}/p{digits}`, the path of Slack's links.
pub(crate) async fn permalink(
    State(state): SharedState,
    Path((called, ts)): Path<(String, String)>,
    Query(params): Query<PermalinkParams>,
) -> PageResult {
    let channel = ChannelId::parse(&called).map_err(|_| no_channel())?;
    let thread_ts = params.thread_ts.as_deref().and_then(|ts| Ts::parse(ts).ok());
    redirect_to_message(&state, &channel, &timestamp(&ts)?, thread_ts).await
}

/// Redirects to a message; to its thread if it is a reply.
async fn redirect_to_message(
    state: &ViewerState,
    channel: &ChannelId,
    ts: &Ts,
    thread_ts: Option<Ts>,
) -> PageResult {
    let channel = channel::channel_in_any_team(&*state.archive, channel).await?.ok_or_else(no_channel)?;
    let message = reader::rows::read_message(&channel, ts).await?;
    let Some(message) = message else {
        return Err(PageError::missing("This message is not in the archive."));
    };
    let root_ts = threads::root_ts(&message).or(thread_ts).filter(|root_ts| root_ts != ts);
    let is_in_channel = message["subtype"] == "thread_broadcast";
    Ok(match root_ts.filter(|_| !is_in_channel) {
        Some(_) => {
            redirect_to(&format!("{}#{}", LINKS.thread(channel.current_location(), ts), anchor_in_thread(ts)))
        }
        None => redirect_to(&LINKS.message(channel.current_location(), ts)),
    })
}

/// Handles a complete Slack link that was pasted after our address. Any other path is not found.
pub(crate) async fn fallback(State(state): SharedState, uri: Uri) -> PageResult {
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    match SlackLink::parse(path.trim_start_matches('/')) {
        Some(link) => redirect_to_link(&state, link).await,
        None => Err(PageError::missing("There is no such page.")),
    }
}

/// Redirects to the target of a Slack link.
pub(super) async fn redirect_to_link(state: &ViewerState, link: SlackLink) -> PageResult {
    let channel = ChannelId::parse(&link.channel).map_err(|_| no_channel())?;
    match &link.ts {
        Some(ts) => redirect_to_message(state, &channel, ts, link.thread_ts).await,
        None => {
            let channel =
                channel::channel_in_any_team(&*state.archive, &channel).await?.ok_or_else(no_channel)?;
            Ok(redirect_to(&LINKS.channel(channel.current_location())))
        }
    }
}
