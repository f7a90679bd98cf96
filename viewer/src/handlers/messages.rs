//! Handlers for pages of messages: a channel, a thread, the versions of a message.

use axum::extract::{Path, Query};
use jiff::civil::Date;
use maud::html;
use reader::joined::{ChannelOfTeam, JoinedChannel};
use reader::names::DisplayNames;
use rules::view::MessageView;
use serde::Deserialize;
use slack::ids::Ts;

use super::cached::{emoji, menu};
use super::feeds::feed_of_channel;
use super::{LINKS, PageResult, Visit, framed, no_channel, timestamp};
use crate::answer::{self, PageError};
use crate::gather::pictures::{self, PictureBook};
use crate::gather::timeline::TimelineStart;
use crate::gather::{self, channel, channel_info, learn_names};
use crate::links::LinkScheme;
use crate::pages::calendar::ChannelCalendar;
use crate::pages::layout::{self, Frame, MainPane, SidePane};
use crate::pages::message::PageMessage;
use crate::pages::thread::ThreadPage;
use crate::pages::timeline::TimelinePage;
use crate::pages::{self, PageContext};

/// Selects the messages of a channel.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TimelineParams {
    before: Option<String>,
    after: Option<String>,
    around: Option<String>,
    day: Option<String>,
}

impl TimelineParams {
    fn start(&self) -> Result<TimelineStart, PageError> {
        Ok(match (&self.around, &self.before, &self.after, &self.day) {
            (Some(around), ..) => TimelineStart::Around(timestamp(around)?),
            (None, Some(before), ..) => TimelineStart::Before(timestamp(before)?),
            (None, None, Some(after), _) => TimelineStart::After(timestamp(after)?),
            (None, None, None, Some(day)) => TimelineStart::Day(date(day)?),
            (None, None, None, None) => TimelineStart::Newest,
        })
    }
}

fn date(text: &str) -> Result<Date, PageError> {
    text.parse().map_err(|_| PageError::Invalid("Write a day as 2026-11-20.".to_owned()))
}

/// `/c/{team}/{channel}`
pub(crate) async fn timeline(
    state: Visit,
    Path((team, called)): Path<(String, String)>,
    Query(params): Query<TimelineParams>,
) -> PageResult {
    let start = params.start()?;
    let channel = channel::channel_in_team(&*state.archive, &team, &called).await?.ok_or_else(no_channel)?;
    let page = gather::timeline::read(&channel, &start, &state.zone).await?;
    in_channel(&state, &channel, page, Beside::Nothing).await
}

/// What is next to the messages of a channel.
pub(super) enum Beside {
    /// Nothing.
    Nothing,
    /// A thread.
    Thread(Box<ThreadPage>),
    /// What is known about the channel.
    Info,
    /// A month of the channel, if it has messages.
    Calendar(Option<ChannelCalendar>),
}

/// Selects a part of a thread.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ThreadParams {
    after: Option<String>,
}

/// `/t/{team}/{channel}/{ts}`: a thread, next to the messages around its root.
pub(crate) async fn thread(
    state: Visit,
    Path((team, called, ts)): Path<(String, String, String)>,
    Query(params): Query<ThreadParams>,
) -> PageResult {
    let ts = timestamp(&ts)?;
    let after = params.after.as_deref().map(timestamp).transpose()?;
    let channel = channel::channel_in_team(&*state.archive, &team, &called).await?.ok_or_else(no_channel)?;
    let requested = reader::rows::read_message(&channel, &ts).await?;
    let root_ts = requested.as_ref().and_then(MessageView::root_ts).unwrap_or_else(|| ts.clone());
    let missing = || PageError::missing("This thread is not in the archive.");
    let target = (ts != root_ts).then_some(ts);
    let thread = gather::thread::read(&channel, &root_ts, after.as_ref(), target, &state.zone)
        .await?
        .ok_or_else(missing)?;
    let page = gather::timeline::read(&channel, &TimelineStart::Around(root_ts), &state.zone).await?;
    in_channel(&state, &channel, page, Beside::Thread(Box::new(thread))).await
}

