//! The layout of every page: head, navigation, panes.

use maud::{DOCTYPE, Markup, html};
use reader::{history, plain};
use rules::history::progress::HistoryProgress;

use super::MAX_NAME_CHARS;
use super::sidebar::{self, ChannelMenu};
use crate::assets;
use crate::links::{LinkScheme, SitePage};

/// Maximum length of the channel's name in the search form.
const MAX_HERE_CHARS: usize = 20;

/// The pane that a narrow screen shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MainPane {
    Channels,
    /// The page itself.
    Page,
    /// The pane next to the page.
    Side,
}

/// A page and its layout.
pub struct Frame<'a> {
    /// The page's title.
    pub title: String,
    /// The page's entry in the navigation.
    pub page: Option<SitePage>,
    /// The initial text of the search field.
    pub query: &'a str,
    pub menu: &'a ChannelMenu,
    /// The pane that a narrow screen shows.
    pub main_pane: MainPane,
    /// The page.
    pub main: Markup,
    /// What is next to the page.
    pub side_pane: Option<SidePane>,
}

/// A pane next to a page.
pub struct SidePane {
    /// Its name for screen readers.
    pub label: &'static str,
    /// What it shows.
    pub content: Markup,
}

/// Renders a whole page.
pub fn page(frame: &Frame<'_>, links: &dyn LinkScheme) -> Markup {
    let site = plain::excerpt(&frame.menu.site_name, MAX_NAME_CHARS);
    let title = format!("{} · {site}", plain::excerpt(&frame.title, MAX_NAME_CHARS));
    document(&title, links, &body(frame, links))
}

/// Renders what a page shows.
pub(super) fn body(frame: &Frame<'_>, links: &dyn LinkScheme) -> Markup {
    let shows = match frame.main_pane {
        MainPane::Channels => "shows-channels",
        MainPane::Page => "shows-page",
        MainPane::Side => "shows-beside",
    };
    html! {
        a class="skip" href="#main" { "Skip to the content" }
        (top(frame.menu, frame.query, frame.page, links))
        div class={ "panes " (shows) @if frame.side_pane.is_some() { " has-beside" } } {
            nav class="channels" aria-label="Channels" { (sidebar::menu(frame.menu, links)) }
            main id="main" tabindex="-1" { (reading(frame.menu)) (frame.main) }
            @if let Some(side_pane) = &frame.side_pane { aside aria-label=(side_pane.label) { (side_pane.content) } }
        }
    }
}

/// Renders the head of a page: the site's name, the search and the navigation.
pub(super) fn top(
    menu: &ChannelMenu,
    query: &str,
    current: Option<SitePage>,
    links: &dyn LinkScheme,
) -> Markup {
    html! {
        header class="top" {
            a class="site" href=[links.site_page(SitePage::Channels)] { bdi { (plain::excerpt(&menu.site_name, MAX_NAME_CHARS)) } }
            (search_form(menu, query, links))
            nav aria-label="Pages" {
                ul {
                    @for page in SitePage::ALL {
                        @if let Some(address) = links.site_page(page) {
                            li { a href=(address) aria-current=[(current == Some(page)).then_some("page")] { (page.name()) } }
                        }
                    }
                }
            }
        }
    }
}

/// Renders how far the reading of Slack's history is, while it goes on.
fn reading(menu: &ChannelMenu) -> Markup {
    let sum = |count: fn(&HistoryProgress) -> u64| menu.reading.iter().map(count).sum();
    let Some(first) = menu.reading.first() else { return Markup::default() };
    let together = HistoryProgress {
        channels: sum(|progress| progress.channels),
        read: sum(|progress| progress.read),
        since: menu.reading.iter().filter_map(|progress| progress.since.clone()).min(),
        ..first.clone()
    };
    html! {
        p id="history-progress" class="hint" role="status" data-read=(together.read) data-channels=(together.channels) {
            (history::progress_line(&together))
        }
    }
}

/// Renders the search form, if the site has a search.
fn search_form(menu: &ChannelMenu, query: &str, links: &dyn LinkScheme) -> Markup {
    let current = menu.channels.iter().find(|channel| Some(&channel.location) == menu.current.as_ref());
    html! {
        @if let Some(address) = links.site_page(SitePage::Search) {
            form class="search" role="search" action=(address) method="get" {
                label class="unseen" for="q" { "Search messages" }
                input id="q" name="q" type="search" value=(query) placeholder="Search" maxlength="1000" autocomplete="off" data-people=[links.site_page(SitePage::People)];
                @if let Some((channel, scope)) = current.and_then(|channel| Some((channel, links.search_scope(&channel.location)?))) {
                    label class="here" {
                        input type="checkbox" name="in" value=(scope);
                        " in " bdi { "#" (plain::excerpt(&channel.display_name(), MAX_HERE_CHARS)) }
                    }
                }
                button type="submit" { "Search" }
            }
        }
    }
}

/// The directives of the served policy that a page can contain itself, because an exported page is opened
/// without a server. `file:` allows the folder of the export.
const POLICY: &str = "default-src 'none'; img-src 'self' file:; media-src 'self' file:; style-src 'self' file:; \
    script-src 'self' file:; connect-src 'self'; form-action 'self' file:; base-uri 'none'";

/// Renders an HTML document with its head.
pub fn document(title: &str, links: &dyn LinkScheme, body: &Markup) -> Markup {
    document_with(title, POLICY, &Markup::default(), links, body)
}

/// Renders an HTML document with this policy and with more elements in its head.
pub(super) fn document_with(
    title: &str,
    policy: &str,
    head: &Markup,
    links: &dyn LinkScheme,
    body: &Markup,
) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                meta name="color-scheme" content="light dark";
                title { (title) }
                (head)
                link rel="stylesheet" href=(links.asset(&assets::STYLE));
                link rel="icon" type="image/svg+xml" href=(links.asset(&assets::ICON));
                script src=(links.asset(&assets::SCRIPT)) defer {}
            }
            body { (body) }
        }
    }
}
