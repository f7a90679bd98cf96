//! Pages of an exported site. It has no search, because there is no server, and long channels are split into
//! parts.

use maud::{Markup, html};
use reader::numbers::grouped;
use reader::plain;

use super::layout::{self, Frame, MainPane};
use super::sidebar::ChannelMenu;
use super::thread::ThreadPage;
use super::timeline::{ChannelTitle, TimelinePage};
use super::{MAX_NAME_CHARS, PageContext, thread, timeline};
use crate::links::LinkScheme;
use crate::times;

/// A part of a channel in the list of parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPart {
    /// The part's name.
    pub name: String,
    /// The part's address.
    pub address: String,
    pub messages: u64,
}

/// Renders the first page, which lists the channels.
pub fn index(menu: &ChannelMenu, links: &dyn LinkScheme) -> String {
    let main = html! {
        div class="welcome" {
            h1 { bdi { (plain::excerpt(&menu.site_name, MAX_NAME_CHARS)) } }
            p { "Choose a channel." }
        }
    };
    page("Channels".to_owned(), menu, MainPane::Channels, main, links)
}

/// Renders the list of a channel's parts, newest first.
pub fn parts(
    title: &ChannelTitle,
    parts: &[ListedPart],
    menu: &ChannelMenu,
    links: &dyn LinkScheme,
) -> String {
    let main = html! {
        header class="channel-head" {
            h1 { bdi { "#" (plain::excerpt(&title.name, MAX_NAME_CHARS)) } }
            @for mark in &title.marks { span class="mark" { (mark) } }
            @if !title.topic.is_empty() { p class="topic quiet" dir="auto" { (plain::excerpt(&title.topic, 250)) } }
        }
        div class="timeline" {
            div class="timeline-inner" {
                @if parts.is_empty() { p class="quiet way" { "There are no messages here." } }
                ul {
                    @for part in parts.iter().rev() {
                        li { a href=(part.address) { (times::part_in_words(&part.name)) } " " span class="quiet" { (grouped(part.messages)) " messages" } }
                    }
                }
            }
        }
    };
    page(format!("#{}", title.name), menu, MainPane::Page, main, links)
}

/// Renders the messages of a part.
pub fn part(
    title: &ChannelTitle,
    name: &str,
    part: &TimelinePage,
    menu: &ChannelMenu,
    shown: &PageContext<'_>,
) -> String {
    let main = html! {
        (timeline::head(title, part, shown))
        (timeline::messages(part, shown))
    };
    page(format!("#{} {}", title.name, times::part_in_words(name)), menu, MainPane::Page, main, shown.links)
}

/// Renders the threads that start in a part.
pub fn threads(
    title: &ChannelTitle,
    name: &str,
    threads: &[ThreadPage],
    menu: &ChannelMenu,
    shown: &PageContext<'_>,
) -> String {
    let main = html! {
        header class="channel-head" { h1 { "Threads of " bdi { "#" (plain::excerpt(&title.name, MAX_NAME_CHARS)) } " " (times::part_in_words(name)) } }
        div class="timeline" tabindex="0" role="region" aria-label="Threads" {
            div class="timeline-inner" { @for thread in threads { (thread::thread_section(thread, shown)) } }
        }
    };
    page(
        format!("Threads of #{} {}", title.name, times::part_in_words(name)),
        menu,
        MainPane::Page,
        main,
        shown.links,
    )
}

fn page(
    title: String,
    menu: &ChannelMenu,
    main_pane: MainPane,
    main: Markup,
    links: &dyn LinkScheme,
) -> String {
    let frame = Frame { title, page: None, query: "", menu, main_pane, main, side_pane: None };
    layout::page(&frame, links).into_string()
}
