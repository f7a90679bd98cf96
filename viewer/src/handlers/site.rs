//! Handlers for pages of the whole archive: channels, files, coverage.

use axum::extract::{Path, Query};
use maud::html;
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

/// `/coverage`
pub(crate) async fn coverage(state: Visit) -> PageResult {
    let rows = gather::coverage::read(&*state.archive).await?;
    let missing_files = reader::files::missing(&*state.archive).await?;
    let waiting = gather::coverage::read_waiting(&*state.archive).await?;
    let page = pages::coverage::coverage_page(&rows, missing_files, &waiting, &state.zone, &LINKS);
    let main = html! { div class="plain-page" { (page) } };
    framed(&menu(&state, None).await?, "Coverage", Some(SitePage::Coverage), MainPane::Page, main)
}
