//! Handlers for pages of the whole archive: channels, files, figures, coverage.

use axum::extract::{Path, Query};
use jiff::Timestamp;
use maud::html;
use reader::figures::excerpts;
use reader::figures::making::{self, ReportScope};
use reader::figures::period::Period;
use reader::figures::rollups::Rollups;
use reader::find;
use reader::names::DisplayNames;
use reader::plain;
use serde::Deserialize;
use slack::ids::{ChannelId, FileId, TeamId, UserId};

use super::cached::{activity, menu};
use super::search::newest_with_files;
use super::{LINKS, PageResult, Visit, framed};
use crate::answer::PageError;
use crate::gather;
use crate::gather::files::FilesFilter;
use crate::links::SitePage;
use crate::pages;
use crate::pages::files::{FileKind, FileStateName, FilesContext, FilesForm, FilesStart};
use crate::pages::home::NewestFiles;
use crate::pages::layout::MainPane;
use crate::pages::sidebar::{ChannelMenu, MenuChannel};

/// `/`
pub(crate) async fn channels(state: Visit, Query(params): Query<ChannelsParams>) -> PageResult {
    let menu = menu(&state, None).await?;
    let filter = params.channels.unwrap_or_default();
    let menu = ChannelMenu { filter, ..menu };
    let activity = activity(&state).await?;
    let hits = newest_with_files(&state, NEWEST_FILES).await;
    let names = gather::files::names(&*state.archive, NewestFiles::ids(&hits)).await?;
    let newest_files = NewestFiles { hits, names };
    let page = pages::home::home_page(&menu, &activity, &newest_files, &state.zone, &LINKS);
    let main = html! { div class="plain-page" { (page) } };
    framed(&menu, "Channels", Some(SitePage::Channels), MainPane::Channels, main)
}

/// Messages with files on the first page.
const NEWEST_FILES: usize = 6;

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
    page: usize,
}

/// `/files`
pub(crate) async fn files(
    state: Visit,
    Query(form): Query<FilesForm>,
    Query(FilesParams { team, after, page }): Query<FilesParams>,
) -> PageResult {
    let menu = menu(&state, None).await?;
    let filter = files_filter(&state, &menu, &form).await?;
    let after = team.and_then(|team| TeamId::parse(&team).ok()).zip(after);
    let page = gather::files::read(&*state.archive, &filter, &FilesStart { after, page }).await?;
    let mut names = DisplayNames::for_teams(&*state.archive, find::teams(&*state.archive).await?);
    names.learn_people(page.files.iter().filter_map(|file| file.user.as_ref()).map(UserId::as_str)).await?;
    let context = FilesContext { links: &LINKS, names: &names, menu: &menu, zone: &state.zone };
    let main = html! { div class="plain-page" { (pages::files::files_page(&page, &form, &context)) } };
    framed(&menu, "Files", Some(SitePage::Files), MainPane::Page, main)
}

/// Looks up the names in the form.
async fn files_filter(state: &Visit, menu: &ChannelMenu, form: &FilesForm) -> Result<FilesFilter, PageError> {
    let invalid = |what: &str, value: &str, advice: &str| {
        Err(PageError::Invalid(format!("There is no {what} {}. {advice}", plain::excerpt(value, 80))))
    };
    let kind = FileKind::ALL.into_iter().find(|kind| kind.as_str() == form.kind);
    if kind.is_none() && !form.kind.is_empty() {
        return invalid("type", &form.kind, "Write image, video, audio, document or other.");
    }
    let file_state = FileStateName::ALL.into_iter().find(|state| state.as_str() == form.state);
    if file_state.is_none() && !form.state.is_empty() {
        return invalid("state", &form.state, "Write held, failed, skipped or pending.");
    }
    let called = form.channel.trim().trim_start_matches('#');
    let is_called = |channel: &&MenuChannel| {
        channel.name.as_deref() == Some(called)
            || channel.parts.iter().flatten().any(|location| location.channel.as_str() == called)
    };
    let channels = menu.channels.iter().filter(is_called).flat_map(|channel| channel.parts.iter().flatten());
    let channels: Vec<ChannelId> = channels.map(|location| location.channel.clone()).collect();
    if channels.is_empty() && !called.is_empty() {
        return invalid("channel", called, "Write its name or its id.");
    }
    let people = match form.from.trim() {
        "" => None,
        called => {
            let teams = find::teams(&*state.archive).await?;
            let found = find::find_people(&*state.archive, called, teams).await?;
            if found.is_empty() {
                return invalid("person", called, "Write their name or their id.");
            }
            Some(found.into_iter().map(|(_, user)| user).collect())
        }
    };
    Ok(FilesFilter { name: form.q.trim().to_lowercase(), channels, people, kind, state: file_state })
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
    let week = |period: Period| {
        let name =
            period.week_name().filter(|_| period.from() <= now.as_microsecond() && period.from() >= 0)?;
        let team = if teams.len() > 1 { format!("&team={team}") } else { String::new() };
        Some(format!("/stats?week={name}{team}"))
    };
    let menu = menu(&state, None).await?;
    let oldest = pages::home::oldest(&menu, &*activity(&state).await?);
    let has_earlier = oldest.is_none_or(|oldest| oldest.micros() < period.from());
    let before = week(period.previous()).filter(|_| has_earlier);
    let after = week(period.next());
    let mut report =
        making::make_report(archive, team, ReportScope::Team, period, rollups.as_ref(), now).await?;
    excerpts::add(archive, &mut report).await?;
    let main = html! {
        div class="plain-page" {
            form class="week-form" action="/stats" method="get" {
                @if let Some(before) = before { a rel="prev" href=(before) { "Week before" } }
                @if let Some(after) = after { a rel="next" href=(after) { "Week after" } }
                label for="week" { "Week" }
                input id="week" name="week" type="week" placeholder="2026-W46" pattern="[0-9]{4}-W[0-9]{2}" value=[period.week_name()];
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
    framed(&menu, "Figures", Some(SitePage::Figures), MainPane::Page, main)
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
