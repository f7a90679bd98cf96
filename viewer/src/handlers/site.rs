//! Pages of the whole archive: channels, files, figures, coverage.

use axum::extract::{Query, State};
use jiff::Timestamp;
use maud::html;
use reader::figures::making::{self, ReportScope};
use reader::figures::period::Period;
use reader::figures::rollups::Rollups;
use reader::find;
use serde::Deserialize;
use slack::ids::TeamId;

use super::remembered::menu;
use super::{LINKS, PageResult, SharedState, framed};
use crate::answer::PageError;
use crate::gather;
use crate::gather::files::FilesStart;
use crate::links::SitePage;
use crate::pages;
use crate::pages::layout::MainPane;
use crate::pages::sidebar::ChannelMenu;

/// `/`
pub(crate) async fn channels(State(state): SharedState, Query(asked): Query<ChannelsParams>) -> PageResult {
    let menu = menu(&state, None).await?;
    let filter = asked.channels.unwrap_or_default();
    let menu = ChannelMenu { filter, ..menu };
    let main = html! {
        div class="welcome" {
            h1 { bdi { (reader::plain::excerpt(&menu.site_name, pages::MAX_NAME_CHARS)) } }
            @if menu.channels.is_empty() {
                p { "Nothing is stored yet. " code { "annalist doctor" } " says what is missing." }
            } @else {
                p { "Choose a channel, or search in all of them." }
            }
        }
    };
    framed(&menu, "Channels", Some(SitePage::Channels), MainPane::Channels, main)
}

/// Which channels are listed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ChannelsParams {
    channels: Option<String>,
}

/// Which page of files.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FilesParams {
    team: Option<String>,
    after: Option<String>,
}

/// `/files`
pub(crate) async fn files(State(state): SharedState, Query(asked): Query<FilesParams>) -> PageResult {
    let start = match (asked.team.as_deref().map(TeamId::parse), asked.after) {
        (Some(Ok(team)), Some(file)) => Some(FilesStart { team, file }),
        (_, _) => None,
    };
    let page = gather::files::read(&*state.archive, start.as_ref()).await?;
    let main = html! { div class="plain-page" { (pages::files::of(&page, &LINKS)) } };
    framed(&menu(&state, None).await?, "Files", Some(SitePage::Files), MainPane::Page, main)
}

/// Of what, and of when.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FiguresParams {
    week: Option<String>,
    team: Option<String>,
}

/// `/stats`
pub(crate) async fn figures(State(state): SharedState, Query(asked): Query<FiguresParams>) -> PageResult {
    let now = Timestamp::from_millisecond(state.clock.now().0).unwrap_or_default();
    let period = match asked.week.as_deref().filter(|week| !week.is_empty()) {
        Some(week) => Period::week(week).map_err(|error| PageError::Meaningless(error.to_string()))?,
        None => Period::last_week(now),
    };
    let teams = find::teams(&*state.archive).await?;
    let wanted = asked.team.as_deref();
    if teams.is_empty() && wanted.is_none() {
        let main =
            html! { div class="plain-page" { h1 { "Figures" } p { "There is nothing to count yet." } } };
        return framed(&menu(&state, None).await?, "Figures", Some(SitePage::Figures), MainPane::Page, main);
    }
    let team = teams.iter().find(|team| wanted.is_none_or(|wanted| team.as_str() == wanted));
    let team = team.ok_or_else(|| PageError::missing("Nothing of this workspace is stored."))?;
    let archive = &*state.archive;
    let rollups = Rollups::read(archive, state.index.changes(), team).await?;
    let report = making::make(archive, team, ReportScope::Team, period, rollups.as_ref(), now).await?;
    let main = html! {
        div class="plain-page" {
            form class="week-form" action="/stats" method="get" {
                label for="week" { "Week" }
                input id="week" name="week" type="week" placeholder="2026-W46" pattern="[0-9]{4}-W[0-9]{2}" value=(asked.week.unwrap_or_default());
                @if teams.len() > 1 {
                    label for="team" { "Workspace" }
                    select id="team" name="team" {
                        @for known in &teams { option selected[known == team] { (known) } }
                    }
                }
                button type="submit" { "Show" }
            }
            (pages::figures::of(&report, Some(&LINKS)))
        }
    };
    framed(&menu(&state, None).await?, "Figures", Some(SitePage::Figures), MainPane::Page, main)
}

/// `/coverage`
pub(crate) async fn coverage(State(state): SharedState) -> PageResult {
    let rows = gather::coverage::read(&*state.archive).await?;
    let main = html! { div class="plain-page" { (pages::coverage::of(&rows, &state.zone, &LINKS)) } };
    framed(&menu(&state, None).await?, "Coverage", Some(SitePage::Coverage), MainPane::Page, main)
}
