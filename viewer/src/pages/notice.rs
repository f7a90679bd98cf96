//! A page with only a title and a message.

use maud::{Markup, html};
use reader::plain;

use super::layout;
use crate::links::{LinkScheme, SitePage};

/// Returns the page.
pub fn page(title: &str, message: &str, links: &dyn LinkScheme) -> Markup {
    layout::document(
        &format!("{title} · Annalist"),
        links,
        &html! {
            main class="alone" id="main" {
                h1 { (title) }
                p { (plain::excerpt(message, 500)) }
                @if let Some(address) = links.site_page(SitePage::Channels) { p { a href=(address) { "To the channels" } } }
            }
        },
    )
}
