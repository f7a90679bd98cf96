//! Redirects Slack's links to the pages of their targets.

use axum::extract::{Path, Query};
use axum::http::Uri;
use reader::permalink::SlackLink;
use serde::Deserialize;
use slack::ids::{ChannelId, Ts};

use super::{LINKS, PageResult, Visit, no_channel, timestamp};
use crate::answer::{PageError, redirect_to};
use crate::gather::channel;
use crate::links::{LinkScheme, anchor_in_thread};

/// `/archives/{channel}`
pub(crate) async fn channel_link(state: Visit, Path(channel): Path<String>) -> PageResult {
    redirect_to_link(&state, SlackLink { channel, ts: None, thread_ts: None }).await
}

/// The query of Slack's link to a reply.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PermalinkParams {
    thread_ts: Option<String>,
}

/// `/archives/{channel}/p{digits}`, the path of Slack's links.
pub(crate) async fn permalink(
    state: Visit,
    Path((channel, ts)): Path<(String, String)>,
    Query(params): Query<PermalinkParams>,
) -> PageResult {
    let thread_ts = params.thread_ts.as_deref().and_then(|ts| Ts::parse(ts).ok());
    redirect_to_link(&state, SlackLink { channel, ts: Some(timestamp(&ts)?), thread_ts }).await
}

/// Handles a complete Slack link that was pasted after our address. Any other path is not found.
pub(crate) async fn fallback(state: Visit, uri: Uri) -> PageResult {
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    match SlackLink::parse(path.trim_start_matches('/')) {
        Some(link) => redirect_to_link(&state, link).await,
        None => Err(PageError::missing("There is no such page.")),
    }
}

/// Redirects to the target of a Slack link: a channel, a message, or the thread of a reply.
pub(super) async fn redirect_to_link(state: &Visit, link: SlackLink) -> PageResult {
    let SlackLink { channel, ts, thread_ts } = link;
    let channel = ChannelId::parse(&channel).map_err(|_| no_channel())?;
    let channel = channel::channel_in_any_team(&*state.archive, &channel).await?.ok_or_else(no_channel)?;
    let location = channel.current_location();
    let Some(ts) = ts else { return Ok(redirect_to(&LINKS.channel(location))) };
    let missing = || PageError::missing("This message is not in the archive.");
    let message = reader::rows::read_message(&channel, &ts).await?.ok_or_else(missing)?;
    let root_ts = message.root_ts().or(thread_ts).filter(|root_ts| *root_ts != ts);
    let is_in_channel = message.is_broadcast();
    Ok(match root_ts.filter(|_| !is_in_channel) {
        Some(_) => redirect_to(&format!("{}#{}", LINKS.thread(location, &ts), anchor_in_thread(&ts))),
        None => redirect_to(&LINKS.message(location, &ts)),
    })
}
