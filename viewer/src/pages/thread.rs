//! A thread: its root and the replies.

use maud::{Markup, html};
use reader::numbers::grouped;

use super::PageContext;
use super::message::{self, MessageFlags, PageMessage};
use super::timeline::is_same_moment;
use crate::times;
use slack::ids::Ts;

/// A thread.
#[derive(Debug)]
pub struct ThreadPage {
    /// The timestamp of its root.
    pub root_ts: Ts,
    /// The root, if it is in the archive.
    pub root: Option<PageMessage>,
    /// The replies of this page, oldest first.
    pub replies: Vec<PageMessage>,
    /// The replies go on after this one.
    pub next: Option<Ts>,
    /// They do not begin with the first.
    pub is_later_part: bool,
    /// The one that was asked for.
    pub target: Option<Ts>,
}

/// The thread.
#[must_use]
pub fn of(page: &ThreadPage, shown: &PageContext<'_>) -> Markup {
    let ThreadPage { root_ts, root, replies, next, .. } = page;
    let of_thread = shown.links.thread(shown.place, root_ts);
    html! {
        header class="thread-head" {
            h2 { "Thread" }
            a class="close" href=(shown.links.message(shown.place, root_ts)) { "Close" span class="unseen" { " the thread" } }
        }
        div class="timeline" tabindex="0" role="region" aria-label="Messages of the thread" {
            div class="timeline-inner" {
                @match root {
                    Some(root) => (message::of(root, standing(page, root, false), shown)),
                    None => p class="note" { "The message that this thread replies to is not in this archive." },
                }
                @if page.is_later_part { p class="way" { a href=(of_thread) { "First replies" } } }
                @if !replies.is_empty() {
                    h3 class="quiet" {
                        (grouped(replies.len() as u64)) @if replies.len() == 1 { " reply" } @else { " replies" }
                        @if next.is_some() || page.is_later_part { " here" }
                    }
                }
                @for (place, reply) in replies.iter().enumerate() {
                    @let before = place.checked_sub(1).and_then(|before| replies.get(before));
                    (message::of(reply, standing(page, reply, before.is_some_and(|before| is_same_moment(before, reply))), shown))
                }
                @if let Some(next) = next { p class="way" { a rel="next" href={ (of_thread) "?after=" (next) } { "More replies" } } }
            }
        }
    }
}

/// A whole thread among others.
#[must_use]
pub fn section(page: &ThreadPage, shown: &PageContext<'_>) -> Markup {
    let ThreadPage { root_ts, root, replies, .. } = page;
    html! {
        section class="day" {
            h2 { time datetime=(times::machine(root_ts)) { (times::short(root_ts, shown.zone)) } }
            @if let Some(root) = root { (message::of(root, standing(page, root, false), shown)) }
            @for (place, reply) in replies.iter().enumerate() {
                @let before = place.checked_sub(1).and_then(|before| replies.get(before));
                (message::of(reply, standing(page, reply, before.is_some_and(|before| is_same_moment(before, reply))), shown))
            }
        }
    }
}

fn standing(page: &ThreadPage, message: &PageMessage, goes_on: bool) -> MessageFlags {
    MessageFlags { goes_on, is_target: Some(&message.ts) == page.target.as_ref(), is_in_thread: true }
}
