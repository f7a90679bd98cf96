//! Renders what is known about a channel, and the list of its threads.

use maud::{Markup, html};
use reader::numbers::{counted, grouped};
use reader::plain;
use reader::text::flat;
use search::counts::ThreadSize;
use slack::ids::{FileId, Ts};

use super::message::{self, PageMessage};
use super::timeline::{self, ChannelTitle};
use super::{MAX_NAME_CHARS, PageContext};
use crate::links::{AboutChannel, SitePage};
use crate::times;

/// Maximum number of members that are named.
pub const MAX_MEMBERS: usize = 200;

/// Maximum number of former names, and of characters of a topic or purpose. Slack permits 250.
const MAX_FORMER_NAMES: usize = 20;
const MAX_TOPIC_CHARS: usize = 1_000;

/// Maximum number of characters of a thread's first line.
const MAX_LINE_CHARS: usize = 200;

/// What is known about a channel, in addition to its title.
#[derive(Debug)]
pub struct ChannelInfo {
    /// Its purpose, as people read it.
    pub purpose: String,
    /// Names that it had before, newest first.
    pub former_names: Vec<String>,
    /// When it was created.
    pub created: Option<Ts>,
    /// Its members, if Slack listed them.
    pub members: Option<NamedMembers>,
    /// Its own canvas.
    pub canvas: Option<FileId>,
}

/// The members of a channel at a time.
#[derive(Debug)]
pub struct NamedMembers {
    /// Their number.
    pub count: usize,
    /// The names and ids of the first ones by name.
    pub named: Vec<(String, String)>,
    /// When Slack listed them.
    pub as_of: Ts,
}

/// A thread in the list of a channel's threads.
#[derive(Debug)]
pub struct ListedThread {
    /// Its root.
    pub root_ts: Ts,
    /// Its replies.
    pub size: ThreadSize,
    /// Whether the archive has the root.
    pub has_root: bool,
    /// The root, or otherwise the newest reply.
    pub first: Option<PageMessage>,
}

/// Renders the facts about a channel, for the pane next to it.
pub fn info_pane(title: &ChannelTitle, info: &ChannelInfo, shown: &PageContext<'_>) -> Markup {
    let ChannelInfo { purpose, former_names, created, members, canvas } = info;
    let location = shown.location;
    let excerpt = |text: &str| plain::excerpt(text, MAX_TOPIC_CHARS);
    let former: Vec<String> =
        former_names.iter().take(MAX_FORMER_NAMES).map(|name| plain::excerpt(name, MAX_NAME_CHARS)).collect();
    html! {
        header class="thread-head" {
            h2 { bdi { "#" (plain::excerpt(&title.name, MAX_NAME_CHARS)) } @for mark in &title.marks { " " span class="mark" { (mark) } } }
            a class="close" href=(shown.links.channel(location)) { "Close" span class="unseen" { " the panel" } }
        }
        div class="timeline" tabindex="0" role="region" aria-label="About the channel" {
            div class="timeline-inner" {
                dl class="facts" {
                    @if !title.topic.is_empty() { dt { "Topic" } dd dir="auto" { (excerpt(&title.topic)) } }
                    @if !purpose.is_empty() { dt { "Purpose" } dd dir="auto" { (excerpt(purpose)) } }
                    @if !former.is_empty() { dt { "Formerly" } dd { bdi { "#" (former.join(", #")) } } }
                    @if let Some(day) = created.as_ref().and_then(|ts| times::day(ts, shown.zone)) { dt { "Created" } dd { (times::day_in_words(day)) } }
                    @if let Some(members) = members { dt { "Members" } dd { (grouped(members.count as u64)) } }
                }
                p class="ways" {
                    @if let Some(threads) = shown.links.about_channel(location, AboutChannel::Threads) { a href=(threads) { "Threads" } }
                    @if let Some(files) = shown.links.site_page(SitePage::Files) { a href={ (files) "?channel=" (location.channel) } { "Files" } }
                    @if let Some(canvas) = canvas.as_ref().and_then(|canvas| shown.links.canvas(&location.team, canvas)) { a href=(canvas) { "Canvas" } }
                }
                @if !title.pins.is_empty() { h3 { "Pinned" } (timeline::pin_list(&title.pins, shown)) }
                @if !title.bookmarks.is_empty() { h3 { "Bookmarks" } (timeline::bookmark_list(&title.bookmarks, shown)) }
                @if let Some(members) = members { h3 { "Members" } (member_list(members, shown)) }
            }
        }
    }
}

fn member_list(members: &NamedMembers, shown: &PageContext<'_>) -> Markup {
    let NamedMembers { count, named, as_of } = members;
    html! {
        ul class="members" {
            @for (name, id) in named {
                li { (message::person_link(id, &plain::excerpt(name, MAX_NAME_CHARS), shown)) }
            }
        }
        @if *count > named.len() { p { "and " (grouped((count - named.len()) as u64)) " more" } }
        p class="quiet" { "As Slack listed them, " (times::short(as_of, shown.zone)) "." }
    }
}

/// Renders the threads of a channel. A remark says that some may be missing; `next` is the address of more.
pub fn threads_page(
    title: &ChannelTitle,
    threads: &[ListedThread],
    remark: Option<&str>,
    next: Option<&str>,
    shown: &PageContext<'_>,
) -> Markup {
    html! {
        h1 { "Threads in " a href=(shown.links.channel(shown.location)) { bdi { "#" (plain::excerpt(&title.name, MAX_NAME_CHARS)) } } }
        @if let Some(remark) = remark { p class="note" { (remark) } }
        @if threads.is_empty() { p { "There are no threads here." } }
        ol class="hits" { @for thread in threads { li { (listed_thread(thread, shown)) } } }
        @if let Some(next) = next { p class="way" { a rel="next" href=(next) { "More threads" } } }
    }
}

fn listed_thread(thread: &ListedThread, shown: &PageContext<'_>) -> Markup {
    let ListedThread { root_ts, size: ThreadSize { replies, last }, has_root, first } = thread;
    let lines = first.iter().flat_map(|first| &first.content.lines);
    let line = lines.map(|line| flat::line(line, shown.names)).find(|line| !line.trim().is_empty());
    html! {
        article class="hit" data-ts=(root_ts.as_str()) {
            p class="head" {
                @if let Some(first) = first { bdi class="author" { (message::author_name(&first.content.author, shown)) } " " }
                a class="time" href=(shown.links.thread(shown.location, root_ts)) { time datetime=(times::machine_readable(root_ts)) { (times::short(root_ts, shown.zone)) } }
            }
            p class="text" dir="auto" {
                @if !has_root { span class="quiet" { "Its first message is not in this archive. " } }
                (plain::excerpt(line.as_deref().unwrap_or("This message has no text."), MAX_LINE_CHARS))
            }
            p class="thread" {
                span class="thread-count" { (counted(*replies, "reply", "replies")) }
                " " span class="quiet" { "last reply " time datetime=(times::machine_readable(last)) { (times::short(last, shown.zone)) } }
            }
        }
    }
}
