//! Renders search results.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use reader::numbers::{counted, grouped};
use reader::plain;
use search::hits::SearchHit;
use slack::ids::UserId;

use super::public::{FeedEntry, MAX_TITLE_CHARS};
use super::{MAX_NAME_CHARS, timeline};
use crate::links::{LinkScheme, SitePage};
use crate::public_links::encoded;
use crate::times;

/// A page of hits.
#[derive(Debug, Default)]
pub struct SearchPage {
    pub query: String,
    /// The hits, newest first.
    pub hits: Vec<SearchHit>,
    /// The page number, starting at 1.
    pub number: usize,
    /// Whether there are more hits.
    pub has_more: bool,
    /// The number of hits on all pages.
    pub count: HitCount,
    /// Whether the hits can be ranked.
    pub can_rank: bool,
    /// Whether the best hits come first.
    pub is_ranked: bool,
    /// Words of the query that look like filters or operators, but are read as words.
    pub unknown_operators: Vec<String>,
    /// Remarks about the result.
    pub remarks: Vec<String>,
    /// Why the search failed.
    pub error: Option<String>,
    /// The address of the feed of these hits.
    pub feed: Option<String>,
}

/// The number of hits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HitCount {
    /// It is not known.
    #[default]
    Unknown,
    /// All were read.
    Exact(usize),
    /// The number of messages of the index that may match.
    About(u64),
    /// There are too many to count.
    MoreThan(usize),
}

/// Maximum number of people and channels of the hits by which a search can be narrowed.
const MAX_CHIPS: usize = 3;

/// The address of a search.
pub fn address(query: &str, is_ranked: bool) -> String {
    let sort = if is_ranked { "&sort=best" } else { "" };
    format!("/search?q={}{sort}", encoded(query))
}

/// Renders the hits with their matches marked.
pub fn search_page(page: &SearchPage, zone: &TimeZone, links: &dyn LinkScheme) -> Markup {
    html! {
        h1 { "Search" }
        @if let Some(error) = &page.error { p class="note" role="alert" { (plain::excerpt(error, 500)) } }
        @for remark in &page.remarks { p class="note" { (remark) } }
        @for word in &page.unknown_operators { p class="note" { code { (word) } " is read as words. The filters are listed under “How to search”." } }
        @if page.query.trim().is_empty() || page.error.is_some() {
            (grammar())
        } @else if page.hits.is_empty() {
            p { "Nothing was found." @if page.query.trim().contains(' ') { " Fewer words or filters find more." } }
            (grammar())
        } @else {
            (summary(page))
            (chips(page))
            ol class="hits" start=((page.number.saturating_sub(1)) * HITS_PER_PAGE + 1) {
                @for hit in &page.hits { li { (one(hit, &page.query, zone, links)) } }
            }
            @if !page.unknown_operators.is_empty() { (grammar()) }
        }
        (page_links(page, links))
    }
}

pub const HITS_PER_PAGE: usize = 20;

/// Renders the number of hits, and the switch of their order.
fn summary(page: &SearchPage) -> Markup {
    let order = |is_ranked: bool, name: &str| {
        html! {
            @if page.is_ranked == is_ranked { strong { (name) } } @else { a href=(address(&page.query, is_ranked)) { (name) } }
        }
    };
    html! {
        p class="quiet" {
            @match page.count {
                HitCount::Unknown => {},
                HitCount::Exact(count) => (counted(count, "message", "messages")),
                HitCount::About(count) => { "about " (counted(count, "message", "messages")) },
                HitCount::MoreThan(count) => { "more than " (grouped(count as u64)) " messages" },
            }
            @if let Some(feed) = &page.feed { " · " (timeline::feed_link(feed)) }
            @if page.can_rank { " · " (order(false, "newest first")) " · " (order(true, "best first")) }
        }
    }
}

/// Renders links that narrow the search to channels and people of the hits, or to messages that have something.
fn chips(page: &SearchPage) -> Markup {
    // A channel and a person once, but everything that a message may have.
    let kind = |filter: &str| match filter.split_inclusive(':').next() {
        Some(kind @ ("in:" | "from:")) => kind.to_owned(),
        Some(_) | None => filter.to_owned(),
    };
    let mut filters: Vec<(String, String)> = Vec::new();
    let mut add = |all: &mut dyn Iterator<Item = (String, String)>| {
        for filter in all.take(MAX_CHIPS * HITS_PER_PAGE) {
            let is_known = filters.contains(&filter);
            let same_kind = |other: &&(String, String)| kind(&other.0) == kind(&filter.0);
            if !is_known && filters.iter().filter(same_kind).count() < MAX_CHIPS {
                filters.push(filter);
            }
        }
    };
    let name = |sign: char, name: &str| format!("{sign}{}", plain::excerpt(name, MAX_NAME_CHARS));
    add(&mut page.hits.iter().map(|hit| {
        let channel = hit.location.channel.as_str();
        (format!("in:{channel}"), name('#', hit.channel_name.as_deref().unwrap_or(channel)))
    }));
    add(&mut page.hits.iter().filter_map(|hit| {
        Some((format!("from:{}", UserId::parse(hit.message.user()?).ok()?), name('@', &hit.author)))
    }));
    add(&mut ["has:file", "has:link", "is:thread"]
        .iter()
        .map(|filter| ((*filter).to_owned(), (*filter).to_owned())));
    html! {
        ul class="chips" aria-label="Narrow the search" {
            @for (filter, name) in filters.iter().filter(|(filter, _)| !page.query.contains(kind(filter).as_str())) {
                li { a href=(address(&format!("{} {filter}", page.query.trim()), page.is_ranked)) { bdi { (name) } } }
            }
        }
    }
}

