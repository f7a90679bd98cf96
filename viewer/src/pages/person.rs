//! Renders the page of a person, and the list of people.

use maud::{Markup, html};
use ports::files::FileKey;
use reader::numbers::counted;
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

/// A person in the list of people.
#[derive(Debug)]
pub struct ListedPerson {
    pub team: TeamId,
    pub user: UserId,
    /// Their names, the one that is shown first.
    pub names: Vec<String>,
    pub picture: Option<FileKey>,
    /// What they are, if they are no ordinary member.
    pub mark: Option<&'static str>,
}

/// The first people by name, and the number of all.
#[derive(Debug)]
pub struct PeopleList {
    pub people: Vec<ListedPerson>,
    pub count: usize,
}

/// Renders the people whose names contain `called`.
pub fn people_page(list: &PeopleList, called: &str, links: &dyn LinkScheme) -> Markup {
    let excerpt = |text: &str| plain::excerpt(text, MAX_NAME_CHARS);
    html! {
        h1 { "People" }
        form class="file-filter" action=[links.site_page(SitePage::People)] method="get" {
            input name="q" type="search" value=(called) placeholder="Name" aria-label="Name" maxlength="100" autocomplete="off";
            button type="submit" { "Show" }
        }
        @if list.people.is_empty() {
            p { @if called.is_empty() { "The archive knows no people yet." } @else { "No name contains this." } }
        } @else {
            p class="quiet" {
                (counted(list.count, "person", "people"))
                @if list.count > list.people.len() { ", the first " (list.people.len()) " by name: write a part of a name for others" }
            }
        }
        ul class="people" {
            @for ListedPerson { team, user, names, picture, mark } in &list.people {
                @let name = excerpt(names.first().map_or(user.as_str(), String::as_str));
                li {
                    (message::picture_or_initials(picture.as_ref().and_then(|key| links.picture(key)).as_deref(), &name))
                    div {
                        a href=[links.person(team, user.as_str())] { bdi { (name) } } @if let Some(mark) = mark { " " span class="mark" { (mark) } }
                        @if let Some(other) = names.get(1) { p class="quiet" { bdi { (excerpt(other)) } } }
                    }
                }
            }
        }
    }
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
