//! Renders a channel's messages in chronological order.

use jiff::civil::Date;
use maud::{Markup, html};
use reader::text::{MessageAuthor, flat};
use slack::ids::Ts;

use super::message::{self, MessageFlags, PageMessage};
use super::{MAX_NAME_CHARS, PageContext, words};
use crate::links::AboutChannel;
use crate::times;

/// Maximum interval between messages of an author that are grouped under one name.
const SAME_MOMENT_MICROS: i64 = 5 * 60 * 1_000_000;

/// Maximum number of people who are named if several joined or left.
const MAX_NAMED: usize = 3;

/// Maximum length of a pinned message in the list of pins.
const MAX_PIN_CHARS: usize = 120;

/// Before the messages of every channel.
pub(super) const FIRST_TS: &str = "0000000000.000001";

/// The position of a page in its channel.
#[derive(Debug, Default)]
pub struct TimelineEnds {
    /// The message before which there are older ones.
    pub older: Option<Ts>,
    /// The message after which there are newer ones.
    pub newer: Option<Ts>,
}

/// A page of a channel.
#[derive(Debug, Default)]
pub struct TimelinePage {
    /// The messages, oldest first.
    pub messages: Vec<PageMessage>,
    /// The positions of older and newer messages.
    pub ends: TimelineEnds,
    /// The requested message.
    pub target: Option<Ts>,
    /// The requested day.
    pub day: Option<Date>,
    /// Whether the page is scrolled to its end.
    pub is_from_end: bool,
    /// The day up to which the channel was compared with Slack.
    pub proven_to: Option<String>,
    /// The address of the messages that come while the page is open.
    pub live: Option<String>,
}

/// A channel's name, topic and marks.
#[derive(Debug, Default)]
pub struct ChannelTitle {
    /// Its name; its id if it has none.
    pub name: String,
    /// Its topic, as people read it.
    pub topic: String,
    /// Its marks, such as archived, private or shared.
    pub marks: Vec<&'static str>,
    /// The pinned messages, oldest first.
    pub pins: Vec<PageMessage>,
    pub bookmarks: Vec<ChannelBookmark>,
    /// The address of its feed.
    pub feed: Option<String>,
}

/// A bookmark of a channel. Both texts are untrusted.
#[derive(Debug, Default)]
pub struct ChannelBookmark {
    pub title: String,
    pub address: String,
    /// Whether it was removed in Slack.
    pub is_removed: bool,
}

/// Renders the head of a channel: its name, its topic, its bookmarks, and links to what is known about it.
pub fn head(title: &ChannelTitle, page: &TimelinePage, shown: &PageContext<'_>) -> Markup {
    let month = page.day.or_else(|| times::day(&page.messages.first()?.ts, shown.zone));
    html! {
        header class="channel-head" {
            h1 { a href=(shown.links.channel(shown.location)) { bdi { "#" (reader::plain::excerpt(&title.name, MAX_NAME_CHARS)) } } }
            @for mark in &title.marks { span class="mark" { (mark) } }
            @if !title.topic.is_empty() { p class="topic quiet" dir="auto" { (reader::plain::excerpt(&title.topic, 250)) } }
            (pins(&title.pins, shown))
            (bookmarks(&title.bookmarks, shown))
            @if let Some(info) = shown.links.about_channel(shown.location, AboutChannel::Info) { a href=(info) { "About" } }
            @if let Some(threads) = shown.links.about_channel(shown.location, AboutChannel::Threads) { a href=(threads) { "Threads" } }
            @if let Some(feed) = &title.feed { (feed_link(feed)) }
            @if let Some(calendar) = shown.links.about_channel(shown.location, AboutChannel::Calendar) {
                a href={ (calendar) @if let Some(day) = month { "?month=" (day.strftime("%Y-%m").to_string()) } } { "Calendar" }
            }
        }
    }
}

/// Renders the link to a feed.
pub(super) fn feed_link(address: &str) -> Markup {
    html! { a rel="alternate" type="application/atom+xml" href=(address) { "Feed" } }
}

/// Renders the list of pinned messages: the beginning of each, as a link to it.
fn pins(pinned: &[PageMessage], shown: &PageContext<'_>) -> Markup {
    html! {
        @if !pinned.is_empty() {
            details class="pins" {
                summary { (pinned.len()) " pinned" }
                (pin_list(pinned, shown))
            }
        }
    }
}

