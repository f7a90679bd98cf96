//! Links as Slack makes them: each leads to what it names.

use axum::extract::{Path, Query, State};
use axum::http::Uri;
use reader::permalink::SlackLink;
use reader::thread as threads;
use serde::Deserialize;
use slack::ids::{ChannelId, Ts};

use super::{LINKS, PageResult, SharedState, no_channel, timestamp};
use crate::answer::{PageError, see};
use crate::gather::channel;
use crate::links::{LinkScheme, anchor_in_thread};
use crate::router::ViewerState;

/// `/archives/{channel}`
pub(crate) async fn channel_link(State(state): SharedState, Path(called): Path<String>) -> PageResult {
    let channel = ChannelId::parse(&called).map_err(|_| no_channel())?;
    let channel = channel::anywhere(&*state.archive, &channel).await?.ok_or_else(no_channel)?;
    Ok(see(&LINKS.channel(channel.main())))
}

/// The thread that Slack's link to a reply names.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PermalinkParams {
    thread_ts: Option<String>,
}

/// `/archives/{channel}/p{digits}`, as Slack's links are.
pub(crate) async fn permalink(
    State(state): SharedState,
    Path((called, ts)): Path<(String, String)>,
    Query(asked): Query<PermalinkParams>,
) -> PageResult {
    let channel = ChannelId::parse(&called).map_err(|_| no_channel())?;
    let thread_ts = asked.thread_ts.as_deref().and_then(|ts| Ts::parse(ts).ok());
    to_message(&state, &channel, &timestamp(&ts)?, thread_ts).await
}

/// Leads to a message: a reply is in its thread.
async fn to_message(state: &ViewerState, channel: &ChannelId, ts: &Ts, thread_ts: Option<Ts>) -> PageResult {
    let channel = channel::anywhere(&*state.archive, channel).await?.ok_or_else(no_channel)?;
    let message = reader::rows::message(&channel, ts).await?;
    let Some(message) = message else {
        return Err(PageError::missing("This message is not in the archive."));
    };
    let root_ts = threads::root_ts(&message).or(thread_ts).filter(|root_ts| root_ts != ts);
    let is_in_channel = message["subtype"] == "thread_broadcast";
    Ok(match root_ts.filter(|_| !is_in_channel) {
        Some(_) => see(&format!("{}#{}", LINKS.thread(channel.main(), ts), anchor_in_thread(ts))),
        None => see(&LINKS.message(channel.main(), ts)),
    })
}

/// A whole link of Slack's, pasted behind our address; otherwise there is no such page.
pub(crate) async fn elsewhere(State(state): SharedState, uri: Uri) -> PageResult {
    let asked = uri.path_and_query().map_or("", |asked| asked.as_str());
    match SlackLink::parse(asked.trim_start_matches('/')) {
        Some(link) => follow(&state, link).await,
        None => Err(PageError::missing("There is no such page.")),
    }
}

/// Leads to what a link names.
pub(super) async fn follow(state: &ViewerState, link: SlackLink) -> PageResult {
    let channel = ChannelId::parse(&link.channel).map_err(|_| no_channel())?;
    match &link.ts {
        Some(ts) => to_message(state, &channel, ts, link.thread_ts).await,
        None => {
            let channel = channel::anywhere(&*state.archive, &channel).await?.ok_or_else(no_channel)?;
            Ok(see(&LINKS.channel(channel.main())))
        }
    }
}
