//! The channels.

use std::collections::BTreeMap;

use maud::{Markup, html};
use reader::joined::ChannelOfTeam;
use reader::numbers::grouped;
use reader::plain;
use slack::ids::TeamId;

use super::MAX_NAME_CHARS;
use crate::links::{LinkScheme, SitePage};

/// A channel of the menu.
#[derive(Debug, Clone)]
pub struct MenuChannel {
    /// Where it is.
    pub place: ChannelOfTeam,
    /// What it is called.
    pub name: Option<String>,
    /// What else it is: `archived`, `private`, `shared`, `deleted`.
    pub marks: Vec<&'static str>,
    /// How many messages it has, if they are counted.
    pub messages: Option<u64>,
    /// The places that its messages are counted in: of each id it has or had, the workspaces that have the same messages.
    pub parts: Vec<Vec<ChannelOfTeam>>,
}

/// The channels of a site.
#[derive(Debug, Clone, Default)]
pub struct ChannelMenu {
    /// What the site is called.
    pub site_name: String,
    /// The workspaces, each with its name.
    pub workspaces: Vec<(TeamId, String)>,
    /// The channels, those of each workspace together.
    pub channels: Vec<MenuChannel>,
    /// The one that is shown.
    pub current: Option<ChannelOfTeam>,
    /// Only those whose names have this are shown.
    pub filter: String,
}

impl ChannelMenu {
    /// The menu of these workspaces, in which there are no channels yet.
    #[must_use]
    pub fn of(workspaces: Vec<(TeamId, String)>) -> Self {
        let names: Vec<&str> = workspaces.iter().map(|(_, name)| name.as_str()).collect();
        let site_name = if names.is_empty() { "Annalist".to_owned() } else { names.join(", ") };
        Self { site_name, workspaces, ..Self::default() }
    }
}

impl MenuChannel {
    /// Its name, or its id.
    #[must_use]
    pub fn called(&self) -> String {
        let name = self.name.as_deref().unwrap_or(self.place.channel.as_str());
        plain::excerpt(name, MAX_NAME_CHARS)
    }

    /// How many messages it has, by how many each place has.
    #[must_use]
    pub fn counted(&self, counts: &BTreeMap<ChannelOfTeam, u64>) -> Option<u64> {
        let of_part = |part: &Vec<ChannelOfTeam>| part.iter().filter_map(|place| counts.get(place)).max();
        self.parts.iter().filter_map(of_part).copied().reduce(|sum, count| sum + count)
    }
}

/// The list of channels, with a field that filters it.
#[must_use]
pub fn menu(menu: &ChannelMenu, links: &dyn LinkScheme) -> Markup {
    let filter = menu.filter.to_lowercase();
    let is_shown =
        |channel: &&MenuChannel| filter.is_empty() || channel.called().to_lowercase().contains(&filter);
    let (current, archived): (Vec<_>, Vec<_>) =
        menu.channels.iter().filter(is_shown).partition(|channel| !is_over(channel));
    html! {
        @if let Some(address) = links.site_page(SitePage::Channels) {
            form class="filter" action=(address) method="get" {
                label class="unseen" for="channel-filter" { "Filter channels" }
                input id="channel-filter" name="channels" type="search" value=(menu.filter) placeholder="Filter channels" maxlength="100" autocomplete="off";
                button type="submit" class="unseen" { "Filter" }
            }
        }
        @if menu.workspaces.len() > 1 {
            @for (team, name) in &menu.workspaces {
                @let of_team: Vec<_> = current.iter().copied().filter(|channel| channel.place.team == *team).collect();
                @if !of_team.is_empty() {
                    h2 class="quiet" { bdi { (plain::excerpt(name, MAX_NAME_CHARS)) } }
                    (list(&of_team, menu, links))
                }
            }
        } @else {
            (list(&current, menu, links))
        }
        @if !archived.is_empty() {
            h2 class="quiet" { "Archived" }
            (list(&archived, menu, links))
        }
        @if menu.channels.is_empty() {
            p class="quiet" { "There are no channels yet." }
        } @else if current.is_empty() && archived.is_empty() {
            p class="quiet" { "There are no such channels." }
        }
    }
}

/// Nothing more is written in it.
fn is_over(channel: &MenuChannel) -> bool {
    channel.marks.iter().any(|mark| matches!(*mark, "archived" | "deleted"))
}

fn list(channels: &[&MenuChannel], menu: &ChannelMenu, links: &dyn LinkScheme) -> Markup {
    html! {
        ul class="channel-list" {
            @for channel in channels {
                @let is_current = menu.current.as_ref() == Some(&channel.place);
                li data-channel=(channel.place.channel) {
                    a href=(links.channel(&channel.place)) aria-current=[is_current.then_some("page")] {
                        bdi class="name" { (channel.called()) }
                        @for mark in &channel.marks { " " span class="mark" { (mark) } }
                        @if let Some(messages) = channel.messages {
                            " " span class="count" { (grouped(messages)) span class="unseen" { " messages" } }
                        }
                    }
                }
            }
        }
    }
}