pub(super) fn pin_list(pinned: &[PageMessage], shown: &PageContext<'_>) -> Markup {
    html! {
        ul {
            @for message in pinned {
                @let first = message.content.lines.iter().map(|line| flat::line(line, shown.names)).find(|line| !line.is_empty());
                li {
                    a href=(shown.links.message(shown.location, &message.ts)) { (times::short(&message.ts, shown.zone)) }
                    " " bdi { (reader::plain::excerpt(first.as_deref().unwrap_or_default(), MAX_PIN_CHARS)) }
                }
            }
        }
    }
}

fn bookmarks(bookmarks: &[ChannelBookmark], shown: &PageContext<'_>) -> Markup {
    html! {
        @if !bookmarks.is_empty() {
            details class="bookmarks" {
                summary { "Bookmarks" }
                (bookmark_list(bookmarks, shown))
            }
        }
    }
}

pub(super) fn bookmark_list(bookmarks: &[ChannelBookmark], shown: &PageContext<'_>) -> Markup {
    html! {
        ul {
            @for ChannelBookmark { title, address, is_removed } in bookmarks {
                li {
                    bdi { (words::link(address, Some(title), shown)) }
                    @if *is_removed { " " span class="mark" { "removed" } }
                }
            }
        }
    }
}

/// Renders the messages with headings for days and links to older and newer messages.
pub fn messages(page: &TimelinePage, shown: &PageContext<'_>) -> Markup {
    let TimelinePage { messages, ends, target, .. } = page;
    let older = ends.older.as_ref().and_then(|ts| shown.links.before(shown.location, ts));
    let newer = ends.newer.as_ref().and_then(|ts| shown.links.after(shown.location, ts));
    html! {
        div class={ "timeline" @if page.is_from_end { " from-end" } } tabindex="0" role="region" aria-label="Messages" data-live=[&page.live] {
            div class="timeline-inner" {
                @if let Some(older) = older { p class="way" { a rel="prev" href=(older) { "Older messages" } } }
                @else if !messages.is_empty() && ends.older.is_none() { p class="quiet way" { "The archive begins here." } }
                (missing_day(page, shown))
                @for day_messages in messages.chunk_by(|one, other| times::day(&one.ts, shown.zone) == times::day(&other.ts, shown.zone)) {
                    (day_section(day_messages.first(), day(day_messages, target.as_ref(), shown), shown))
                }
                @if messages.is_empty() { p class="quiet way" { (no_messages(page)) } }
                @if let Some(newer) = newer { p class="way" { a rel="next" href=(newer) { "Newer messages" } } }
                @else if let Some(day) = &page.proven_to { p class="quiet way" { "Complete up to " (day) ", compared with Slack." } }
                p id="newest" {}
            }
        }
    }
}

fn day_section(first: Option<&PageMessage>, messages: Markup, shown: &PageContext<'_>) -> Markup {
    html! {
        section class="day" {
            @if let Some(day) = first.and_then(|first| times::day(&first.ts, shown.zone)) {
                h2 { time datetime=(day) { (times::day_in_words(day)) } }
            }
            (messages)
        }
    }
}

/// Renders each message alone, as the page has it; the first of a day with the day. If there are older messages, the
/// first one is left out, because it depends on the one before it.
pub fn articles(page: &TimelinePage, shown: &PageContext<'_>) -> Vec<(Ts, String)> {
    let article = |(index, message): (usize, &PageMessage)| {
        let before = index.checked_sub(1).and_then(|before| page.messages.get(before));
        let is_first = before
            .is_none_or(|before| times::day(&before.ts, shown.zone) != times::day(&message.ts, shown.zone));
        let in_run =
            before.filter(|before| !is_first && before.is_join_or_leave() == message.is_join_or_leave());
        let article = one(in_run, message, None, false, shown);
        let article = if is_first { day_section(Some(message), article, shown) } else { article };
        (message.ts.clone(), article.into_string())
    };
    let left_out = usize::from(page.ends.older.is_some());
    page.messages.iter().enumerate().skip(left_out).map(article).collect()
}

/// Explains a page without messages. If more follow in its direction, all rows that it read are replies.
fn no_messages(page: &TimelinePage) -> &'static str {
    let TimelineEnds { older, newer } = &page.ends;
    if older.is_some() && (page.is_from_end || page.target.is_some()) {
        "Only replies are here; older messages follow."
    } else if newer.is_some() && !page.is_from_end {
        "Only replies are here; newer messages follow."
    } else if older.is_some() {
        "There are no newer messages."
    } else if newer.is_some() {
        "There are no older messages."
    } else {
        "There are no messages here."
    }
}

