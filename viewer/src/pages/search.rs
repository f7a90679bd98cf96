//! Renders search results.

use jiff::tz::TimeZone;
use maud::{Markup, html};
use reader::plain;
use search::hits::SearchHit;

use super::MAX_NAME_CHARS;
use crate::links::{LinkScheme, SitePage};
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
    /// Remarks about the result.
    pub remarks: Vec<String>,
    /// Why the search failed.
    pub error: Option<String>,
}

/// Renders the hits with their matches marked.
pub fn search_page(page: &SearchPage, zone: &TimeZone, links: &dyn LinkScheme) -> Markup {
    html! {
        h1 { "Search" }
        @if let Some(error) = &page.error { p class="note" role="alert" { (plain::excerpt(error, 500)) } }
        @for remark in &page.remarks { p class="note" { (remark) } }
        @if page.query.trim().is_empty() || page.error.is_some() {
            (grammar())
        } @else if page.hits.is_empty() {
            p { "Nothing was found." }
            (grammar())
        } @else {
            ol class="hits" start=((page.number.saturating_sub(1)) * HITS_PER_PAGE + 1) {
                @for hit in &page.hits { li { (one(hit, zone, links)) } }
            }
        }
        (page_links(page, links))
    }
}

pub const HITS_PER_PAGE: usize = 20;

fn one(hit: &SearchHit, zone: &TimeZone, links: &dyn LinkScheme) -> Markup {
    let is_reply = hit.thread_ts.as_ref().is_some_and(|root_ts| *root_ts != hit.ts);
    let is_in_thread_only = is_reply && !hit.message.is_broadcast();
    // Link the reply and not the root, because a long thread has several pages.
    let address = if is_in_thread_only {
        format!("{}#{}", links.thread(&hit.location, &hit.ts), crate::links::anchor_in_thread(&hit.ts))
    } else {
        links.message(&hit.location, &hit.ts)
    };
    let canvas = hit.canvas.as_ref().and_then(|canvas| links.canvas(&hit.location.team, canvas));
    let channel = hit.channel_name.as_deref().unwrap_or(hit.location.channel.as_str());
    html! {
        article class={ "hit" @if hit.message.is_deleted() { " deleted" } } data-ts=(hit.ts.as_str()) {
            p class="head" {
                a href=(links.channel(&hit.location)) { bdi { "#" (plain::excerpt(channel, MAX_NAME_CHARS)) } }
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
                    input type="hidden" name="page" value=(number);
                    button type="submit" { (name) }
                }
            }
        }
    };
    html! {
        @if page.number > 1 || page.has_more {
            div class="ways" {
                @if page.number > 1 { (form(page.number - 1, "Newer")) }
                @if page.has_more { (form(page.number + 1, "Older")) }
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
