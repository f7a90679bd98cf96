//! Request handlers, which gather the data of a page and render it.
//!
//! * [`about`]: what is known about a channel or a person.
//! * [`messages`]: channels, threads, versions; [`links`]: Slack's links to them; [`search`]: the search.
//! * [`site`]: the other pages; [`cached`]: cached data that all pages need.

pub(crate) mod about;
mod cached;
pub(crate) mod feeds;
pub(crate) mod figures;
pub(crate) mod links;
pub(crate) mod messages;
pub(crate) mod search;
pub(crate) mod site;

use axum::response::Response;
use maud::Markup;
use reader::permalink;
use slack::ids::Ts;

use crate::answer::{PageError, html};
use crate::links::{ServedLinks, SitePage};
use crate::pages::layout::{self, Frame, MainPane};
use crate::pages::sidebar::ChannelMenu;
use crate::state::Visit;

type PageResult = Result<Response, PageError>;

const LINKS: ServedLinks = ServedLinks;

pub(crate) fn timestamp(text: &str) -> Result<Ts, PageError> {
    permalink::ts(text).ok_or_else(|| {
        PageError::Invalid("Name a message by its timestamp, such as 1620000000.000200.".to_owned())
    })
}

fn no_channel() -> PageError {
    PageError::missing("This channel is not in the archive.")
}

fn framed(
    menu: &ChannelMenu,
    title: &str,
    page: Option<SitePage>,
    main_pane: MainPane,
    main: Markup,
) -> PageResult {
    let frame = Frame { title: title.to_owned(), page, query: "", menu, main_pane, main, side_pane: None };
    Ok(html(layout::page(&frame, &LINKS)))
}
