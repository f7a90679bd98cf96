//! A channel's messages in the order of time.

use jiff::civil::Date;
use maud::{Markup, html};
use reader::text::MessageAuthor;
use slack::ids::Ts;

use super::message::{self, MessageFlags, PageMessage};
use super::{MAX_NAME_CHARS, PageContext};
use crate::times;

/// Messages of one author within this time stand under one name.
const SAME_MOMENT_MICROS: i64 = 5 * 60 * 1_000_000;

/// How many people are named if several came or left.
const MAX_NAMED: usize = 3;

/// Where a page of messages is in its channel.
#[derive(Debug, Default)]
pub struct TimelineEnds {
    /// Older messages are before this one.
    pub older: Option<Ts>,
    /// Newer messages are after this one.
    pub newer: Option<Ts>,
}

/// A page of a channel.
#[derive(Debug)]
pub struct TimelinePage {
    /// The messages, oldest first.
    pub messages: Vec<PageMessage>,
    /// What is before and after them.
    pub ends: TimelineEnds,
    /// The one that was asked for.
    pub target: Option<Ts>,
    /// The day that was asked for.
    pub day: Option<Date>,
    /// It is read from its end on.
    pub is_from_end: bool,
}

/// What a channel is called, and what it is about.
#[derive(Debug, Default)]
pub struct ChannelTitle {
    /// Its name; its id if it has none.
    pub name: String,
    /// Its topic, as people read it.
    pub topic: String,
    /// What else it is: archived, private, shared.
    pub marks: Vec<&'static str>,
}

/// The head of a channel: its name, its topic, and the form for a day.
#[must_use]
pub fn head(title: &ChannelTitle, page: &TimelinePage, shown: &PageContext<'_>, has_forms: bool) -> Markup {
    html! {
        header class="channel-head" {
            h1 { a href=(shown.links.channel(shown.place)) { bdi { "#" (reader::plain::excerpt(&title.name, MAX_NAME_CHARS)) } } }
            @for mark in &title.marks { span class="mark" { (mark) } }
            @if !title.topic.is_empty() { p class="topic quiet" dir="auto" { (reader::plain::excerpt(&title.topic, 250)) } }
            @if has_forms {
                form class="day-form" action=(shown.links.channel(shown.place)) method="get" {
                    label for="day" { "Day" }
                    input id="day" name="day" type="date" required value=[page.day.map(|day| day.to_string())];
                    button type="submit" { "Go" }
                }
            }
        }
    }
}

/// The messages, with the days between them, and the ways to those before and after.
#[must_use]
pub fn messages(page: &TimelinePage, shown: &PageContext<'_>) -> Markup {
    let TimelinePage { messages, ends, target, .. } = page;
    let older = ends.older.as_ref().and_then(|ts| shown.links.before(shown.place, ts));
    let newer = ends.newer.as_ref().and_then(|ts| shown.links.after(shown.place, ts));
    html! {
        div class={ "timeline" @if page.is_from_end { " from-end" } } tabindex="0" role="region" aria-label="Messages" {
            div class="timeline-inner" {
                @if let Some(older) = older { p class="way" { a rel="prev" href=(older) { "Older messages" } } }
                @else if !messages.is_empty() && ends.older.is_none() { p class="quiet way" { "The archive begins here." } }
                (missing_day(page, shown))
                @for of_day in messages.chunk_by(|one, other| times::day(&one.ts, shown.zone) == times::day(&other.ts, shown.zone)) {
                    section class="day" {
                        @if let Some(day) = of_day.first().and_then(|first| times::day(&first.ts, shown.zone)) {
                            h2 { time datetime=(day) { (times::day_in_words(day)) } }
                        }
                        (day(of_day, target.as_ref(), shown))
                    }
                }
                @if messages.is_empty() { p class="quiet way" { "There are no messages here." } }
                @if let Some(newer) = newer { p class="way" { a rel="next" href=(newer) { "Newer messages" } } }
                p id="newest" {}
            }
        }
    }
}

/// That a day has no messages.
fn missing_day(page: &TimelinePage, shown: &PageContext<'_>) -> Markup {
    let first = page.messages.first().and_then(|first| times::day(&first.ts, shown.zone));
    let missing = page.day.filter(|day| first != Some(*day));
    html! {
        @if let Some(day) = missing {
            p class="note" {
                "There are no messages of " (times::day_in_words(day))
                @if first.is_some() { ": the next ones follow." } @else { ", and none after it." }
            }
        }
    }
}

fn day(messages: &[PageMessage], target: Option<&Ts>, shown: &PageContext<'_>) -> Markup {
    html! {
        @for run in messages.chunk_by(|one, other| one.is_coming_or_going() == other.is_coming_or_going()) {
            @let has_target = run.iter().any(|message| Some(&message.ts) == target);
            @if run.len() > 1 && run[0].is_coming_or_going() {
                details class="folded" open[has_target] {
                    summary { (run.len()) " came or left: " (who(run, shown)) }
                    (each(run, target, shown))
                }
            } @else {
                (each(run, target, shown))
            }
        }
    }
}

/// The first few of the people who came or left.
fn who(messages: &[PageMessage], shown: &PageContext<'_>) -> Markup {
    let mut people: Vec<&MessageAuthor> = Vec::new();
    for message in messages {
        if !people.contains(&&message.said.author) {
            people.push(&message.said.author);
        }
    }
    html! {
        @for (place, author) in people.iter().take(MAX_NAMED).enumerate() {
            @if place > 0 { ", " }
            bdi { (reader::plain::excerpt(&shown.names.author(author), MAX_NAME_CHARS)) }
        }
        @if people.len() > MAX_NAMED { " and " (people.len() - MAX_NAMED) " more" }
    }
}

fn each(messages: &[PageMessage], target: Option<&Ts>, shown: &PageContext<'_>) -> Markup {
    html! {
        @for (place, message) in messages.iter().enumerate() {
            @let before = place.checked_sub(1).and_then(|before| messages.get(before));
            @let standing = MessageFlags {
                goes_on: before.is_some_and(|before| is_same_moment(before, message)),
                is_target: Some(&message.ts) == target,
                is_in_thread: false,
            };
            (message::of(message, standing, shown))
        }
    }
}

/// Whether a message stands under the name of the one before it.
pub(super) fn is_same_moment(before: &PageMessage, message: &PageMessage) -> bool {
    before.said.author == message.said.author
        && before.said.manner == message.said.manner
        && !message.is_marked()
        && message.ts.micros() - before.ts.micros() < SAME_MOMENT_MICROS
}
