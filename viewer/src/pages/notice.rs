//! A page with only a title and a message.

use maud::{Markup, html};
use reader::plain;

use super::layout;
use super::sidebar::ChannelMenu;
use crate::links::{LinkScheme, SitePage};

/// Returns the page; for a reader who is admitted, with the search and the navigation.
pub fn page(title: &str, message: &str, is_admitted: bool, links: &dyn LinkScheme) -> Markup {
    layout::document(
        &format!("{title} · Annalist"),
        links,
        &html! {
            @if is_admitted { (layout::top(&ChannelMenu::new(Vec::new()), "", None, links)) }
            main class="alone" id="main" {
                h1 { (title) }
                p { (plain::excerpt(message, 500)) }
                @if let Some(address) = links.site_page(SitePage::Channels) { p { a href=(address) { "To the channels" } } }
            }
        },
    )
}
