//! `html`: the pages of [`viewer`] as a static site, which needs no server and no network.
//!
//! * A channel is a folder with a page for each month, or several pages for a month with many messages. The
//!   threads of a page's messages are on a separate page. [`links`] connects the pages.
//! * [`copies`] copies the files of messages and the pictures that the pages show.
//!
//! Only one page and its threads are in memory.

mod copies;
mod links;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use jiff::tz::TimeZone;
use reader::joined::ChannelOfTeam;
use reader::{directory, thread};
use search::counts::ThreadSize;
use slack::ids::Ts;
use viewer::assets;
use viewer::gather::pictures::{self, PictureBook};
use viewer::gather::{channel, learn_names, timeline};
use viewer::links::{anchor, anchor_in_thread};
use viewer::pages::PageContext;
use viewer::pages::message::PageMessage;
use viewer::pages::sidebar::{ChannelMenu, MenuChannel};
use viewer::pages::site::{self, ListedPart};
use viewer::pages::thread::ThreadPage;
use viewer::pages::timeline::{TimelineEnds, TimelinePage};
use viewer::times;

use self::links::{ASSETS, INDEX, SiteFiles, SiteLinks, SitePart, ThreadAddress};
use super::channel_files::save;
use super::known_names::NameCache;
use super::source::{ExportSource, ExportedChannel};
use super::threads::ThreadTable;
use super::{ExportError, ExportProgress};

/// Maximum number of messages and replies on a page, so that a browser shows it at once. A longer thread is
/// not split.
const PAGE: usize = 1_000;

/// The month of messages whose time is outside the calendar.
const UNDATED: &str = "undated";

/// Relative paths to the site's root: from a channel's folder, and from the root itself.
const UP: &str = "../../";
const UP_WITH_TEAM: &str = "../../../";
const HERE: &str = "";

/// Writes the site into a folder.
pub(super) async fn write(
    source: &ExportSource<'_>,
    zone: &TimeZone,
    folder: &Path,
    progress: &mut ExportProgress,
) -> Result<(), ExportError> {
    for asset in assets::ALL {
        save(&folder.join(ASSETS).join(asset.file_name()), asset.content())?;
    }
    let mut site = ExportedSite::new(source, zone, folder).await?;
    for channel in &source.channels {
        site.channel(channel, progress).await?;
        progress.channel_done();
    }
    site.index()
}

/// A site that is being written.
struct ExportedSite<'s, 'a> {
    source: &'s ExportSource<'a>,
    zone: &'s TimeZone,
    folder: &'s Path,
    menu: ChannelMenu,
    /// The menu of the pages of the channel that is being written.
    channel_menu: ChannelMenu,
    pictures: PictureBook,
    names: NameCache<'a>,
    files: SiteFiles,
    /// The number of messages of each written channel. The site's index shows the numbers, so it is written
    /// last.
    counts: BTreeMap<ChannelOfTeam, u64>,
}

/// The messages of one page of a channel.
#[derive(Debug, Default)]
struct PartMessages {
    month: String,
    /// The number of the part within its month, from 1.
    number: usize,
    messages: Vec<PageMessage>,
    /// The number of messages and replies.
    size: usize,
}

