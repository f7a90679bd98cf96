//! The pages of a month of a channel; [`kept`](super::kept) says which pages of days stay.

use std::collections::{BTreeMap, BTreeSet};

use reader::range::TimeRange;
use rules::publishing::{UNDATED, day, month};
use rules::view::MessageView;
use viewer::gather::learn_names;
use viewer::pages::message::PageMessage;
use viewer::pages::public::{self, PublicHead, PublicPart};
use viewer::pages::timeline::{TimelineEnds, TimelinePage};
use viewer::public_links::{INDEX, PublicLinks, channel_folder};
use viewer::times;

use super::PublishError;
use super::kept::{DayPage, KeptDays, MonthStep};
use super::run::PublishRun;
use super::state::SiteUnit;
use super::tags::UnitTags;
use super::timeline::{KnownRoots, rows_of};
use super::write::{DoneUnit, MonthPart, SiteFile};

/// Messages on a page, so that a browser shows it at once.
pub(super) const PAGE: usize = 1_000;

/// The relative path from a channel's folder to the site's root.
const UP: &str = "../../";

/// How far the rows of a range are read.
enum ReadUpTo {
    Key(String),
    End,
}

/// A month that is being rendered.
pub(super) struct MonthPages<'u> {
    pub(super) unit: &'u SiteUnit,
    /// The position of the channel.
    pub(super) channel: usize,
    pending: Vec<PageMessage>,
    /// Whether the month has a page for each day.
    is_split: bool,
    /// The pages so far, oldest first.
    pub(super) parts: Vec<PublicPart>,
    /// The name of the part that comes next.
    name: String,
    before: Option<String>,
    after: Option<String>,
    /// The roots of threads that have a page.
    pub(super) threads: BTreeSet<String>,
    roots: KnownRoots,
    /// What the quotes in the messages of each day depend on.
    quoted: BTreeMap<String, UnitTags>,
    pub(super) tags: UnitTags,
    /// The pages of threads and of days that were rendered, with what each depends on.
    pub(super) rendered: Vec<(String, UnitTags)>,
    pub(super) kept: KeptDays,
    pub(super) paths: BTreeSet<String>,
    pub(super) messages: u32,
}

impl MonthPages<'_> {
    /// The address of the page before the last one, or before this one.
    pub(super) fn older(&self, name: &str) -> Option<String> {
        let previous = match self.parts.iter().rev().find(|part| part.name != name) {
            Some(part) => Some(part.name.as_str()),
            None => self.before.as_deref(),
        };
        previous.map(|previous| format!("{previous}.html"))
    }

    /// Returns the name of the part that begins with this message: its day, with a number after the first.
    fn name_of(&self, first: &PageMessage) -> String {
        let day = day(&first.ts);
        let is_of_day = |part: &&PublicPart| {
            part.name == day || part.name.strip_prefix(&day).is_some_and(|rest| rest.starts_with('-'))
        };
        match self.parts.iter().filter(is_of_day).count() {
            // The list of the parts has the name of the month.
            0 if day != UNDATED => day,
            earlier => format!("{day}-{}", earlier + 1),
        }
    }
}

