//! Requests, each answered by what is gathered for its page.
//!
//! * [`messages`]: channels, threads, versions; [`links`]: Slack's links to them; [`search`]: what is looked for.
//! * [`site`]: the other pages; [`remembered`]: what all pages have, read a moment ago.

pub(crate) mod links;
pub(crate) mod messages;
mod remembered;
pub(crate) mod search;
pub(crate) mod site;

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::Markup;
use reader::permalink;
use slack::ids::Ts;

use crate::answer::{PageError, html};
use crate::links::{ServedLinks, SitePage};
use crate::pages::layout::{self, Frame, MainPane};
use crate::pages::sidebar::ChannelMenu;
use crate::router::ViewerState;

pub(crate) use remembered::Remembered;

type PageResult = Result<Response, PageError>;
type SharedState = State<Arc<ViewerState>>;

const LINKS: ServedLinks = ServedLinks;

fn timestamp(text: &str) -> Result<Ts, PageError> {
    permalink::ts(text).ok_or_else(|| {
        PageError::Meaningless("A message is named by a timestamp such as 1620000000.000200.".to_owned())
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
    let frame = Frame { title: title.to_owned(), page, query: "", menu, main_pane, main, beside: None };
    Ok(html(layout::page(&frame, &LINKS)))
}
