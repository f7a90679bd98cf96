//! Renders a thread: its root and the replies.

use maud::{Markup, html};
use reader::numbers::{counted, grouped};
use search::counts::ThreadSize;

use super::message::PageMessage;
use super::{PageContext, timeline};
use crate::times;
use slack::ids::Ts;

#[derive(Debug)]
pub struct ThreadPage {
    /// The timestamp of its root.
    pub root_ts: Ts,
    /// The root, if it is in the archive.
    pub root: Option<PageMessage>,
    /// The replies of this page, oldest first.
    pub replies: Vec<PageMessage>,
    /// The reply after which more follow, if there are more.
    pub next: Option<Ts>,
    /// Number of earlier replies that are left out.
    pub skipped: usize,
    /// All replies, if they are counted.
    pub size: Option<ThreadSize>,
    /// The requested reply.
    pub target: Option<Ts>,
}

/// Renders the thread.
pub fn thread_pane(page: &ThreadPage, shown: &PageContext<'_>) -> Markup {
    let ThreadPage { root_ts, root, replies, next, .. } = page;
    let thread_address = shown.links.thread(shown.location, root_ts);
    html! {
        header class="thread-head" {
            h2 { "Thread" }
            a class="close" href=(shown.links.message(shown.location, root_ts)) { "Close" span class="unseen" { " the thread" } }
        }
        div class="timeline" tabindex="0" role="region" aria-label="Messages of the thread" {
            div class="timeline-inner" {
                @match root {
                    Some(root) => (messages(page, std::slice::from_ref(root), shown)),
                    None => p class="note" { "The message that this thread replies to is not in this archive." },
                }
                @if page.skipped > 0 { p class="way" { a href=(thread_address) { "First replies" } } }
                @if !replies.is_empty() { h3 class="quiet" { (part(page)) } }
                (messages(page, replies, shown))
                @if let Some(next) = next { p class="way" { a rel="next" href={ (thread_address) "?after=" (next) } { "More replies" } } }
            }
        }
    }
}

/// Says which replies are shown, such as `replies 201–400 of 650`.
fn part(page: &ThreadPage) -> String {
    let ThreadPage { replies, next, skipped, size, .. } = page;
    if next.is_none() && *skipped == 0 {
        return counted(replies.len(), "reply", "replies");
    }
    let [first, last] = [skipped + 1, skipped + replies.len()].map(|number| grouped(number as u64));
    match size {
        Some(ThreadSize { replies, .. }) => format!("replies {first}–{last} of {}", grouped(*replies)),
        None => format!("replies {first}–{last}"),
    }
}

fn messages(page: &ThreadPage, messages: &[PageMessage], shown: &PageContext<'_>) -> Markup {
    let is_in_thread = true;
    timeline::each(messages, page.target.as_ref(), is_in_thread, shown)
}

/// Renders a whole thread in a list of threads.
pub fn thread_section(page: &ThreadPage, shown: &PageContext<'_>) -> Markup {
    let ThreadPage { root_ts, root, replies, .. } = page;
    html! {
        section class="day" {
            h2 { time datetime=(times::machine_readable(root_ts)) { (times::short(root_ts, shown.zone)) } }
            @if let Some(root) = root { (messages(page, std::slice::from_ref(root), shown)) }
            div class="replies" { (messages(page, replies, shown)) }
            p class="way" { a href=(shown.links.message(shown.location, root_ts)) { "To this message in the channel" } }
        }
    }
}
