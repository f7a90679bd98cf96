//! What stands around every page: head, navigation, panes.

use maud::{DOCTYPE, Markup, html};
use reader::plain;

use super::MAX_NAME_CHARS;
use super::sidebar::{self, ChannelMenu};
use crate::assets;
use crate::links::{LinkScheme, SitePage};

/// What a narrow screen shows of the panes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MainPane {
    /// The channels.
    Channels,
    /// The page itself.
    Page,
    /// The pane beside it.
    Beside,
}

/// A page, and what stands around it.
pub struct Frame<'a> {
    /// What the page is called.
    pub title: String,
    /// Which page of the navigation it is.
    pub page: Option<SitePage>,
    /// What the search field begins with.
    pub query: &'a str,
    /// The channels beside it.
    pub menu: &'a ChannelMenu,
    /// The pane that matters most.
    pub main_pane: MainPane,
    /// The page.
    pub main: Markup,
    /// A thread beside it.
    pub beside: Option<Markup>,
}

/// A whole page.
#[must_use]
pub fn page(frame: &Frame<'_>, links: &dyn LinkScheme) -> Markup {
    let site = plain::excerpt(&frame.menu.site_name, MAX_NAME_CHARS);
    let shows = match frame.main_pane {
        MainPane::Channels => "shows-channels",
        MainPane::Page => "shows-page",
        MainPane::Beside => "shows-beside",
    };
    document(
        &format!("{} · {site}", plain::excerpt(&frame.title, MAX_NAME_CHARS)),
        links,
        &html! {
            a class="skip" href="#main" { "Skip to the content" }
            header class="top" {
                a class="site" href=[links.site_page(SitePage::Channels)] { bdi { (site) } }
                (search_form(frame.query, links))
                nav aria-label="Pages" {
                    ul {
                        @for page in SitePage::ALL {
                            @if let Some(address) = links.site_page(page) {
                                li { a href=(address) aria-current=[(frame.page == Some(page)).then_some("page")] { (page.name()) } }
                            }
                        }
                    }
                }
            }
            div class={ "panes " (shows) @if frame.beside.is_some() { " has-beside" } } {
                nav class="channels" aria-label="Channels" { (sidebar::menu(frame.menu, links)) }
                main id="main" tabindex="-1" { (frame.main) }
                @if let Some(beside) = &frame.beside { aside aria-label="Thread" { (beside) } }
            }
        },
    )
}

/// The form that searches, where there is a search.
fn search_form(query: &str, links: &dyn LinkScheme) -> Markup {
    html! {
        @if let Some(address) = links.site_page(SitePage::Search) {
            form class="search" role="search" action=(address) method="get" {
                label class="unseen" for="q" { "Search messages" }
                input id="q" name="q" type="search" value=(query) placeholder="Search" maxlength="1000" autocomplete="off";
                button type="submit" { "Search" }
            }
        }
    }
}

/// As much of the policy that is served with pages as a page can say itself: an exported one is opened without a server.
/// `file:` stands for the folder of the export.
const POLICY: &str = "default-src 'none'; img-src 'self' file:; media-src 'self' file:; style-src 'self' file:; \
    script-src 'self' file:; form-action 'self' file:; base-uri 'none'";

/// A document with its head.
#[must_use]
pub fn document(title: &str, links: &dyn LinkScheme, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="stylesheet" href=(links.asset(&assets::STYLE));
                link rel="icon" type="image/svg+xml" href=(links.asset(&assets::ICON));
                script src=(links.asset(&assets::SCRIPT)) defer {}
            }
            body { (body) }
        }
    }
}
