//! Renders the page of a person.

use maud::{Markup, html};
use ports::files::FileKey;
use reader::plain;
use slack::ids::{TeamId, UserId};

use super::{MAX_NAME_CHARS, message};
use crate::links::{LinkScheme, SitePage};

/// Maximum number of former names that are shown.
const MAX_FORMER_NAMES: usize = 20;

/// What the directory says of a person.
#[derive(Debug)]
pub struct PersonPage {
    /// The workspace.
    pub team: TeamId,
    /// The person.
    pub user: UserId,
    /// Their picture.
    pub picture: Option<FileKey>,
    /// Their names, the one that is shown first.
    pub names: Vec<String>,
    /// What they do.
    pub title: Option<String>,
    /// Their time zone.
    pub zone: Option<String>,
    /// What they are, if they are no ordinary member.
    pub mark: Option<&'static str>,
    /// Names that they had before, the last one first.
    pub former_names: Vec<String>,
}

/// Renders the page, with links to their messages and files.
pub fn person_page(page: &PersonPage, links: &dyn LinkScheme) -> Markup {
    let PersonPage { user, names, title, zone, mark, former_names, .. } = page;
    let excerpt = |text: &str| plain::excerpt(text, MAX_NAME_CHARS);
    let name = excerpt(names.first().map_or(user.as_str(), String::as_str));
    let picture = page.picture.as_ref().and_then(|key| links.picture(key));
    let former: Vec<String> = former_names.iter().take(MAX_FORMER_NAMES).map(|name| excerpt(name)).collect();
    html! {
        article class="person" {
            (message::picture_or_initials(picture.as_deref(), &name))
            div {
                h1 { bdi { (name) } @if let Some(mark) = mark { " " span class="mark" { (mark) } } }
                @if let Some(title) = title { p { bdi { (excerpt(title)) } } }
                dl class="facts" {
                    @for other in names.iter().skip(1) { dt { "Also called" } dd { bdi { (excerpt(other)) } } }
                    @if !former.is_empty() { dt { "Formerly" } dd { bdi { (former.join(", ")) } } }
                    @if let Some(zone) = zone { dt { "Time zone" } dd { (excerpt(zone)) } }
                    dt { "Id" } dd { code { (user) } }
                }
                p class="ways" {
                    @if let Some(search) = links.site_page(SitePage::Search) { a href={ (search) "?q=from:" (user) } { "Messages" } }
                    @if let Some(files) = links.site_page(SitePage::Files) { a href={ (files) "?from=" (user) } { "Files" } }
                    @if let Some(search) = links.site_page(SitePage::Search) { a href={ (search) "?q=mentions:" (user) } { "Mentions" } }
                }
            }
        }
    }
}
