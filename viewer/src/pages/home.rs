//! Renders the first page: what the archive holds, and what is new in it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use maud::{Markup, html};
use reader::joined::ChannelOfTeam;
use reader::numbers::{counted, grouped};
use reader::plain;
use rules::view::file_id;
use search::counts::ChannelActivity;
use search::hits::SearchHit;
use slack::ids::{FileId, TeamId, Ts};

use super::MAX_NAME_CHARS;
use super::sidebar::{ChannelMenu, MenuChannel};
use crate::links::LinkScheme;
use crate::times;

/// Maximum number of recently active channels.
const MAX_ACTIVE: usize = 10;

/// Maximum number of files that are named per message.
const MAX_FILES: usize = 3;

/// The names of files, by workspace and id.
type FileNames = BTreeMap<(TeamId, FileId), String>;

/// The newest messages with files.
#[derive(Debug, Default)]
pub struct NewestFiles {
    pub hits: Vec<SearchHit>,
    /// The names of their files in the archive.
    pub names: FileNames,
}

impl NewestFiles {
    /// The files that the page names.
    pub fn ids(hits: &[SearchHit]) -> impl Iterator<Item = (TeamId, FileId)> {
        let of = |hit: &SearchHit| {
            let team = hit.location.team.clone();
            let ids: Vec<FileId> = hit.message.files().iter().take(MAX_FILES).filter_map(file_id).collect();
            ids.into_iter().map(move |id| (team.clone(), id))
        };
        hits.iter().flat_map(of)
    }
}

/// A channel with its first and its last message.
struct ActiveChannel<'m> {
    channel: &'m MenuChannel,
    oldest: Option<Ts>,
    newest: Option<Ts>,
}

impl<'m> ActiveChannel<'m> {
    fn new(channel: &'m MenuChannel, activity: &BTreeMap<ChannelOfTeam, ChannelActivity>) -> Self {
        let known = || channel.parts.iter().flatten().filter_map(|location| activity.get(location));
        let oldest = known().filter_map(|known| known.oldest.clone()).min_by_key(Ts::micros);
        let newest = known().filter_map(|known| known.newest.clone()).max_by_key(Ts::micros);
        Self { channel, oldest, newest }
    }
}

/// Renders the page. `activity` may have more channels than the menu.
pub fn home_page(
    menu: &ChannelMenu,
    activity: &BTreeMap<ChannelOfTeam, ChannelActivity>,
    newest_files: &NewestFiles,
    zone: &TimeZone,
    links: &dyn LinkScheme,
) -> Markup {
    let mut active: Vec<ActiveChannel<'_>> =
        menu.channels.iter().map(|channel| ActiveChannel::new(channel, activity)).collect();
    active.retain(|active| active.newest.is_some());
    active.sort_by_key(|active| Reverse(active.newest.as_ref().map(Ts::micros)));
    html! {
        h1 { bdi { (plain::excerpt(&menu.site_name, MAX_NAME_CHARS)) } }
        @if menu.channels.is_empty() {
            p { "Nothing is stored yet. " code { "annalist doctor" } " says what is missing." }
        } @else {
            p { (held(menu, oldest(menu, activity).as_ref(), &active, zone)) }
        }
        @if !active.is_empty() {
            h2 { "Recently active" }
            ul class="recent" {
                @for ActiveChannel { channel, newest, .. } in active.iter().take(MAX_ACTIVE) {
                    li {
                        a href=(links.channel(&channel.location)) { bdi { "#" (channel.display_name()) } }
                        @if let Some(newest) = newest { " " span class="quiet" { (times::short(newest, zone)) } }
                    }
                }
            }
        }
        @if !newest_files.hits.is_empty() {
            h2 { "Newest files" }
            ul class="recent" { @for hit in &newest_files.hits { li { (files(hit, &newest_files.names, zone, links)) } } }
        }
    }
}

/// The first message of the channels of the menu.
pub fn oldest(menu: &ChannelMenu, activity: &BTreeMap<ChannelOfTeam, ChannelActivity>) -> Option<Ts> {
    let channels = menu.channels.iter().map(|channel| ActiveChannel::new(channel, activity));
    channels.filter_map(|active| active.oldest).min_by_key(Ts::micros)
}

/// Says how much is held, and since when.
fn held(menu: &ChannelMenu, oldest: Option<&Ts>, active: &[ActiveChannel<'_>], zone: &TimeZone) -> Markup {
    let messages = menu.channels.iter().filter_map(|channel| channel.messages).sum::<u64>();
    let day = |ts: Option<&Ts>| ts.and_then(|ts| times::day(ts, zone));
    let newest = active.first().and_then(|active| active.newest.as_ref());
    html! {
        @if messages > 0 {
            (grouped(messages)) @if menu.is_counting { "+" } " messages in "
        }
        (counted(menu.channels.len(), "channel", "channels"))
        @if let (Some(oldest), Some(newest)) = (day(oldest), day(newest)) {
            ", from " (times::short_day(oldest)) " to " (times::short_day(newest))
        }
        "."
    }
}

fn files(hit: &SearchHit, names: &FileNames, zone: &TimeZone, links: &dyn LinkScheme) -> Markup {
    let listed = hit.message.files();
    let name = |file: &serde_json::Value| {
        let own = |name: &str| file[name].as_str().filter(|name| !name.is_empty());
        let of_row = || names.get(&(hit.location.team.clone(), file_id(file)?)).map(String::as_str);
        let name = own("title").or_else(|| own("name")).or_else(of_row);
        plain::excerpt(name.unwrap_or("unnamed"), MAX_NAME_CHARS)
    };
    let channel = hit.channel_name.as_deref().unwrap_or(hit.location.channel.as_str());
    html! {
        a href=(links.message(&hit.location, &hit.ts)) {
            @for (index, file) in listed.iter().take(MAX_FILES).enumerate() { @if index > 0 { ", " } bdi { (name(file)) } }
            @if listed.is_empty() { "a file" }
        }
        @if listed.len() > MAX_FILES { " and " (listed.len() - MAX_FILES) " more" }
        " " span class="quiet" { bdi { (plain::excerpt(&hit.author, MAX_NAME_CHARS)) } " in " bdi { "#" (plain::excerpt(channel, MAX_NAME_CHARS)) } ", " (times::short(&hit.ts, zone)) }
    }
}