/// Renders messages of a channel, and what is next to them.
pub(super) async fn in_channel(
    state: &Visit,
    channel: &JoinedChannel<'_>,
    mut page: TimelinePage,
    mut beside: Beside,
) -> PageResult {
    let location = channel.current_location();
    count_replies(state, channel, &mut page, &mut beside).await;
    if state.live.is_some() && page.ends.newer.is_none() {
        let after = page.messages.last().map(|last| format!("?after={}", last.ts)).unwrap_or_default();
        page.live = Some(format!("{}/live{after}", LINKS.channel(location)));
    }
    let mut all: Vec<&PageMessage> = page.messages.iter().collect();
    if let Beside::Thread(thread) = &beside {
        all.extend(thread.root.iter().chain(&thread.replies));
    }
    let pins = channel::pins(channel, &state.zone).await?;
    all.extend(&pins);
    let (mut names, pictures) = names_and_pictures(state, channel, &all).await?;
    let mut title = channel::title(&*state.archive, location, &mut names).await?;
    title.pins = pins;
    title.feed = Some(state.access.with_feed_key(feed_of_channel(&LINKS.channel(location))));
    page.proven_to = channel::proven_to(&*state.archive, location).await?;
    let info = match &beside {
        Beside::Info => Some(channel_info::read(&*state.archive, channel, &mut names).await?),
        Beside::Nothing | Beside::Thread(_) | Beside::Calendar(_) => None,
    };
    let shown =
        PageContext { links: &LINKS, names: &names, pictures: &pictures, zone: &state.zone, location };
    let main = html! {
        (pages::timeline::head(&title, &page, &shown))
        (pages::timeline::messages(&page, &shown))
    };
    let side_pane = match (&beside, &info) {
        (Beside::Thread(thread), _) => {
            Some(SidePane { label: "Thread", content: pages::thread::thread_pane(thread, &shown) })
        }
        (Beside::Info, Some(info)) => {
            let content = pages::channel_info::info_pane(&title, info, &shown);
            Some(SidePane { label: "About the channel", content })
        }
        (Beside::Calendar(calendar), _) => {
            let content = pages::calendar::calendar_pane(calendar.as_ref(), &shown);
            Some(SidePane { label: "Calendar", content })
        }
        (Beside::Nothing | Beside::Info, _) => None,
    };
    let main_pane = if side_pane.is_some() { MainPane::Side } else { MainPane::Page };
    let frame = Frame {
        title: format!("#{}", title.name),
        page: None,
        query: "",
        menu: &menu(state, Some(location)).await?,
        main_pane,
        main,
        side_pane,
    };
    Ok(answer::html(layout::page(&frame, &LINKS)))
}

async fn count_replies(
    state: &Visit,
    channel: &JoinedChannel<'_>,
    page: &mut TimelinePage,
    beside: &mut Beside,
) {
    let mut roots: Vec<Ts> = page.messages.iter().map(|message| message.ts.clone()).collect();
    if let Beside::Thread(thread) = beside {
        roots.push(thread.root_ts.clone());
    }
    if let Some(index) = state.index.get().await {
        // Even without counts, threads are linked.
        let sizes = index.thread_sizes(channel.locations(), &roots).await.unwrap_or_default();
        for message in &mut page.messages {
            message.thread = sizes.get(&message.ts).cloned();
        }
        if let Beside::Thread(thread) = beside {
            thread.size = sizes.get(&thread.root_ts).cloned();
        }
    }
}

/// The newest messages of a channel, oldest first, each as HTML.
pub(crate) struct NewestArticles {
    pub(crate) articles: Vec<(Ts, String)>,
    /// All ids of the channel.
    pub(crate) locations: Vec<ChannelOfTeam>,
    /// Whether the channel has no others.
    pub(crate) is_whole: bool,
}

/// Reads the newest messages of a channel; `None` if the reader has no such channel.
pub(crate) async fn newest_articles(
    state: &Visit,
    team: &str,
    called: &str,
) -> Result<Option<NewestArticles>, PageError> {
    let Some(channel) = channel::channel_in_team(&*state.archive, team, called).await? else {
        return Ok(None);
    };
    let mut page = gather::timeline::read(&channel, &TimelineStart::Newest, &state.zone).await?;
    count_replies(state, &channel, &mut page, &mut Beside::Nothing).await;
    let all: Vec<&PageMessage> = page.messages.iter().collect();
    let (names, pictures) = names_and_pictures(state, &channel, &all).await?;
    let location = channel.current_location();
    let shown =
        PageContext { links: &LINKS, names: &names, pictures: &pictures, zone: &state.zone, location };
    let articles = pages::timeline::articles(&page, &shown);
    let locations = channel.locations().to_vec();
    Ok(Some(NewestArticles { articles, locations, is_whole: page.ends.older.is_none() }))
}

/// Reads the names and pictures of everyone in these messages.
pub(super) async fn names_and_pictures<'a>(
    state: &'a Visit,
    channel: &JoinedChannel<'_>,
    messages: &[&PageMessage],
) -> Result<(DisplayNames<'a>, PictureBook), PageError> {
    let mut names = DisplayNames::for_teams(&*state.archive, channel.teams());
    learn_names(&mut names, messages).await?;
    let authors = messages.iter().filter_map(|message| message.content.author.user.as_deref()).collect();
    let people = pictures::people(&*state.archive, &channel.teams(), authors).await?;
    Ok((names, PictureBook { people, emoji: emoji(state).await? }))
}

/// `/r/{team}/{channel}/{ts}`
pub(crate) async fn versions(
    state: Visit,
    Path((team, called, ts)): Path<(String, String, String)>,
) -> PageResult {
    let ts = timestamp(&ts)?;
    let channel = channel::channel_in_team(&*state.archive, &team, &called).await?.ok_or_else(no_channel)?;
    let versions = gather::versions::read(&channel, &ts, &state.zone).await?;
    if versions.is_empty() {
        return Err(PageError::missing("This message is not in the archive."));
    }
    let messages: Vec<&PageMessage> = versions.iter().map(|version| &version.message).collect();
    let (names, pictures) = names_and_pictures(&state, &channel, &messages).await?;
    let shown = PageContext {
        links: &LINKS,
        names: &names,
        pictures: &pictures,
        zone: &state.zone,
        location: channel.current_location(),
    };
    let main = html! { div class="plain-page" { (pages::versions::versions_page(&versions, &shown)) } };
    framed(&menu(&state, Some(channel.current_location())).await?, "Versions", None, MainPane::Page, main)
}
