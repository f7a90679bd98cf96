//! The pages of a channel and of the site that are made from its months: lists, feeds, sitemaps, redirects.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use rules::publishing::month;
use slack::ids::Ts;
use viewer::assets;
use viewer::gather::learn_names;
use viewer::links::{anchor, anchor_in_thread};
use viewer::pages::message::PageMessage;
use viewer::pages::public::{self, FeedEntry, PublicHead, PublicPart};
use viewer::public_links::{ASSETS, FEED, INDEX, PublicLinks, SEARCH, channel_folder, encoded, search_page};

use super::PublishError;
use super::run::PublishRun;
use super::state::{SiteState, SiteUnit};
use super::tags::UnitTags;
use super::write::{DoneUnit, SiteFile};

const FEED_ENTRIES: usize = 50;

/// Threads on the first page.
const LISTED_THREADS: usize = 20;

/// Addresses of a sitemap.
/// <https://www.sitemaps.org/protocol.html>
const MAX_ADDRESSES: usize = 50_000;

const UP: &str = "../../";
const UP_FROM_SEARCH: &str = "../";
const HERE: &str = "";

/// The list of the parts of the search, newest first.
const PARTS: &str = "parts.json";

/// The sitemap of the site's own pages, and the list of all sitemaps.
const SITE_MAP: &str = "sitemap-site.xml";
const SITE_MAPS: &str = "sitemap.xml";

/// The page that a server shows for an address without a page, at any depth.
const NOT_FOUND: &str = "404.html";

const ROBOTS: &str = "robots.txt";