/// Renders a note if the requested day has no messages.
fn missing_day(page: &TimelinePage, shown: &PageContext<'_>) -> Markup {
    let first = page.messages.first().and_then(|first| times::day(&first.ts, shown.zone));
    let missing = page.day.filter(|day| first != Some(*day));
    html! {
        @if let Some(day) = missing {
            p class="note" {
                "There are no messages on " (times::day_in_words(day))
                @if first.is_some_and(|first| first < day) { ", and none after it: the last ones follow." }
                @else if first.is_some() || page.ends.newer.is_some() { ": the next ones follow." }
                @else { ", and none after it." }
            }
        }
    }
}

fn day(messages: &[PageMessage], target: Option<&Ts>, shown: &PageContext<'_>) -> Markup {
    html! {
        @for run in messages.chunk_by(|one, other| one.is_join_or_leave() == other.is_join_or_leave()) {
            @let has_target = run.iter().any(|message| Some(&message.ts) == target);
            @if run.len() > 1 && run[0].is_join_or_leave() {
                details class="folded" open[has_target] {
                    summary { (run.len()) " came or left: " (people_of(run, shown)) }
                    (each(run, target, false, shown))
                }
            } @else {
                (each(run, target, false, shown))
            }
        }
    }
}

/// Renders the first few people who joined or left.
fn people_of(messages: &[PageMessage], shown: &PageContext<'_>) -> Markup {
    let mut people: Vec<&MessageAuthor> = Vec::new();
    for message in messages {
        if !people.contains(&&message.content.author) {
            people.push(&message.content.author);
        }
    }
    html! {
        @for (index, author) in people.iter().take(MAX_NAMED).enumerate() {
            @if index > 0 { ", " }
            bdi { (message::author_name(author, shown)) }
        }
        @if people.len() > MAX_NAMED { " and " (people.len() - MAX_NAMED) " more" }
    }
}

/// Renders messages of a channel, or of a thread.
pub(super) fn each(
    messages: &[PageMessage],
    target: Option<&Ts>,
    is_in_thread: bool,
    shown: &PageContext<'_>,
) -> Markup {
    html! {
        @for (index, message) in messages.iter().enumerate() {
            @let before = index.checked_sub(1).and_then(|before| messages.get(before));
            (one(before, message, target, is_in_thread, shown))
        }
    }
}

fn one(
    before: Option<&PageMessage>,
    message: &PageMessage,
    target: Option<&Ts>,
    is_in_thread: bool,
    shown: &PageContext<'_>,
) -> Markup {
    let rootless = if is_in_thread { None } else { rootless_thread(before, message) };
    let flags = MessageFlags {
        continues_previous: rootless.is_none()
            && before.is_some_and(|before| is_same_moment(before, message)),
        is_target: Some(&message.ts) == target,
        is_in_thread,
    };
    html! {
        @if let Some(root_ts) = &rootless { (rootless_line(root_ts, shown)) }
        (message::message_article(message, flags, shown))
    }
}

/// The root of a reply whose root is not in the archive, if the message before it belongs to another thread. A
/// channel shows no other replies, except those that were also sent to it.
fn rootless_thread(before: Option<&PageMessage>, message: &PageMessage) -> Option<Ts> {
    let root_of = |message: &PageMessage| message.replies_to().filter(|_| !message.is_broadcast());
    root_of(message).filter(|root_ts| before.and_then(root_of).as_ref() != Some(root_ts))
}

fn rootless_line(root_ts: &Ts, shown: &PageContext<'_>) -> Markup {
    html! {
        p class="quiet" {
            a href=(shown.links.thread(shown.location, root_ts)) {
                "Thread"
                @if let Some(day) = times::day(root_ts, shown.zone) { " from " (times::short_day(day)) }
                ", its first message is not in the archive"
            }
        }
    }
}

/// Whether a message is grouped with the previous one under one name.
fn is_same_moment(before: &PageMessage, message: &PageMessage) -> bool {
    before.content.author == message.content.author
        && before.content.manner == message.content.manner
        && !message.is_marked()
        && message.ts.micros() - before.ts.micros() < SAME_MOMENT_MICROS
}
