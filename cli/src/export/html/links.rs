//! Links of a static site: relative paths to its other files, so that the folder can be moved.

use std::collections::{BTreeMap, HashMap, HashSet};

use ports::files::FileKey;
use reader::joined::ChannelOfTeam;
use slack::ids::{FileId, TeamId, Ts};
use viewer::assets::Asset;
use viewer::links::{LinkScheme, SitePage, anchor, anchor_in_thread};
use viewer::public_links::{FILES, PICTURES, encoded};

use crate::export::copied::picture_name;

/// The page that lists the channels.
pub(super) const INDEX: &str = "index.html";

/// The folder of the pages' assets.
pub(super) const ASSETS: &str = "assets";

#[derive(Debug, Default)]
pub(super) struct SiteFiles {
    /// The folder of each channel, without a trailing slash.
    pub(super) channels: BTreeMap<ChannelOfTeam, String>,
    /// Copied files, with their names below [`FILES`].
    pub(super) files: HashMap<FileId, String>,
    /// Copied pictures.
    pub(super) pictures: HashSet<FileKey>,
}

/// A page of a channel, and the page with the threads of its messages.
#[derive(Debug, Default)]
pub(super) struct SitePart {
    /// The page's name, without `.html`.
    pub(super) name: String,
    /// The name of the previous part.
    pub(super) before: Option<String>,
    /// The name of the next part.
    pub(super) after: Option<String>,
    /// The messages on the page.
    pub(super) messages: HashSet<Ts>,
}

impl SitePart {
    /// Returns the file name of the page with its threads.
    pub(super) fn threads(&self) -> String {
        threads_of(&self.name)
    }
}

/// Returns the file name of the page with the threads of a part.
pub(super) fn threads_of(part: &str) -> String {
    format!("{part}-threads.html")
}

/// The location of a thread.
#[derive(Debug)]
pub(super) struct ThreadAddress {
    pub(super) address: String,
    /// Whether the thread's root is there too.
    pub(super) has_root: bool,
}

/// Links from a page of a site.
pub(super) struct SiteLinks<'s> {
    /// The relative path from the page's folder to the site's root.
    pub(super) path_to_root: &'static str,
    pub(super) files: &'s SiteFiles,
    pub(super) part: &'s SitePart,
    /// The threads of the channel by their roots.
    pub(super) threads: &'s HashMap<Ts, ThreadAddress>,
}

impl LinkScheme for SiteLinks<'_> {
    fn site_page(&self, page: SitePage) -> Option<String> {
        (page == SitePage::Channels).then(|| format!("{}{INDEX}", self.path_to_root))
    }

    fn channel(&self, location: &ChannelOfTeam) -> String {
        match self.files.channels.get(location) {
            Some(folder) => format!("{}{}/{INDEX}", self.path_to_root, encoded(folder)),
            None => format!("{}{INDEX}", self.path_to_root),
        }
    }

    fn before(&self, _: &ChannelOfTeam, _: &Ts) -> Option<String> {
        self.part.before.as_ref().map(|name| format!("{name}.html#newest"))
    }

    fn after(&self, _: &ChannelOfTeam, _: &Ts) -> Option<String> {
        self.part.after.as_ref().map(|name| format!("{name}.html"))
    }

    fn message(&self, _: &ChannelOfTeam, ts: &Ts) -> String {
        // A message that is not on this page is a reply.
        if self.part.messages.contains(ts) {
            format!("{}.html#{}", self.part.name, anchor(ts))
        } else {
            format!("{}#{}", self.part.threads(), anchor_in_thread(ts))
        }
    }

    fn thread(&self, _: &ChannelOfTeam, root_ts: &Ts) -> String {
        self.threads.get(root_ts).map_or_else(|| INDEX.to_owned(), |thread| thread.address.clone())
    }

    fn file(&self, _: &TeamId, file: &FileId) -> Option<String> {
        self.files.files.get(file).map(|name| format!("{}{FILES}/{name}", self.path_to_root))
    }

    fn picture(&self, key: &FileKey) -> Option<String> {
        self.files
            .pictures
            .contains(key)
            .then(|| format!("{}{PICTURES}/{}", self.path_to_root, picture_name(key)))
    }

    fn asset(&self, asset: &Asset) -> String {
        format!("{}{ASSETS}/{}", self.path_to_root, asset.file_name())
    }
}

#[cfg(test)]
mod tests {
    use slack::ids::ChannelId;

    use super::*;

    #[test]
    fn links_lead_only_to_files_of_the_site() {
        let location =
            ChannelOfTeam { team: TeamId::parse("T1").unwrap(), channel: ChannelId::parse("C1").unwrap() };
        let (ts, reply) = (Ts::parse("1.000000").unwrap(), Ts::parse("2.000000").unwrap());
        let mut files = SiteFiles::default();
        files.channels.insert(location.clone(), "c/会".into());
        let mut part = SitePart { name: "2026-11".into(), ..SitePart::default() };
        part.messages.insert(ts.clone());
        let threads = HashMap::new();
        let links = SiteLinks { path_to_root: "../../", files: &files, part: &part, threads: &threads };
        assert_eq!(links.channel(&location), "../../c/%E4%BC%9A/index.html");
        assert_eq!(links.message(&location, &ts), format!("2026-11.html#{}", anchor(&ts)));
        assert!(links.message(&location, &reply).starts_with("2026-11-threads.html#"));
        assert_eq!(links.before(&location, &ts), None);
        assert_eq!(links.file(&location.team, &FileId::parse("F1").unwrap()), None);
        assert_eq!(links.site_page(SitePage::Search), None);
    }
}
