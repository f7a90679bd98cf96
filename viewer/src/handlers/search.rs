//! What is looked for.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use maud::html;
use reader::find;
use reader::permalink::SlackLink;
use reader::search::query::SearchQuery;
use search::hits::{self, SearchError, SearchRequest};
use serde::Deserialize;

use super::links::follow;
use super::remembered::menu;
use super::{LINKS, PageResult, SharedState};
use crate::answer::{self, PageError};
use crate::links::SitePage;
use crate::pages;
use crate::pages::layout::{self, Frame, MainPane};
use crate::pages::search::{HITS, SearchPage};
use crate::router::ViewerState;

/// Pages of hits: who reads further has to say better what they look for.
const MAX_HIT_PAGES: usize = 50;

/// What is looked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SearchParams {
    q: String,
    page: Option<usize>,
}

/// `/search`
pub(crate) async fn search(State(state): SharedState, Query(asked): Query<SearchParams>) -> PageResult {
    if let Some(link) = SlackLink::parse(&asked.q) {
        return follow(&state, link).await;
    }
    let number = asked.page.unwrap_or(1).clamp(1, MAX_HIT_PAGES);
    let page = SearchPage { query: asked.q, number, ..SearchPage::default() };
    let (status, page) = found(&state, page).await?;
    let main = html! { div class="plain-page" { (pages::search::of(&page, &state.zone, &LINKS)) } };
    let frame = Frame {
        title: if page.query.is_empty() { "Search".to_owned() } else { page.query.clone() },
        page: Some(SitePage::Search),
        query: &page.query,
        menu: &menu(&state, None).await?,
        main_pane: MainPane::Page,
        main,
        beside: None,
    };
    Ok((status, answer::html(layout::page(&frame, &LINKS))).into_response())
}

async fn found(state: &ViewerState, mut page: SearchPage) -> Result<(StatusCode, SearchPage), PageError> {
    if page.query.trim().is_empty() {
        return Ok((StatusCode::OK, page));
    }
    let query = match SearchQuery::parse(&page.query) {
        Ok(query) => query,
        Err(error) => {
            page.error = Some(error.to_string());
            return Ok((StatusCode::BAD_REQUEST, page));
        }
    };
    let Some(index) = state.index.get().await else {
        page.error = Some("The search index cannot be used: the log of this program says why.".to_owned());
        return Ok((StatusCode::SERVICE_UNAVAILABLE, page));
    };
    page.remarks.extend(state.index.behind(&index).await);
    let teams = find::teams(&*state.archive).await?;
    let (zone, limit) = (state.zone.clone(), page.number * HITS + 1);
    let request = SearchRequest { query, teams, zone, limit, is_ranked: false, with_deleted: false };
    match hits::search(&*state.archive, &index, request).await {
        Ok(mut answer) => {
            page.has_more = answer.hits.len() == limit && page.number < MAX_HIT_PAGES;
            answer.hits.truncate(limit - 1);
            page.hits = answer.hits.split_off(answer.hits.len().min((page.number - 1) * HITS));
            if answer.is_cut {
                page.remarks
                    .push("Only the newest messages were looked at: add a word or a filter.".to_owned());
            }
        }
        Err(SearchError::Archive(error)) => return Err(error.into()),
        Err(error) => {
            let is_ours = matches!(error, SearchError::Index(_));
            let status = if is_ours { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::BAD_REQUEST };
            page.error = Some(error.to_string());
            return Ok((status, page));
        }
    }
    Ok((StatusCode::OK, page))
}