impl<'s, 'a> ExportedSite<'s, 'a> {
    async fn new(
        source: &'s ExportSource<'a>,
        zone: &'s TimeZone,
        folder: &'s Path,
    ) -> Result<Self, ExportError> {
        let workspaces = directory::read_shown_names(source.archive, &source.teams).await?;
        let mut files = SiteFiles::default();
        let mut channels = Vec::new();
        for channel in &source.channels {
            let location = channel.joined.current_location();
            let team =
                source.folder_of_team(&location.team).map(|team| format!("{team}/")).unwrap_or_default();
            files.channels.insert(location.clone(), format!("c/{team}{}", channel.folder));
            let facts = &channel.facts;
            let marks = [
                ("archived", facts.is_archived),
                ("deleted", facts.is_deleted),
                ("private", facts.is_private),
                ("shared", facts.is_shared || channel.joined.teams().len() > 1),
            ];
            channels.push(MenuChannel {
                location: location.clone(),
                name: facts.name.clone(),
                marks: marks.into_iter().filter(|(_, is_set)| *is_set).map(|(mark, _)| mark).collect(),
                messages: None,
                parts: Vec::new(),
            });
        }
        let menu = ChannelMenu { channels, ..ChannelMenu::new(workspaces) };
        let emoji = pictures::emoji(source.archive, &source.teams).await?;
        let (pictures, names) = (PictureBook::default(), NameCache::new(source.archive));
        let (channel_menu, counts) = (ChannelMenu::default(), BTreeMap::new());
        let mut site = Self { source, zone, folder, menu, channel_menu, pictures, names, files, counts };
        site.copy_emoji(&emoji).await?;
        site.pictures.emoji = emoji.into();
        Ok(site)
    }

    /// Writes the channel's pages, then the list of them.
    async fn channel(
        &mut self,
        channel: &ExportedChannel<'a>,
        progress: &mut ExportProgress,
    ) -> Result<(), ExportError> {
        let threads = self.source.threads(channel, progress).await?;
        self.channel_menu = menu_of(&self.menu, channel.joined.current_location());
        let mut rows = self.source.messages(channel);
        let (mut listed, mut part): (Vec<ListedPart>, _) = (Vec::new(), PartMessages::default());
        let (mut months, mut threads_at, mut count) = (HashMap::new(), HashMap::new(), 0);
        while let Some(page) = rows.next().await? {
            progress.read(page.len());
            for row in page {
                let row =
                    self.source.shown(row, &threads).and_then(|row| timeline::page_message(row, self.zone));
                let Some(mut message) = row else { continue };
                progress.count_exported_if(true);
                count += 1;
                let replies = threads.replies_to(&message.ts);
                let last = replies.and_then(|replies| replies.authors_by_ts().last());
                message.thread = last.and_then(|(last, _)| {
                    let replies = replies.map_or(0, |replies| replies.count()) as u64;
                    Some(ThreadSize { replies, last: Ts::parse(&last).ok()? })
                });
                if !is_on_timeline(&mut message, &threads_at) {
                    continue;
                }
                let month = times::day(&message.ts, self.zone).map(|day| day.strftime("%Y-%m").to_string());
                let month = month.unwrap_or_else(|| UNDATED.to_owned());
                let size = 1 + replies.map_or(0, |replies| replies.count());
                if !part.messages.is_empty() && (month != part.month || part.size + size > PAGE) {
                    let full = std::mem::take(&mut part);
                    part.begin(&month, &mut months);
                    self.part(channel, full, Some(part.name()), &mut listed, &threads_at, progress).await?;
                }
                if part.messages.is_empty() && part.month.is_empty() {
                    part.begin(&month, &mut months);
                }
                part.size += size;
                note_thread(&message, &part.name(), &mut threads_at);
                part.messages.push(message);
            }
        }
        if !part.messages.is_empty() {
            self.part(channel, part, None, &mut listed, &threads_at, progress).await?;
        }
        self.counts.insert(channel.joined.current_location().clone(), count);
        self.list(channel, &listed).await
    }