impl PublishRun<'_> {
    /// Renders a month and the threads that begin in it.
    pub(super) async fn month(&mut self, unit: &SiteUnit) -> Result<(), PublishError> {
        let Some(channel) = self.channels.iter().position(|channel| channel.folder == unit.channel) else {
            return Ok(());
        };
        let [before, after] = self.state.neighbours(unit)?;
        let mut pages = MonthPages {
            unit,
            channel,
            pending: Vec::new(),
            is_split: false,
            parts: Vec::new(),
            name: unit.month.clone(),
            before,
            after,
            threads: BTreeSet::new(),
            roots: KnownRoots::new(),
            quoted: BTreeMap::new(),
            tags: UnitTags::default(),
            rendered: Vec::new(),
            kept: KeptDays::default(),
            paths: BTreeSet::new(),
            messages: 0,
        };
        let (days, steps) = self.state.steps(unit)?;
        pages.kept = days;
        // Whatever else is in the month, it has a page for each day.
        pages.is_split = steps.len() > 1;
        for step in steps {
            match step {
                MonthStep::Read(range) => {
                    let mut after = None;
                    while let Some(messages) = self.next_messages(&mut pages, &range, &mut after).await? {
                        for message in messages {
                            self.add(&mut pages, message).await?;
                        }
                    }
                }
                MonthStep::Keep(page) => self.keep(&mut pages, page).await?,
            }
        }
        self.end(pages).await
    }

    /// Reads the next messages in a range, after the rows up to `after`; `None` at its end. The rows are read page by
    /// page, because rendering needs the whole run in between.
    async fn next_messages(
        &self,
        pages: &mut MonthPages<'_>,
        range: &TimeRange,
        after: &mut Option<ReadUpTo>,
    ) -> Result<Option<Vec<PageMessage>>, PublishError> {
        let channel = &self.channels[pages.channel];
        let mut rows = rows_of(channel, range);
        match after.take() {
            None => {}
            Some(ReadUpTo::Key(key)) => rows.continue_after(Some(key)),
            Some(ReadUpTo::End) => return Ok(None),
        }
        let Some(page) = rows.next().await? else { return Ok(None) };
        let key = rows.after().filter(|_| rows.has_more());
        *after = Some(key.map_or(ReadUpTo::End, |key| ReadUpTo::Key(key.to_owned())));
        self.learn_roots(channel, &page, &mut pages.roots).await?;
        let mut messages = Vec::new();
        let mut days: BTreeMap<String, Vec<MessageView>> = BTreeMap::new();
        for row in page {
            if let Some(ts) = row.written_at().filter(|ts| month(ts) == pages.unit.month) {
                days.entry(day(&ts)).or_default().push(row);
            }
        }
        for (day, rows) in days {
            let tags = pages.quoted.entry(day).or_default();
            messages.extend(self.on_pages(channel, rows, &pages.roots, tags)?);
        }
        Ok(Some(messages))
    }

    /// Keeps the page of a day, if its neighbours are those that it links to.
    async fn keep(&mut self, pages: &mut MonthPages<'_>, page: DayPage) -> Result<(), PublishError> {
        let newer = format!("{}.html", page.name);
        let messages = std::mem::take(&mut pages.pending);
        if !messages.is_empty() {
            let name = pages.name.clone();
            let part = PublicPart::of_month(&name, messages.len() as u64);
            pages.parts.push(part);
            self.part(pages, &name, messages, Some(newer.clone())).await?;
        }
        self.settle(pages, Some(newer)).await?;
        pages.parts.push(PublicPart::of_month(&page.name, u64::from(page.part.messages)));
        pages.kept.paths.insert(page.path.clone());
        pages.kept.waiting = Some(page);
        Ok(())
    }

    /// Keeps or renders the page of a day that waited for the address of the page after it.
    async fn settle(
        &mut self,
        pages: &mut MonthPages<'_>,
        newer: Option<String>,
    ) -> Result<(), PublishError> {
        let Some(page) = pages.kept.waiting.take() else { return Ok(()) };
        if page.part.older == pages.older(&page.name) && page.part.newer == newer {
            pages.note_kept(page);
            return Ok(());
        }
        let (mut messages, mut after) = (Vec::new(), None);
        while let Some(more) = self.next_messages(pages, &page.range(), &mut after).await? {
            messages.extend(more);
        }
        self.part(pages, &page.name, messages, newer).await
    }

    /// Adds a message, and renders the page that it completes.
    async fn add(&mut self, pages: &mut MonthPages<'_>, message: PageMessage) -> Result<(), PublishError> {
        if !pages.is_split && pages.pending.len() == PAGE {
            pages.is_split = true;
            let all = std::mem::take(&mut pages.pending);
            for message in all {
                self.add_to_day(pages, message).await?;
            }
        }
        if pages.is_split {
            self.add_to_day(pages, message).await
        } else {
            pages.pending.push(message);
            Ok(())
        }
    }

    async fn add_to_day(
        &mut self,
        pages: &mut MonthPages<'_>,
        message: PageMessage,
    ) -> Result<(), PublishError> {
        match pages.pending.first() {
            None => {
                pages.name = pages.name_of(&message);
                let newer = format!("{}.html", pages.name);
                self.settle(pages, Some(newer)).await?;
            }
            Some(first) if day(&first.ts) != day(&message.ts) || pages.pending.len() == PAGE => {
                let (name, count) = (pages.name.clone(), pages.pending.len() as u64);
                pages.parts.push(PublicPart::of_month(&name, count));
                pages.name = pages.name_of(&message);
                let messages = std::mem::take(&mut pages.pending);
                let newer = format!("{}.html", pages.name);
                self.part(pages, &name, messages, Some(newer)).await?;
            }
            Some(_) => {}
        }
        pages.pending.push(message);
        Ok(())
    }

    /// Renders the last page, and of a month with several the list of them.
    async fn end(&mut self, mut pages: MonthPages<'_>) -> Result<(), PublishError> {
        let messages = std::mem::take(&mut pages.pending);
        let newer = pages.after.as_ref().map(|after| format!("{after}.html"));
        if messages.is_empty() {
            self.settle(&mut pages, newer.clone()).await?;
        } else {
            let (name, count) = (pages.name.clone(), messages.len() as u64);
            self.part(&mut pages, &name, messages, newer.clone()).await?;
            pages.parts.push(PublicPart::of_month(&name, count));
        }
        if pages.is_split {
            self.list_of_days(&mut pages, newer)?;
        }
        pages.tags.extend(std::mem::take(&mut pages.quoted).into_values().flat_map(UnitTags::into_vec));
        let unit = pages.unit;
        let query = "SELECT root_ts FROM page WHERE channel = ?1 AND month = ?2 AND root_ts IS NOT NULL AND hash IS NOT NULL";
        let known: BTreeSet<String> =
            self.state.texts(query, &[&unit.channel, &unit.month])?.into_iter().collect();
        let done = DoneUnit {
            unit: unit.clone(),
            messages: pages.messages,
            before: pages.before,
            after: pages.after,
            roots: known.symmetric_difference(&pages.threads).cloned().collect(),
            tags: Vec::new(),
            rendered: pages.rendered.iter().map(|(path, tags)| (path.clone(), tags.to_lines())).collect(),
            kept: pages.kept.paths,
            paths: pages.paths,
        };
        self.finish(done, pages.tags).await
    }

    /// Renders a page of messages, and the pages of their threads.
    async fn part(
        &mut self,
        pages: &mut MonthPages<'_>,
        name: &str,
        messages: Vec<PageMessage>,
        newer: Option<String>,
    ) -> Result<(), PublishError> {
        let (Some(first), Some(last)) = (messages.first(), messages.last()) else { return Ok(()) };
        let range = (first.ts.clone(), last.ts.clone());
        // A page of a whole month is never kept, so that it needs no tags of its own.
        let quoted = pages.quoted.get(&day(&first.ts)).filter(|_| pages.is_split);
        let mut tags = quoted.cloned().unwrap_or_default();
        self.threads(pages, &messages, name).await?;
        let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        pages.messages += count;
        let all: Vec<&PageMessage> = messages.iter().collect();
        learn_names(&mut self.names, &all).await?;
        tags.note(&messages);
        let copies = self.copies_of(&all, &mut tags).await?;
        let channel = &self.channels[pages.channel];
        let older = pages.older(name);
        let rootless = messages
            .iter()
            .filter_map(PageMessage::replies_to)
            .filter(|root| pages.roots.get(root) != Some(&true))
            .collect();
        let links = PublicLinks { older, newer, rootless, copies, ..PublicLinks::new(UP, &self.site) };
        let context = self.context(&links, channel);
        let ends = TimelineEnds {
            older: links.older.as_ref().map(|_| range.0.clone()),
            newer: links.newer.as_ref().map(|_| range.1.clone()),
        };
        let path = format!("{}/{name}.html", channel_folder(&channel.folder));
        let head = PublicHead {
            title: format!("#{} {}", channel.name, times::part_in_words(name)),
            description: public::description(&messages, &self.names),
            address: self.address(&path),
            feed: self.feed_of(Some(channel)),
            is_indexed: self.settings.is_indexed,
            thread: None,
            site: &self.title,
        };
        let changed = messages.iter().map(changed_at).max();
        let page = TimelinePage { messages, ends, ..TimelinePage::default() };
        let main = public::messages(&channel.name, name, &page, &context);
        let content = public::page(&head, &self.menu_of(channel), main, &links).into_bytes();
        pages.paths.insert(path.clone());
        let (older, newer, (first, last)) = (links.older, links.newer, range);
        let part = Some(MonthPart { first, last, messages: count, older, newer });
        pages.tags.extend(tags.iter().map(str::to_owned));
        if pages.is_split {
            pages.rendered.push((path.clone(), tags));
        }
        let file = SiteFile { path, content, is_listed: true, changed, part, ..SiteFile::default() };
        self.writer.put(&mut self.state, pages.unit, file)
    }

    /// Renders the list of the pages of a month.
    fn list_of_days(
        &mut self,
        pages: &mut MonthPages<'_>,
        newer: Option<String>,
    ) -> Result<(), PublishError> {
        let channel = &self.channels[pages.channel];
        let name = &pages.unit.month;
        let path = format!("{}/{name}.html", channel_folder(&channel.folder));
        let older = pages.before.as_ref().map(|before| format!("{before}.html"));
        let ways = [(older, "Older messages"), (newer, "Newer messages")];
        let ways: Vec<(String, &str)> =
            ways.into_iter().filter_map(|(way, words)| Some((way?, words))).collect();
        let links = PublicLinks::new(UP, &self.site);
        let head = PublicHead {
            title: format!("#{} {}", channel.name, times::part_in_words(name)),
            description: format!("#{} {}", channel.name, times::part_in_words(name)),
            address: self.address(&path),
            feed: self.feed_of(Some(channel)),
            is_indexed: self.settings.is_indexed,
            thread: None,
            site: &self.title,
        };
        let main = public::parts(&channel.name, "", Some(name), &pages.parts, &ways);
        let content = public::page(&head, &self.menu_of(channel), main, &links).into_bytes();
        pages.paths.insert(path.clone());
        let file = SiteFile { path, content, is_listed: true, ..SiteFile::default() };
        self.writer.put(&mut self.state, pages.unit, file)
    }

    /// Adds the end of a unit, with the values of what it depends on.
    pub(super) async fn finish(&mut self, done: DoneUnit, tags: UnitTags) -> Result<(), PublishError> {
        let tags = tags.into_vec();
        let values = self.tag_values(&tags).await?;
        let tags: BTreeMap<String, String> = tags.into_iter().zip(values).collect();
        self.writer.finish(&mut self.state, DoneUnit { tags: tags.into_iter().collect(), ..done })
    }

    /// The absolute address of a channel's feed, or of the site's.
    pub(super) fn feed_of(&self, channel: Option<&super::channels::SiteChannel<'_>>) -> String {
        let folder =
            channel.map(|channel| format!("{}/", channel_folder(&channel.folder))).unwrap_or_default();
        self.address(&format!("{folder}{}", viewer::public_links::FEED))
    }

    /// The path of a channel's list of pages.
    pub(super) fn index_of(channel: &super::channels::SiteChannel<'_>) -> String {
        format!("{}/{INDEX}", channel_folder(&channel.folder))
    }
}

/// The time of a message or of its last edit.
pub(super) fn changed_at(message: &PageMessage) -> String {
    public::updated(message)
        .map_or_else(|| times::machine_readable(&message.ts), |updated| updated.to_string())
}
