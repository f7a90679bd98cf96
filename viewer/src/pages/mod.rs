//! Pages: functions that convert data to HTML. They read nothing, and do not depend on requests.
//!
//! * [`layout`]: the layout of each page; [`sidebar`]: its menu of channels.
//! * [`timeline`], [`thread`], [`versions`]: lists of a [`message`], with its [`words`] and its [`attached`]
//!   files; `changes`: what an edit changed.
//! * [`channel_info`]: what is known about a channel, and its threads; [`calendar`]: its days; [`person`]: what is known about a person.
//! * [`home`]: the first page; [`search`], [`files`], [`figures`] with their [`plots`], [`coverage`]: the other pages; [`login`] and
//!   [`notice`]: pages that replace another one; [`site`]: pages of an exported site; [`public`]:
//!   pages, feeds and sitemaps of a public site.

pub mod attached;
pub mod calendar;
mod changes;
pub mod channel_info;
pub mod coverage;
pub mod figures;
pub mod files;
pub mod home;
pub mod layout;
pub mod login;
pub mod message;
pub mod notice;
pub mod person;
pub mod plots;
pub mod public;
pub mod search;
pub mod sidebar;
pub mod site;
pub mod thread;
pub mod timeline;
pub mod versions;
pub mod words;

use jiff::tz::TimeZone;
use maud::{Markup, html};
use reader::joined::ChannelOfTeam;
use reader::names::DisplayNames;

use crate::gather::pictures::PictureBook;
use crate::links::LinkScheme;

/// Maximum number of characters of a name that are shown. Slack limits names to 80, but names are untrusted.
pub const MAX_NAME_CHARS: usize = 80;

/// Renders a table that may be wider than the page. It can be focused, so that the keyboard scrolls it.
pub(crate) fn scrolling(label: &str, table: &Markup) -> Markup {
    html! { div class="scrolling" role="region" aria-label=(label) tabindex="0" { (table) } }
}

/// Renders a text with code between backticks; on a site, a link to the page instead of the command about coverage.
pub(crate) fn with_code(text: &str, coverage: Option<&str>) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if let Some(coverage) = coverage.filter(|_| part == "annalist coverage") { a href=(coverage) { "Coverage" } }
            @else if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// The context for rendering the messages of a page.
pub struct PageContext<'a> {
    /// The addresses of pages.
    pub links: &'a dyn LinkScheme,
    /// The names of people and channels.
    pub names: &'a DisplayNames<'a>,
    /// Pictures of people, and custom emoji.
    pub pictures: &'a PictureBook,
    /// The time zone of times.
    pub zone: &'a TimeZone,
    /// The location of the messages' channel.
    pub location: &'a ChannelOfTeam,
}