    /// Writes a page of messages, and the page of their threads.
    async fn part(
        &mut self,
        channel: &ExportedChannel<'a>,
        part: PartMessages,
        after: Option<String>,
        listed: &mut Vec<ListedPart>,
        threads_at: &HashMap<Ts, ThreadAddress>,
        progress: &mut ExportProgress,
    ) -> Result<(), ExportError> {
        let mut threads = Vec::new();
        for root in part.messages.iter().filter(|message| message.thread.is_some()) {
            threads.push(self.thread(channel, root).await?);
        }
        let replies = threads.iter().flat_map(|thread| &thread.replies);
        let all: Vec<&PageMessage> = part.messages.iter().chain(replies).collect();
        let mut names = self.names.take(&channel.joined);
        learn_names(&mut names, &all).await?;
        self.copy_shown(channel, &all, progress).await?;
        let name = part.name();
        let site_part = SitePart {
            name: name.clone(),
            before: listed.last().map(|part| part.name.clone()),
            after,
            messages: part.messages.iter().map(|message| message.ts.clone()).collect(),
        };
        let address = format!("{name}.html");
        listed.push(ListedPart { name, address, messages: part.messages.len() as u64 });
        let title =
            channel::title(self.source.archive, channel.joined.current_location(), &mut names).await?;
        let ends = TimelineEnds {
            older: part.messages.first().filter(|_| site_part.before.is_some()).map(|first| first.ts.clone()),
            newer: part.messages.last().filter(|_| site_part.after.is_some()).map(|last| last.ts.clone()),
        };
        let page = TimelinePage { messages: part.messages, ends, ..TimelinePage::default() };
        let links = SiteLinks {
            path_to_root: self.up(channel),
            files: &self.files,
            part: &site_part,
            threads: threads_at,
        };
        let place = channel.joined.current_location();
        let context = PageContext {
            links: &links,
            names: &names,
            pictures: &self.pictures,
            zone: self.zone,
            location: place,
        };
        let name = &site_part.name;
        self.save(
            channel,
            &format!("{name}.html"),
            &site::part(&title, name, &page, &self.channel_menu, &context),
        )?;
        if !threads.is_empty() {
            let threads = site::threads(&title, name, &threads, &self.channel_menu, &context);
            self.save(channel, &site_part.threads(), &threads)?;
        }
        self.names.keep(&channel.joined, names);
        Ok(())
    }

    async fn thread(
        &self,
        channel: &ExportedChannel<'a>,
        root: &PageMessage,
    ) -> Result<ThreadPage, ExportError> {
        // Only replies in the exported range that are not deleted, as the reply count on the root's page.
        let no_threads = ThreadTable::default();
        let mut replies = Vec::new();
        let mut rows = thread::replies(&channel.joined, &root.ts);
        while let Some(page) = rows.next().await? {
            let page = page.into_iter().filter_map(|row| self.source.shown(row, &no_threads));
            replies.extend(
                page.filter_map(|row| timeline::page_message(row, self.zone))
                    .filter(|reply| self.source.range.contains(&reply.ts)),
            );
        }
        let root_message = timeline::page_message(root.row.clone(), self.zone);
        Ok(ThreadPage {
            root_ts: root.ts.clone(),
            root: root_message,
            replies,
            next: None,
            skipped: 0,
            size: None,
            target: None,
        })
    }

    /// Writes the list of a channel's pages.
    async fn list(
        &mut self,
        channel: &ExportedChannel<'a>,
        listed: &[ListedPart],
    ) -> Result<(), ExportError> {
        let mut names = self.names.take(&channel.joined);
        let title =
            channel::title(self.source.archive, channel.joined.current_location(), &mut names).await?;
        self.names.keep(&channel.joined, names);
        let (part, threads) = (SitePart::default(), HashMap::new());
        let links =
            SiteLinks { path_to_root: self.up(channel), files: &self.files, part: &part, threads: &threads };
        self.save(channel, INDEX, &site::parts(&title, listed, &self.channel_menu, &links))
    }

    /// Writes the site's index.
    fn index(&self) -> Result<(), ExportError> {
        let (part, threads) = (SitePart::default(), HashMap::new());
        let links = SiteLinks { path_to_root: HERE, files: &self.files, part: &part, threads: &threads };
        let mut menu = self.menu.clone();
        for channel in &mut menu.channels {
            channel.messages = self.counts.get(&channel.location).copied();
        }
        Ok(save(&self.folder.join(INDEX), &site::index(&menu, &links))?)
    }

    fn save(&self, channel: &ExportedChannel<'a>, name: &str, page: &str) -> Result<(), ExportError> {
        let folder = self
            .files
            .channels
            .get(channel.joined.current_location())
            .map(String::as_str)
            .unwrap_or_default();
        Ok(save(&self.folder.join(folder).join(name), page)?)
    }