impl PublishRun<'_> {
    /// Renders a channel's own pages.
    pub(super) async fn channel_pages(&mut self, unit: &SiteUnit) -> Result<(), PublishError> {
        let Some(index) = self.channels.iter().position(|channel| channel.folder == unit.channel) else {
            return Ok(());
        };
        let mut tags = UnitTags::default();
        let newest = self.newest(&self.channels[index], FEED_ENTRIES, &mut tags).await?;
        learn_names(&mut self.names, &newest.iter().collect::<Vec<_>>()).await?;
        let channel = &self.channels[index];
        let folder = channel_folder(&channel.folder);
        let mut entries = Vec::new();
        let mut parts: BTreeMap<String, Vec<[String; 3]>> = BTreeMap::new();
        for message in &newest {
            let parts = match parts.entry(month(&message.ts)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let parts = parts_of(&self.state, &channel.folder, new.key())?;
                    new.insert(parts)
                }
            };
            let has_message =
                |[_, first, last]: &&[String; 3]| (&**first..=&**last).contains(&message.ts.as_str());
            let Some([page, ..]) = parts.iter().rfind(has_message) else { continue };
            let address = format!("{}#{}", self.address(page), anchor(&message.ts));
            entries.push(FeedEntry::new(message, address, &self.names));
        }
        let index_page = Self::index_of(channel);
        let title = format!("#{} · {}", channel.name, self.title);
        let feed_page = format!("{folder}/{FEED}");
        let feed = public::feed(&title, &self.address(&feed_page), &self.address(&index_page), &entries)
            .into_bytes();
        let months = self.months(&channel.folder)?;
        let parts: Vec<PublicPart> =
            months.iter().rev().map(|(month, messages)| PublicPart::of_month(month, *messages)).collect();
        let links = PublicLinks::new(UP, &self.site);
        let topic = &self.topics[index];
        let head = PublicHead {
            title: format!("#{}", channel.name),
            description: if topic.is_empty() { format!("#{}", channel.name) } else { topic.clone() },
            address: self.address(&index_page),
            feed: self.address(&feed_page),
            is_indexed: self.settings.is_indexed,
            thread: None,
            site: &self.title,
        };
        let ways = [(FEED.to_owned(), "Feed")];
        let main = public::parts(&channel.name, topic, None, &parts, &ways);
        let list = public::page(&head, &self.menu_of(channel), main, &links).into_bytes();
        let mut files = vec![
            SiteFile { path: feed_page, content: feed, ..SiteFile::default() },
            SiteFile { path: index_page.clone(), content: list, is_listed: true, ..SiteFile::default() },
        ];
        let addresses = self.listed(&channel.folder, &index_page)?;
        for (number, addresses) in addresses.chunks(MAX_ADDRESSES).enumerate() {
            let path = format!("{folder}/sitemap-{}.xml", number + 1);
            let content = public::sitemap(addresses).into_bytes();
            files.push(SiteFile { path, content, ..SiteFile::default() });
        }
        for name in &channel.redirects {
            let target = format!("../{}/{INDEX}", encoded(&channel.folder));
            let content = public::redirect(&target, &self.address(&index_page)).into_bytes();
            let path = format!("{}/{INDEX}", channel_folder(name));
            files.push(SiteFile { path, content, ..SiteFile::default() });
        }
        self.put_all(unit, files, tags).await
    }

    /// Renders the site's own pages.
    pub(super) async fn site_pages(
        &mut self,
        unit: &SiteUnit,
        search_parts: &[String],
    ) -> Result<(), PublishError> {
        let mut tags = UnitTags::default();
        let threads = self.newest_threads(&mut tags).await?;
        let messages: Vec<&PageMessage> = threads.iter().map(|(message, _)| message).collect();
        learn_names(&mut self.names, &messages).await?;
        let entries: Vec<FeedEntry> = threads
            .iter()
            .map(|(message, path)| {
                let address = format!("{}#{}", self.address(path), anchor_in_thread(&message.ts));
                FeedEntry::new(message, address, &self.names)
            })
            .collect();
        let feed =
            public::feed(&self.title, &self.feed_of(None), &self.address(INDEX), &entries).into_bytes();
        let mut counts = BTreeMap::new();
        for channel in &self.channels {
            let months = self.months(&channel.folder)?;
            counts.insert(channel.folder.clone(), months.iter().map(|(_, messages)| messages).sum());
        }
        let menu = self.menu(&counts);
        let links = PublicLinks::new(HERE, &self.site);
        let head = PublicHead {
            title: self.title.clone(),
            description: self.title.clone(),
            address: self.address(INDEX),
            feed: self.feed_of(None),
            is_indexed: self.settings.is_indexed,
            thread: None,
            site: &self.title,
        };
        let newest: Vec<(String, &FeedEntry)> = threads
            .iter()
            .zip(&entries)
            .take(LISTED_THREADS)
            .map(|((_, path), entry)| (encoded(path), entry))
            .collect();
        let main = public::site_index(&self.title, &newest);
        let index = public::page(&head, &menu, main, &links).into_bytes();
        let from_anywhere = PublicLinks::new(self.settings.url.path(), &self.site);
        let not_found = public::not_found(&self.title, &menu, &from_anywhere).into_bytes();
        let maps = self.state.texts(
            "SELECT path FROM page WHERE channel <> '' AND month = '' AND path LIKE 'c/%/sitemap-%.xml' ORDER BY path",
            &[],
        )?;
        let maps: Vec<String> =
            [SITE_MAP.to_owned()].into_iter().chain(maps).map(|path| self.address(&path)).collect();
        let mut own = vec![(self.address(INDEX), None)];
        own.extend(self.site.has_search.then(|| (self.address(&search_page()), None)));
        let robots = if self.settings.is_indexed {
            format!("User-agent: *\nAllow: /\nSitemap: {}\n", self.address(SITE_MAPS))
        } else {
            "User-agent: *\nDisallow: /\n".to_owned()
        };
        let file = |path: &str, content: Vec<u8>, is_listed: bool| SiteFile {
            path: path.to_owned(),
            content,
            is_listed,
            ..SiteFile::default()
        };
        let mut files = vec![
            file(FEED, feed, false),
            file(INDEX, index, true),
            file(NOT_FOUND, not_found, false),
            file(SITE_MAP, public::sitemap(&own).into_bytes(), false),
            file(SITE_MAPS, public::sitemap_index(&maps).into_bytes(), false),
            file(ROBOTS, robots.into_bytes(), false),
        ];
        for asset in assets::ALL {
            files.push(file(&format!("{ASSETS}/{}", asset.file_name()), asset.content().into(), false));
        }
        if self.site.has_search {
            let head = PublicHead {
                title: "Search".to_owned(),
                description: format!("Search {}", self.title),
                address: self.address(&search_page()),
                feed: self.feed_of(None),
                is_indexed: self.settings.is_indexed,
                thread: None,
                site: &self.title,
            };
            let links = PublicLinks::new(UP_FROM_SEARCH, &self.site);
            let page = public::search(&head, &menu, &links).into_bytes();
            files.push(file(&search_page(), page, true));
            let parts = serde_json::json!(search_parts).to_string().into_bytes();
            files.push(file(&format!("{SEARCH}/{PARTS}"), parts, false));
            let script = &assets::SITE_SEARCH;
            files.push(file(&format!("{ASSETS}/{}", script.file_name()), script.content().into(), false));
        }
        self.put_all(unit, files, tags).await
    }

    async fn put_all(
        &mut self,
        unit: &SiteUnit,
        files: Vec<SiteFile>,
        tags: UnitTags,
    ) -> Result<(), PublishError> {
        let paths: BTreeSet<String> = files.iter().map(|file| file.path.clone()).collect();
        for file in files {
            self.writer.put(&mut self.state, unit, file)?;
        }
        let done = DoneUnit { unit: unit.clone(), paths, ..DoneUnit::default() };
        self.finish(done, tags).await
    }

    /// The newest threads of the site with their pages, newest first.
    async fn newest_threads(&self, tags: &mut UnitTags) -> Result<Vec<(PageMessage, String)>, PublishError> {
        let query = format!(
            "SELECT path FROM page WHERE root_ts IS NOT NULL AND month <> 'undated' ORDER BY root_ts DESC, path \
            LIMIT {FEED_ENTRIES}"
        );
        let mut threads = Vec::new();
        for path in self.state.texts(&query, &[])? {
            let row =
                self.state.texts("SELECT channel || ' ' || root_ts FROM page WHERE path = ?1", &[&path])?;
            let Some((folder, ts)) = row.first().and_then(|row| row.rsplit_once(' ')) else { continue };
            let channel = self.channels.iter().find(|channel| channel.folder == folder);
            if let (Some(channel), Ok(ts)) = (channel, Ts::parse(ts))
                && let Some(message) = self.message(channel, &ts, tags).await?
            {
                threads.push((message, path));
            }
        }
        Ok(threads)
    }

    /// The months of a channel with messages, and their numbers.
    fn months(&self, folder: &str) -> Result<Vec<(String, u64)>, PublishError> {
        let query = "SELECT month, messages FROM unit WHERE channel = ?1 AND month <> '' AND messages > 0 ORDER BY month";
        let mut statement = self.state.db().prepare_cached(query)?;
        let months =
            statement.query_map([folder], |row| Ok((row.get(0)?, u64::from(row.get::<_, u32>(1)?))))?;
        Ok(months.collect::<rusqlite::Result<_>>()?)
    }

    /// The addresses of a channel's pages for its sitemap, with the times of their last change. `own` is the
    /// page that lists them.
    fn listed(&self, folder: &str, own: &str) -> Result<Vec<(String, Option<String>)>, PublishError> {
        let query =
            "SELECT path, changed FROM page WHERE channel = ?1 AND is_listed AND path <> ?2 ORDER BY path";
        let mut statement = self.state.db().prepare_cached(query)?;
        let pages = statement.query_map([folder, own], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
        let pages: Vec<(String, Option<String>)> = pages.collect::<rusqlite::Result<_>>()?;
        let newest = pages.iter().filter_map(|(_, changed)| changed.clone()).max();
        let all = [(own.to_owned(), newest)].into_iter().chain(pages);
        Ok(all.map(|(path, changed)| (self.address(&path), changed)).collect())
    }
}

/// The pages with the messages of a month: the path of each, and the times of its first and last message.
fn parts_of(state: &SiteState, folder: &str, month: &str) -> Result<Vec<[String; 3]>, PublishError> {
    let query = "SELECT path, first_ts, last_ts FROM page \
        WHERE channel = ?1 AND month = ?2 AND first_ts IS NOT NULL ORDER BY path";
    let mut statement = state.db().prepare_cached(query)?;
    let parts = statement.query_map([folder, month], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
    Ok(parts.collect::<rusqlite::Result<_>>()?)
}
