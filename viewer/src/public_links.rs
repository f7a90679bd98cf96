//! The addresses of a public site: relative paths, so that the folder works in any place.

use std::collections::{BTreeMap, HashMap, HashSet};

use ports::files::FileKey;
use reader::joined::ChannelOfTeam;
use rules::publishing::month;
use slack::ids::{FileId, TeamId, Ts};

use crate::assets::Asset;
use crate::links::{LinkScheme, SitePage, anchor, anchor_in_thread};

/// The page of a folder.
pub const INDEX: &str = "index.html";

/// The file name of a feed.
pub const FEED: &str = "feed.xml";

/// The folders of a site.
pub const CHANNELS: &str = "c";
/// The folder of the pages' assets.
pub const ASSETS: &str = "assets";

/// The folder of the search.
pub const SEARCH: &str = "search";

/// The folder of copies of files of messages, also of the HTML export.
pub const FILES: &str = "files";

/// The folder of copies of pictures of people and emoji.
pub const PICTURES: &str = "pictures";

/// The path of the search's page.
pub fn search_page() -> String {
    format!("{SEARCH}/{INDEX}")
}

/// What all pages of a site link to.
#[derive(Debug, Default)]
pub struct PublicSite {
    /// The folders of the channels, by each of their locations.
    pub folders: BTreeMap<ChannelOfTeam, String>,
    /// Whether the site has a search.
    pub has_search: bool,
}

/// The copies that a page shows.
#[derive(Debug, Default)]
pub struct PageCopies {
    /// Files of messages, with their names below [`FILES`].
    pub files: HashMap<FileId, String>,
    /// Pictures, with their names below [`PICTURES`].
    pub pictures: HashMap<FileKey, String>,
}

/// Links from a page of a public site.
#[derive(Debug)]
pub struct PublicLinks<'s> {
    /// The relative path from the page's folder to the site's root, such as `../../`.
    pub root: &'s str,
    pub site: &'s PublicSite,
    /// The page with older messages.
    pub older: Option<String>,
    /// The page with newer messages.
    pub newer: Option<String>,
    /// Whether the page is that of a thread.
    pub is_thread: bool,
    /// The roots of replies on the page that have no page.
    pub rootless: HashSet<Ts>,
    pub copies: PageCopies,
}

impl<'s> PublicLinks<'s> {
    /// Links from a page without messages.
    pub fn new(root: &'s str, site: &'s PublicSite) -> Self {
        Self {
            root,
            site,
            older: None,
            newer: None,
            is_thread: false,
            rootless: HashSet::new(),
            copies: PageCopies::default(),
        }
    }
}

/// The path of a channel's folder from the site's root.
pub fn channel_folder(folder: &str) -> String {
    format!("{CHANNELS}/{folder}")
}

/// The path of a page of a thread from its channel's folder. `part` counts from 1.
pub fn thread_page(root_ts: &Ts, part: usize) -> String {
    let digits = root_ts.as_str().replace('.', "");
    let suffix = if part > 1 { format!("-{part}") } else { String::new() };
    format!("{}/{digits}{suffix}.html", month(root_ts))
}

impl LinkScheme for PublicLinks<'_> {
    fn site_page(&self, page: SitePage) -> Option<String> {
        match page {
            SitePage::Channels => Some(format!("{}{INDEX}", self.root)),
            SitePage::Search if self.site.has_search => Some(format!("{}{}", self.root, search_page())),
            SitePage::Search
            | SitePage::People
            | SitePage::Files
            | SitePage::Figures
            | SitePage::Coverage => None,
        }
    }

    fn channel(&self, location: &ChannelOfTeam) -> String {
        // A mention may name a channel of another workspace of the site.
        let folder = self.site.folders.get(location).or_else(|| {
            let mut others = self.site.folders.iter();
            others.find(|(other, _)| other.channel == location.channel).map(|(_, folder)| folder)
        });
        match folder {
            Some(folder) => format!("{}{}/{INDEX}", self.root, encoded(&channel_folder(folder))),
            None => format!("{}{INDEX}", self.root),
        }
    }

    fn search_scope(&self, location: &ChannelOfTeam) -> Option<String> {
        self.site.folders.get(location).cloned()
    }

    fn before(&self, _: &ChannelOfTeam, _: &Ts) -> Option<String> {
        self.older.clone()
    }

    fn after(&self, _: &ChannelOfTeam, _: &Ts) -> Option<String> {
        self.newer.clone()
    }

    fn message(&self, _: &ChannelOfTeam, ts: &Ts) -> String {
        format!("#{}", if self.is_thread { anchor_in_thread(ts) } else { anchor(ts) })
    }

    fn thread(&self, _: &ChannelOfTeam, root_ts: &Ts) -> String {
        if self.rootless.contains(root_ts) { "#main".to_owned() } else { thread_page(root_ts, 1) }
    }

    fn file(&self, _: &TeamId, file: &FileId) -> Option<String> {
        self.copies.files.get(file).map(|name| format!("{}{FILES}/{name}", self.root))
    }

    fn picture(&self, key: &FileKey) -> Option<String> {
        self.copies.pictures.get(key).map(|name| format!("{}{PICTURES}/{name}", self.root))
    }

    fn asset(&self, asset: &Asset) -> String {
        format!("{}{ASSETS}/{}", self.root, asset.file_name())
    }
}

/// Percent-encodes a path. Channel names may have letters of any script.
pub fn encoded(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/') {
            encoded.push(char::from(byte));
        } else {
            encoded += &format!("%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use slack::ids::ChannelId;

    use super::*;

    #[test]
    fn links_lead_only_to_files_of_the_site() {
        let location =
            ChannelOfTeam { team: TeamId::parse("T1").unwrap(), channel: ChannelId::parse("C1").unwrap() };
        let root_ts = Ts::parse("1795178096.000100").unwrap();
        let mut site = PublicSite::default();
        site.folders.insert(location.clone(), "会".into());
        let mut links = PublicLinks::new("../../", &site);
        assert_eq!(links.channel(&location), "../../c/%E4%BC%9A/index.html");
        assert_eq!(links.thread(&location, &root_ts), "2026-11/1795178096000100.html");
        assert_eq!(thread_page(&root_ts, 2), "2026-11/1795178096000100-2.html");
        assert_eq!(links.message(&location, &root_ts), "#m1795178096.000100");
        assert_eq!(links.file(&location.team, &FileId::parse("F1").unwrap()), None);
        assert_eq!(links.site_page(SitePage::Search), None);
        links.copies.files.insert(FileId::parse("F1").unwrap(), "F1.png".to_owned());
        assert_eq!(
            links.file(&location.team, &FileId::parse("F1").unwrap()).as_deref(),
            Some("../../files/F1.png")
        );
        links.rootless.insert(root_ts.clone());
        links.is_thread = true;
        assert_eq!(links.thread(&location, &root_ts), "#main");
        assert_eq!(links.message(&location, &root_ts), "#t1795178096.000100");
    }
}
