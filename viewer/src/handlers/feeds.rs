//! Atom feeds of a channel and of a search.

use axum::extract::{Path, Query};
use axum::http::header::{CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use reader::find;
use reader::names::DisplayNames;
use reader::search::query::SearchQuery;
use search::hits::{self, SearchError, SearchRequest};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use slack::hex::to_hex;

use super::{LINKS, PageResult, Visit, no_channel};
use crate::answer::PageError;
use crate::gather::timeline::TimelineStart;
use crate::gather::{self, channel, learn_names};
use crate::links::LinkScheme;
use crate::login::is_https;
use crate::pages::public::{self, FeedEntry};
use crate::pages::search as search_pages;

const MAX_ENTRIES: usize = 50;

/// Pages of a channel that are read for a feed: of deleted messages and notices, there may be many in a row.
const MAX_PAGES: usize = 4;

/// `/c/{team}/{channel}/feed.xml`
pub(crate) async fn of_channel(
    state: Visit,
    Path((team, called)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> PageResult {
    let channel = channel::channel_in_team(&*state.archive, &team, &called).await?.ok_or_else(no_channel)?;
    let (mut start, mut messages) = (TimelineStart::Newest, Vec::new());
    for _ in 0..MAX_PAGES {
        let page = gather::timeline::read(&channel, &start, &state.zone).await?;
        let shown = page.messages.into_iter().rev();
        messages.extend(shown.filter(|message| !message.is_deleted() && !message.is_join_or_leave()));
        match page.ends.older {
            Some(older) if messages.len() < MAX_ENTRIES => start = TimelineStart::Before(older),
            Some(_) | None => break,
        }
    }
    messages.truncate(MAX_ENTRIES);
    let mut names = DisplayNames::for_teams(&*state.archive, channel.teams());
    learn_names(&mut names, &messages.iter().collect::<Vec<_>>()).await?;
    let location = channel.current_location();
    let name = channel::title(&*state.archive, location, &mut names).await?.name;
    let site = site(&uri, &headers);
    let entries: Vec<FeedEntry> = messages
        .iter()
        .map(|message| {
            FeedEntry::new(message, format!("{site}{}", LINKS.message(location, &message.ts)), &names)
        })
        .collect();
    let page = LINKS.channel(location);
    let feed = format!("{site}{}", feed_of_channel(&page));
    Ok(answer(&headers, public::feed(&format!("#{name}"), &feed, &format!("{site}{page}"), &entries)))
}

/// The query of a feed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FeedParams {
    q: String,
}

/// `/search/feed.xml`
pub(crate) async fn of_search(
    state: Visit,
    Query(FeedParams { q }): Query<FeedParams>,
    uri: Uri,
    headers: HeaderMap,
) -> PageResult {
    let invalid = |error: &dyn std::error::Error| PageError::Invalid(error.to_string());
    if q.trim().is_empty() {
        return Err(PageError::Invalid("Write what to search for: /search/feed.xml?q=WORDS".to_owned()));
    }
    let request = SearchRequest {
        query: SearchQuery::parse(&q).map_err(|error| invalid(&error))?,
        teams: find::teams(&*state.archive).await?,
        zone: state.zone.clone(),
        limit: MAX_ENTRIES,
        is_ranked: false,
        with_deleted: false,
        before: None,
        hidden: state.reader.sight.hidden().cloned().unwrap_or_default(),
    };
    let index = state.index.get().await.ok_or(PageError::NoIndex)?;
    let found = match hits::search(&*state.archive, &index, request).await {
        Ok(found) => found,
        Err(SearchError::Archive(error)) => return Err(error.into()),
        Err(SearchError::Index(_)) => return Err(PageError::NoIndex),
        Err(error @ SearchError::Resolve(_)) => return Err(invalid(&error)),
    };
    let site = site(&uri, &headers);
    let entry = |hit| search_pages::feed_entry(hit, &site, &LINKS);
    let entries: Vec<FeedEntry> = found.hits.iter().map(entry).collect();
    let feed = format!("{site}{}", feed_of_search(&q));
    let page = format!("{site}{}", search_pages::address(&q, false));
    Ok(answer(&headers, public::feed(&q, &feed, &page, &entries)))
}

/// The address of the feed of the channel with this page.
pub(super) fn feed_of_channel(page: &str) -> String {
    format!("{page}/feed.xml")
}

/// The address of the feed of a search.
pub(super) fn feed_of_search(query: &str) -> String {
    format!("/search/feed.xml?q={}", crate::public_links::encoded(query))
}

/// The address of this site, as the client has it. A proxy in front says whether that is of `https`.
fn site(uri: &Uri, headers: &HeaderMap) -> String {
    let named = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = named.or_else(|| Some(uri.authority()?.as_str())).unwrap_or_default();
    format!("{}://{host}", if is_https(headers) { "https" } else { "http" })
}

/// A feed reader that has this feed already gets nothing.
fn answer(headers: &HeaderMap, feed: String) -> Response {
    let tag = format!("\"{}\"", to_hex(&Sha256::digest(feed.as_bytes())[..16]));
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|known| known.to_str().ok());
    if known.flat_map(|known| known.split(',')).any(|known| known.trim().trim_start_matches("W/") == tag) {
        return (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response();
    }
    let kind = "application/atom+xml; charset=utf-8".to_owned();
    ([(CONTENT_TYPE, kind), (ETAG, tag)], feed).into_response()
}
