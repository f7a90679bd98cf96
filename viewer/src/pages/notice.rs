//! What is said in place of a page.

use maud::{Markup, html};
use reader::plain;

use super::layout;
use crate::links::{LinkScheme, SitePage};

/// Why there is no page.
#[must_use]
pub fn page(title: &str, says: &str, links: &dyn LinkScheme) -> Markup {
    layout::document(
        &format!("{title} · Annalist"),
        links,
        &html! {
            main class="alone" id="main" {
                h1 { (title) }
                p { (plain::excerpt(says, 500)) }
                @if let Some(address) = links.site_page(SitePage::Channels) { p { a href=(address) { "To the channels" } } }
            }
        },
    )
}