    fn up(&self, channel: &ExportedChannel<'a>) -> &'static str {
        let has_team = self.source.folder_of_team(&channel.joined.current_location().team).is_some();
        if has_team { UP_WITH_TEAM } else { UP }
    }
}

/// Returns the menu of a channel's pages, which has only this channel: with all channels on every page, a site
/// of thousands of channels would consist of menus.
fn menu_of(menu: &ChannelMenu, location: &ChannelOfTeam) -> ChannelMenu {
    let channels = menu.channels.iter().filter(|channel| channel.location == *location).cloned().collect();
    ChannelMenu { channels, current: Some(location.clone()), ..ChannelMenu::new(menu.workspaces.clone()) }
}

/// Whether a message appears on its channel's page. A reply appears in its thread, unless it was also sent to
/// the channel, or its root is not in the export.
fn is_on_timeline(message: &mut PageMessage, threads_at: &HashMap<Ts, ThreadAddress>) -> bool {
    let Some(root_ts) = message.replies_to() else {
        // A thread without replies in the export is not linked.
        if message.thread.is_none()
            && let Some(row) = message.row.json_mut().as_object_mut()
        {
            row.remove("thread_ts");
        }
        return true;
    };
    let has_page = threads_at.get(&root_ts).is_some_and(|thread| thread.has_root);
    message.row.is_broadcast() || !has_page
}

/// Stores the location of a thread: on the page of threads, or at its first reply if the root is not in the
/// export.
fn note_thread(message: &PageMessage, part: &str, threads_at: &mut HashMap<Ts, ThreadAddress>) {
    match message.replies_to() {
        Some(root_ts) => {
            let address = format!("{part}.html#{}", anchor(&message.ts));
            threads_at.entry(root_ts).or_insert(ThreadAddress { address, has_root: false });
        }
        None if message.thread.is_some() => {
            let address = format!("{}#{}", links::threads_of(part), anchor_in_thread(&message.ts));
            threads_at.insert(message.ts.clone(), ThreadAddress { address, has_root: true });
        }
        None => {}
    }
}

impl PartMessages {
    /// Gives the part a name that no other part of the channel has.
    fn begin(&mut self, month: &str, months: &mut HashMap<String, usize>) {
        let parts = months.entry(month.to_owned()).or_default();
        *parts += 1;
        self.number = *parts;
        month.clone_into(&mut self.month);
    }

    /// Returns the name of its page, without `.html`.
    fn name(&self) -> String {
        if self.number == 1 { self.month.clone() } else { format!("{}-{}", self.month, self.number) }
    }
}

fn authors<'m>(messages: &[&'m PageMessage]) -> HashSet<&'m str> {
    messages.iter().filter_map(|message| message.content.author.user.as_deref()).collect()
}

#[cfg(test)]
mod tests {
    use slack::ids::{ChannelId, TeamId};

    use super::*;

    #[test]
    fn the_menu_of_a_channel_has_only_this_channel() {
        let team = TeamId::parse("T1").unwrap();
        let location =
            |id: &str| ChannelOfTeam { team: team.clone(), channel: ChannelId::parse(id).unwrap() };
        let channel = |id: &str| MenuChannel {
            location: location(id),
            name: None,
            marks: Vec::new(),
            messages: None,
            parts: Vec::new(),
        };
        let channels = vec![channel("C1"), channel("C2")];
        let menu = ChannelMenu { channels, ..ChannelMenu::new(vec![(team.clone(), "Acme".to_owned())]) };
        let shown = menu_of(&menu, &location("C2"));
        assert_eq!(
            shown.channels.iter().map(|channel| channel.location.clone()).collect::<Vec<_>>(),
            [location("C2")]
        );
        assert_eq!((shown.current, shown.site_name.as_str()), (Some(location("C2")), "Acme"));
    }
}
