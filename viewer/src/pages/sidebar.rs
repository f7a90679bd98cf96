//! The menu of channels.

use std::collections::BTreeMap;

use maud::{Markup, html};
use reader::joined::ChannelOfTeam;
use reader::names::is_visible;
use reader::numbers::grouped;
use reader::plain;
use rules::history::progress::HistoryProgress;
use slack::ids::TeamId;

use super::MAX_NAME_CHARS;
use crate::links::{LinkScheme, SitePage};

#[derive(Debug, Clone)]
pub struct MenuChannel {
    pub location: ChannelOfTeam,
    /// The channel's name.
    pub name: Option<String>,
    /// Its marks: `archived`, `private`, `shared`, `deleted`.
    pub marks: Vec<&'static str>,
    /// The number of its messages, if they are counted.
    pub messages: Option<u64>,
    /// The locations at which its messages are counted. Each part has the locations of one current or former
    /// id, which contain the same messages.
    pub parts: Vec<Vec<ChannelOfTeam>>,
}

/// The channels of a site.
#[derive(Debug, Clone, Default)]
pub struct ChannelMenu {
    pub site_name: String,
    /// The workspaces, each with its name.
    pub workspaces: Vec<(TeamId, String)>,
    /// The channels, grouped by workspace.
    pub channels: Vec<MenuChannel>,
    /// The channel that is shown.
    pub current: Option<ChannelOfTeam>,
    /// Only channels whose names contain this text are shown.
    pub filter: String,
    /// Whether there are more messages than were counted, because the search index is behind.
    pub is_counting: bool,
    /// The workspaces whose history is being read.
    pub reading: Vec<HistoryProgress>,
    /// Who can sign out, if anyone.
    pub signed_in: Option<SignedIn>,
}

/// A reader who can sign out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedIn {
    /// Their name; `None` for readers who know the password.
    pub name: Option<String>,
    /// The address of their page.
    pub address: Option<String>,
}

impl ChannelMenu {
    /// Returns the menu of these workspaces, without channels.
    pub fn new(workspaces: Vec<(TeamId, String)>) -> Self {
        let names: Vec<&str> = workspaces.iter().map(|(_, name)| name.as_str()).collect();
        let site_name = if names.is_empty() { "Annalist".to_owned() } else { names.join(", ") };
        Self { site_name, workspaces, ..Self::default() }
    }
}

impl MenuChannel {
    /// Returns the channel's name, or otherwise its id.
    pub fn display_name(&self) -> String {
        let name = self.name.as_deref().filter(|name| is_visible(name));
        let name = name.unwrap_or(self.location.channel.as_str());
        plain::excerpt(name, MAX_NAME_CHARS)
    }

    /// Returns the number of its messages from the counts of each location.
    pub fn message_count(&self, counts: &BTreeMap<ChannelOfTeam, u64>) -> Option<u64> {
        let part_count =
            |part: &Vec<ChannelOfTeam>| part.iter().filter_map(|location| counts.get(location)).max();
        self.parts.iter().filter_map(part_count).copied().reduce(|sum, count| sum + count)
    }
}

/// Renders the list of channels, with a filter field if there are several.
pub fn menu(menu: &ChannelMenu, links: &dyn LinkScheme) -> Markup {
    let filter = menu.filter.to_lowercase();
    let is_shown =
        |channel: &&MenuChannel| filter.is_empty() || channel.display_name().to_lowercase().contains(&filter);
    let (current, archived): (Vec<_>, Vec<_>) =
        menu.channels.iter().filter(is_shown).partition(|channel| !is_closed(channel));
    html! {
        @if let Some(address) = links.site_page(SitePage::Channels).filter(|_| menu.channels.len() > 1) {
            form.filter.scripted[!links.filters_channels()] action=(address) method="get" {
                label class="unseen" for="channel-filter" { "Filter channels" }
                input id="channel-filter" name="channels" type="search" value=(menu.filter) placeholder="Filter channels" maxlength="100" autocomplete="off";
                button type="submit" class="unseen" { "Filter" }
            }
        }
        @if menu.workspaces.len() > 1 {
            @for (team, name) in &menu.workspaces {
                @let team_channels: Vec<_> = current.iter().copied().filter(|channel| channel.location.team == *team).collect();
                @if !team_channels.is_empty() {
                    h2 class="quiet" { bdi { (plain::excerpt(name, MAX_NAME_CHARS)) } }
                    (list(&team_channels, menu, links))
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
        @if let Some(SignedIn { name, address }) = &menu.signed_in {
            form class="signed-in" action="/logout" method="post" {
                @if let Some(name) = name {
                    a href=[address] { bdi { (plain::excerpt(name, MAX_NAME_CHARS)) } }
                }
                button type="submit" { "Sign out" }
            }
        }
    }
}

/// Whether the channel is archived or deleted.
fn is_closed(channel: &MenuChannel) -> bool {
    channel.marks.iter().any(|mark| matches!(*mark, "archived" | "deleted"))
}

fn list(channels: &[&MenuChannel], menu: &ChannelMenu, links: &dyn LinkScheme) -> Markup {
    html! {
        ul class="channel-list" {
            @for channel in channels {
                @let is_current = menu.current.as_ref() == Some(&channel.location);
                li data-channel=(channel.location.channel) {
                    a href=(links.channel(&channel.location)) aria-current=[is_current.then_some("page")] {
                        bdi class="name" { (channel.display_name()) }
                        @for mark in &channel.marks { " " span class="mark" { (mark) } }
                        @if let Some(messages) = channel.messages {
                            " " span class="count" {
                                (grouped(messages))
                                @if menu.is_counting { "+" }
                                span class="unseen" { @if menu.is_counting { " messages so far" } @else { " messages" } }
                            }
                        }
                    }
                }
            }
        }
    }
}
