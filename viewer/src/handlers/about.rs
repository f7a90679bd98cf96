//! Handlers for what is known about a channel, its threads and days, and people.

use axum::extract::{Path, Query};
use jiff::civil::Date;
use maud::html;
use reader::find;
use reader::joined::JoinedChannel;
use serde::Deserialize;
use slack::ids::{TeamId, UserId};

use super::cached::{activity, menu};
use super::messages::{self, Beside, in_channel};
use super::{LINKS, PageResult, Visit, framed, no_channel, timestamp};
use crate::answer::PageError;
use crate::gather::timeline::TimelineStart;
use crate::gather::{self, channel};
use crate::links::{AboutChannel, LinkScheme, SitePage};
use crate::pages;
use crate::pages::PageContext;
use crate::pages::layout::MainPane;
use crate::pages::message::PageMessage;

/// Threads per page.
const THREADS: usize = 50;

/// `/c/{team}/{channel}/info`: the facts about a channel, next to its newest messages.
pub(crate) async fn info(state: Visit, Path((team, called)): Path<(String, String)>) -> PageResult {
    let channel = channel_of(&state, &team, &called).await?;
    let page = gather::timeline::read(&channel, &TimelineStart::Newest, &state.zone).await?;
    in_channel(&state, &channel, page, Beside::Info).await
}

async fn channel_of<'a>(state: &'a Visit, team: &str, called: &str) -> Result<JoinedChannel<'a>, PageError> {
    channel::channel_in_team(&*state.archive, team, called).await?.ok_or_else(no_channel)
}

/// Selects a page of threads: those whose newest reply is before this time.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ThreadsParams {
    before: Option<String>,
}

/// `/c/{team}/{channel}/threads`
pub(crate) async fn threads(
    state: Visit,
    Path((team, called)): Path<(String, String)>,
    Query(params): Query<ThreadsParams>,
) -> PageResult {
    let before = params.before.as_deref().map(timestamp).transpose()?;
    let channel = channel_of(&state, &team, &called).await?;
    let location = channel.current_location();
    let index = state.index.get().await.ok_or(PageError::NoIndex)?;
    let found = index.recent_threads(channel.locations(), before.as_ref(), THREADS).await;
    let found = found.map_err(|_| PageError::NoIndex)?;
    let address = LINKS.about_channel(location, AboutChannel::Threads);
    let next = found.next.as_ref().zip(address).map(|(ts, address)| format!("{address}?before={ts}"));
    let threads = gather::channel_info::threads(&channel, found, &state.zone).await?;
    let all: Vec<&PageMessage> = threads.iter().filter_map(|thread| thread.first.as_ref()).collect();
    let (mut names, pictures) = messages::names_and_pictures(&state, &channel, &all).await?;
    let title = channel::title(&*state.archive, location, &mut names).await?;
    let shown =
        PageContext { links: &LINKS, names: &names, pictures: &pictures, zone: &state.zone, location };
    let remark = state.index.lag_remark(&index, &state.reader.sight).await;
    let page =
        pages::channel_info::threads_page(&title, &threads, remark.as_deref(), next.as_deref(), &shown);
    let main = html! { div class="plain-page" { (page) } };
    let title = format!("Threads in #{}", title.name);
    framed(&menu(&state, Some(location)).await?, &title, None, MainPane::Page, main)
}

/// `/u/{team}/{user}`: a person of this workspace, or of another one that shares a channel with it.
pub(crate) async fn person(state: Visit, Path((team, user)): Path<(String, String)>) -> PageResult {
    let missing = || PageError::missing("This person is not in the archive.");
    let (Ok(team), Ok(user)) = (TeamId::parse(&team), UserId::parse(&user)) else { return Err(missing()) };
    let teams = find::teams(&*state.archive).await?;
    if !teams.contains(&team) {
        return Err(missing());
    }
    let others = teams.iter().filter(|other| **other != team);
    for team in std::iter::once(&team).chain(others) {
        if let Some(page) = gather::person::read(&*state.archive, team, &user).await? {
            let main = html! { div class="plain-page" { (pages::person::person_page(&page, &LINKS)) } };
            let title = page.names.first().map_or(user.as_str(), String::as_str);
            return framed(&menu(&state, None).await?, title, None, MainPane::Page, main);
        }
    }
    Err(missing())
}

/// Selects people by a part of a name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PeopleParams {
    q: String,
}

/// `/people`
pub(crate) async fn people(state: Visit, Query(params): Query<PeopleParams>) -> PageResult {
    let called = params.q.trim();
    let list = gather::person::list(&*state.archive, &called.to_lowercase()).await?;
    let main = html! { div class="plain-page" { (pages::person::people_page(&list, called, &LINKS)) } };
    framed(&menu(&state, None).await?, "People", Some(SitePage::People), MainPane::Page, main)
}

/// Selects a month.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CalendarParams {
    month: Option<String>,
}

/// `/c/{team}/{channel}/calendar`: the days of a month, next to the newest messages of the channel.
pub(crate) async fn calendar(
    state: Visit,
    Path((team, called)): Path<(String, String)>,
    Query(params): Query<CalendarParams>,
) -> PageResult {
    let month = params.month.filter(|month| !month.is_empty()).map(|month| format!("{month}-01"));
    let invalid = |_| PageError::Invalid("Write a month as 2026-11.".to_owned());
    let month: Option<Date> = month.map(|first| first.parse().map_err(invalid)).transpose()?;
    let channel = channel_of(&state, &team, &called).await?;
    let index = state.index.get().await.ok_or(PageError::NoIndex)?;
    let calendar =
        gather::calendar::read(&index, channel.locations(), &*activity(&state).await?, month, &state.zone)
            .await?;
    let page = gather::timeline::read(&channel, &TimelineStart::Newest, &state.zone).await?;
    in_channel(&state, &channel, page, Beside::Calendar(calendar)).await
}
