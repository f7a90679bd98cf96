//! Renders the versions of a message.

use maud::{Markup, html};
use slack::ids::Ts;

use super::message::PageMessage;
use super::{PageContext, attached, changes, message, words};
use crate::times;

#[derive(Debug)]
pub struct MessageVersion {
    /// When it replaced the previous version; `None` for the first one.
    pub since: Option<Ts>,
    pub message: PageMessage,
}

/// Renders the versions of a message, oldest first; the last one is the current version.
pub fn versions_page(versions: &[MessageVersion], shown: &PageContext<'_>) -> Markup {
    html! {
        h1 { "Versions of a message" }
        @if let Some(last) = versions.last() {
            p { a href=(shown.links.message(shown.location, &last.message.ts)) { "Back to the message" } }
        }
        @if versions.len() == 1 { p class="note" { "It was never edited: there are no earlier versions." } }
        ol class="versions" {
            @for (number, version) in versions.iter().enumerate() {
                @let is_current = number + 1 == versions.len();
                li data-version=(number + 1) {
                    h2 {
                        @match (&version.since, is_current) {
                            (Some(since), _) => { time datetime=(times::machine_readable(since)) { (times::moment(since, shown.zone)) } },
                            (None, _) => { "As it was posted, " time datetime=(times::machine_readable(&version.message.ts)) { (times::moment(&version.message.ts, shown.zone)) } },
                        }
                        @if is_current { @if version.message.is_deleted() { " – the last, deleted since" } @else { " – now" } }
                    }
                    @let author = reader::plain::excerpt(&shown.names.author(&version.message.content.author), super::MAX_NAME_CHARS);
                    div class="message" {
                        (message::picture(version.message.content.author.user.as_deref(), &author, shown))
                        div class="body" {
                            p class="head" { bdi class="author" { (message::author_name(&version.message.content.author, shown)) } }
                            div class="text" dir="auto" { (words::lines(&version.message.content.lines, shown)) }
                            @if let Some(previous) = number.checked_sub(1).map(|previous| &versions[previous]) {
                                (changes::between(&previous.message.content.lines, &version.message.content.lines, shown))
                            }
                            (attached::of(&version.message.row, shown))
                        }
                    }
                }
            }
        }
    }
}
