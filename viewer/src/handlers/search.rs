//! Handler for the search.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use maud::html;
use reader::access::Sight;
use reader::find;
use reader::permalink::SlackLink;
use reader::search::query::{SearchQuery, unknown_operators};
use search::hits::{self, SearchError, SearchHit, SearchRequest};
use serde::Deserialize;

use super::cached::menu;
use super::feeds::feed_of_search;
use super::links::redirect_to_link;
use super::{LINKS, PageResult, Visit};
use crate::answer::{self, PageError, redirect_to};
use crate::links::SitePage;
use crate::pages;
use crate::pages::layout::{self, Frame, MainPane};
use crate::pages::search::{HITS_PER_PAGE, HitCount, SearchPage, address};

/// Maximum number of result pages. Beyond it, the user must refine the query.
const MAX_HIT_PAGES: usize = 50;

/// Maximum number of messages that are counted. Counting ten times as many would take longer than the search.
const MAX_COUNTED: usize = 1_000;

/// The query, the channel to add to it, the order, and the page number.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SearchParams {
    q: String,
    #[serde(rename = "in")]
    channel: Option<String>,
    sort: String,
    page: Option<usize>,
}

/// `/search`
pub(crate) async fn search(state: Visit, Query(params): Query<SearchParams>) -> PageResult {
    if let Some(link) = SlackLink::parse(&params.q) {
        return redirect_to_link(&state, link).await;
    }
    if let Some(channel) = params.channel {
        return Ok(redirect_to(&address(&format!("{} in:{channel}", params.q.trim()), false)));
    }
    let number = params.page.unwrap_or(1).clamp(1, MAX_HIT_PAGES);
    // Ranking weighs words by all messages, also by those that a restricted reader does not see.
    let can_rank = state.reader.sight == Sight::Everything;
    let is_ranked = can_rank && params.sort == "best";
    let page = SearchPage { query: params.q, number, can_rank, is_ranked, ..SearchPage::default() };
    let (status, mut page) = run_search(&state, page).await?;
    page.feed = Some(state.access.with_feed_key(feed_of_search(&page.query)));
    let main = html! { div class="plain-page" { (pages::search::search_page(&page, &state.zone, &LINKS)) } };
    let frame = Frame {
        title: if page.query.is_empty() { "Search".to_owned() } else { page.query.clone() },
        page: Some(SitePage::Search),
        query: &page.query,
        menu: &menu(&state, None).await?,
        main_pane: MainPane::Page,
        main,
        side_pane: None,
    };
    Ok((status, answer::html(layout::page(&frame, &LINKS))).into_response())
}

/// Finds the newest messages with files; none if the index cannot be used.
pub(super) async fn newest_with_files(state: &Visit, limit: usize) -> Vec<SearchHit> {
    let (Some(index), Ok(query)) = (state.index.get().await, SearchQuery::parse("has:file")) else {
        return Vec::new();
    };
    let Ok(teams) = find::teams(&*state.archive).await else { return Vec::new() };
    let request = SearchRequest {
        query,
        teams,
        zone: state.zone.clone(),
        limit,
        is_ranked: false,
        with_deleted: false,
        before: None,
        hidden: state.reader.sight.hidden().cloned().unwrap_or_default(),
    };
    hits::search(&*state.archive, &index, request).await.map(|answer| answer.hits).unwrap_or_default()
}

async fn run_search(state: &Visit, mut page: SearchPage) -> Result<(StatusCode, SearchPage), PageError> {
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
        page.error = Some("The search index cannot be used: see the log of this program.".to_owned());
        return Ok((StatusCode::SERVICE_UNAVAILABLE, page));
    };
    page.remarks.extend(state.index.lag_remark(&index, &state.reader.sight).await);
    let teams = find::teams(&*state.archive).await?;
    let (zone, limit) = (state.zone.clone(), page.number * HITS_PER_PAGE + 1);
    let hidden = state.reader.sight.hidden().cloned().unwrap_or_default();
    let is_ranked = page.is_ranked;
    let request =
        SearchRequest { query, teams, zone, limit, is_ranked, with_deleted: false, before: None, hidden };
    page.unknown_operators = unknown_operators(&page.query);
    match hits::search_and_count(&*state.archive, &index, request, MAX_COUNTED + 1).await {
        Ok((mut answer, counted)) => {
            let has_all = answer.hits.len() < limit && !answer.is_truncated;
            page.has_more = answer.hits.len() == limit && page.number < MAX_HIT_PAGES;
            answer.hits.truncate(limit - 1);
            page.count = match counted {
                _ if has_all => HitCount::Exact(answer.hits.len()),
                Some(count) if count > MAX_COUNTED as u64 => HitCount::MoreThan(MAX_COUNTED),
                Some(count) => HitCount::About(count),
                None => HitCount::Unknown,
            };
            page.hits = answer.hits.split_off(answer.hits.len().min((page.number - 1) * HITS_PER_PAGE));
            if answer.is_truncated {
                page.remarks
                    .push("Only the newest messages were looked at: add a word or a filter.".to_owned());
            }
        }
        Err(SearchError::Archive(error)) => return Err(error.into()),
        Err(error) => {
            let is_server_error = matches!(error, SearchError::Index(_));
            let status =
                if is_server_error { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::BAD_REQUEST };
            page.error = Some(error.to_string());
            return Ok((status, page));
        }
    }
    Ok((StatusCode::OK, page))
}