/// Adds the query to the address of a message, so that the page can mark its words.
fn with_query(address: &str, query: &str) -> String {
    let (path, anchor) = address.split_once('#').unwrap_or((address, ""));
    let sign = if path.contains('?') { '&' } else { '?' };
    format!("{path}{sign}q={}#{anchor}", encoded(query))
}

fn is_reply(hit: &SearchHit) -> bool {
    hit.thread_ts.as_ref().is_some_and(|root_ts| *root_ts != hit.ts)
}

fn address_of(hit: &SearchHit, links: &dyn LinkScheme) -> String {
    if is_reply(hit) && !hit.message.is_broadcast() {
        // Link the reply and not the root, because a long thread has several pages.
        format!("{}#{}", links.thread(&hit.location, &hit.ts), crate::links::anchor_in_thread(&hit.ts))
    } else {
        links.message(&hit.location, &hit.ts)
    }
}

/// The entry of a hit in the feed of a site with this address.
pub(crate) fn feed_entry(hit: &SearchHit, site: &str, links: &dyn LinkScheme) -> FeedEntry {
    let published = times::machine_readable(&hit.ts);
    let updated = hit.message.updated_ts().and_then(|updated| updated.parse::<Timestamp>().ok());
    let first = hit.text.lines().find(|line| !line.trim().is_empty()).unwrap_or(&hit.author);
    FeedEntry {
        address: format!("{site}{}", address_of(hit, links)),
        title: plain::excerpt(first.trim(), MAX_TITLE_CHARS),
        author: hit.author.clone(),
        updated: updated.map_or_else(|| published.clone(), |updated| updated.to_string()),
        published,
        content: hit.text.clone(),
    }
}

fn one(hit: &SearchHit, query: &str, zone: &TimeZone, links: &dyn LinkScheme) -> Markup {
    let is_reply = is_reply(hit);
    let address = with_query(&address_of(hit, links), query);
    let canvas = hit.canvas.as_ref().and_then(|canvas| links.canvas(&hit.location.team, canvas));
    let channel = hit.channel_name.as_deref().unwrap_or(hit.location.channel.as_str());
    html! {
        article class={ "hit" @if hit.message.is_deleted() { " deleted" } } data-ts=(hit.ts.as_str()) {
            p class="head" {
                a class="place" href=(links.channel(&hit.location)) { bdi { "#" (plain::excerpt(channel, MAX_NAME_CHARS)) } }
                " " bdi class="author" { (plain::excerpt(&hit.author, MAX_NAME_CHARS)) }
                " " a class="time" href=(address) { time datetime=(times::machine_readable(&hit.ts)) { (times::short(&hit.ts, zone)) } }
                @if is_reply { " " span class="quiet" { "in a thread" } }
                @if hit.message.is_deleted() { " " span class="mark-deleted" { "(deleted)" } }
            }
            @if hit.canvas.is_some() {
                p class="text" dir="auto" {
                    "Canvas "
                    @let name = plain::excerpt(&hit.text, MAX_NAME_CHARS);
                    @match canvas { Some(canvas) => a href=(canvas) { bdi { (name) } }, None => bdi { (name) } }
                }
            }
            p class="text" dir="auto" {
                @for part in &hit.snippet {
                    @let text = plain::line(&part.text);
                    @if part.is_match { mark { (text) } } @else { (text) }
                }
            }
        }
    }
}

fn page_links(page: &SearchPage, links: &dyn LinkScheme) -> Markup {
    let form = |number: usize, name: &str| {
        html! {
            @if let Some(address) = links.site_page(SitePage::Search) {
                form action=(address) method="get" {
                    input type="hidden" name="q" value=(page.query);
                    @if page.is_ranked { input type="hidden" name="sort" value="best"; }
                    input type="hidden" name="page" value=(number);
                    button type="submit" { (name) }
                }
            }
        }
    };
    html! {
        @if page.number > 1 || page.has_more {
            div class="ways" {
                @if page.number > 1 { (form(page.number - 1, if page.is_ranked { "Previous" } else { "Newer" })) }
                @if page.has_more { (form(page.number + 1, if page.is_ranked { "Next" } else { "Older" })) }
            }
        }
    }
}

/// Renders the help for the query language.
fn grammar() -> Markup {
    let rows = [
        ("deploy failed", "both words"),
        ("\"deploy failed\"", "the words next to each other"),
        ("deploy*", "words with this prefix"),
        ("-draft", "messages without the word"),
        ("from:@name in:#channel", "of a person, in a channel"),
        ("before:2026-11-01 after:2026-10-01 on:2026-10-05 during:2026-10", "of a time"),
        ("has:file has:link has:reaction has:pin has:code has:thread", "with one"),
        ("is:thread is:edited is:bot is:deleted", "of a kind"),
    ];
    html! {
        table class="grammar" {
            caption { "How to search" }
            tbody { @for (query, what) in rows { tr { th scope="row" { code { (query) } } td { (what) } } } }
        }
        p class="quiet" { "A link that Slack copied leads to its message." }
    }
}
