//! Handlers for pages of the whole archive: channels, files, figures, coverage.

use axum::extract::{Path, Query};
use jiff::Timestamp;
use maud::html;
use reader::figures::making::{self, ReportScope};
use reader::figures::period::Period;
use reader::figures::rollups::Rollups;
use reader::find;
use serde::Deserialize;
use slack::ids::{FileId, TeamId};

use super::cached::menu;
use super::{LINKS, PageResult, Visit, framed};
use crate::answer::PageError;
use crate::gather;
use crate::gather::files::FilesStart;
use crate::links::SitePage;
use crate::pages;
use crate::pages::layout::MainPane;
use crate::pages::sidebar::ChannelMenu;

/// `/`
pub(crate) async fn channels(state: Visit, Query(params): Query<ChannelsParams>) -> PageResult {
    let menu = menu(&state, None).await?;
    let filter = params.channels.unwrap_or_default();
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

/// Filters the channels.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ChannelsParams {
    channels: Option<String>,
}

/// Selects a page of files.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FilesParams {
    team: Option<String>,
    after: Option<String>,
}

/// `/files`
pub(crate) async fn files(state: Visit, Query(params): Query<FilesParams>) -> PageResult {
    let start = match (params.team.as_deref().map(TeamId::parse), params.after) {
        (Some(Ok(team)), Some(file)) => Some(FilesStart { team, file }),
        (_, _) => None,
    };
    let page = gather::files::read(&*state.archive, start.as_ref()).await?;
    let main = html! { div class="plain-page" { (pages::files::files_page(&page, &LINKS)) } };
    framed(&menu(&state, None).await?, "Files", Some(SitePage::Files), MainPane::Page, main)
}

/// `/canvas/{team}/{file}`
pub(crate) async fn canvas(state: Visit, Path((team, file)): Path<(String, String)>) -> PageResult {
    let missing = || PageError::missing("This canvas is not in the archive.");
    let (Ok(team), Ok(file)) = (TeamId::parse(&team), FileId::parse(&file)) else { return Err(missing()) };
    let page = gather::files::read_canvas(&*state.archive, &team, &file).await?.ok_or_else(missing)?;
    let main = html! { div class="plain-page" { (pages::files::canvas_page(&page, &state.zone, &LINKS)) } };
    framed(&menu(&state, None).await?, "Canvas", Some(SitePage::Files), MainPane::Page, main)
}

/// Selects a workspace and a week.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FiguresParams {
    week: Option<String>,
    team: Option<String>,
}

/// `/stats`
pub(crate) async fn figures(state: Visit, Query(params): Query<FiguresParams>) -> PageResult {
    let now = Timestamp::from_millisecond(state.clock.now().0).unwrap_or_default();
    let period = match params.week.as_deref().filter(|week| !week.is_empty()) {
        Some(week) => Period::week(week).map_err(|error| PageError::Invalid(error.to_string()))?,
        None => Period::last_week(now),
    };
    let teams = find::teams(&*state.archive).await?;
    let requested_team = params.team.as_deref();
    if teams.is_empty() && requested_team.is_none() {
        let main =
            html! { div class="plain-page" { h1 { "Figures" } p { "There is nothing to count yet." } } };
        return framed(&menu(&state, None).await?, "Figures", Some(SitePage::Figures), MainPane::Page, main);
    }
    let team =
        teams.iter().find(|team| requested_team.is_none_or(|requested_team| team.as_str() == requested_team));
    let team = team.ok_or_else(|| PageError::missing("This workspace is not in the archive."))?;
    let archive = &*state.archive;
    let rollups = Rollups::read(archive, state.index.changes(), team).await?;
    let report = making::make_report(archive, team, ReportScope::Team, period, rollups.as_ref(), now).await?;
    let main = html! {
        div class="plain-page" {
            form class="week-form" action="/stats" method="get" {
                label for="week" { "Week" }
                input id="week" name="week" type="week" placeholder="2026-W46" pattern="[0-9]{4}-W[0-9]{2}" value=(params.week.unwrap_or_default());
                @if teams.len() > 1 {
                    label for="team" { "Workspace" }
                    select id="team" name="team" {
                        @for known in &teams { option selected[known == team] { (known) } }
                    }
                }
                button type="submit" { "Show" }
            }
            (pages::figures::report_figures(&report, Some(&LINKS)))
        }
    };
    framed(&menu(&state, None).await?, "Figures", Some(SitePage::Figures), MainPane::Page, main)
}

/// `/coverage`
pub(crate) async fn coverage(state: Visit) -> PageResult {
    let rows = gather::coverage::read(&*state.archive).await?;
    let missing_files = reader::files::missing(&*state.archive).await?;
    let waiting = gather::coverage::read_waiting(&*state.archive).await?;
    let page = pages::coverage::coverage_page(&rows, missing_files, &waiting, &state.zone, &LINKS);
    let main = html! { div class="plain-page" { (page) } };
    framed(&menu(&state, None).await?, "Coverage", Some(SitePage::Coverage), MainPane::Page, main)
}
