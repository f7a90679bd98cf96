//! Where links of a static site lead: to other files of it, by paths that hold wherever the folder is.

use std::collections::{BTreeMap, HashMap, HashSet};

use ports::files::FileKey;
use reader::joined::ChannelOfTeam;
use slack::ids::{ChannelId, FileId, TeamId, Ts};
use viewer::assets::Asset;
use viewer::links::{LinkScheme, SitePage, anchor, anchor_in_thread};

/// The page that lists the channels.
pub(super) const INDEX: &str = "index.html";

/// Where the pages' own files, files of messages, and pictures are.
pub(super) const ASSETS: &str = "assets";
pub(super) const FILES: &str = "files";
pub(super) const PICTURES: &str = "pictures";

/// The files of a site.
#[derive(Debug, Default)]
pub(super) struct SiteFiles {
    /// The folder of each channel, without a slash at its end.
    pub(super) channels: BTreeMap<ChannelOfTeam, String>,
    /// Files that were copied, by their names below [`FILES`].
    pub(super) files: HashMap<FileId, String>,
    /// Pictures that were copied.
    pub(super) pictures: HashSet<FileKey>,
}

/// A page of a channel, and the one with the threads of its messages.
#[derive(Debug, Default)]
pub(super) struct SitePart {
    /// Its name, without `.html`.
    pub(super) name: String,
    /// The part before it.
    pub(super) before: Option<String>,
    /// The part after it.
    pub(super) after: Option<String>,
    /// The messages on it.
    pub(super) messages: HashSet<Ts>,
}

impl SitePart {
    /// The page of its threads.
    pub(super) fn threads(&self) -> String {
        threads_of(&self.name)
    }
}

/// The page of the threads of a part.
pub(super) fn threads_of(part: &str) -> String {
    format!("{part}-threads.html")
}

/// Where a thread can be read.
#[derive(Debug)]
pub(super) struct ThreadAddress {
    pub(super) address: String,
    /// What began it is there too.
    pub(super) has_root: bool,
}

/// Links from a page of a site.
pub(super) struct SiteLinks<'s> {
    /// What leads from the page's folder to that of the site.
    pub(super) up: &'static str,
    pub(super) files: &'s SiteFiles,
    pub(super) part: &'s SitePart,
    /// The threads of the channel, by their roots.
    pub(super) threads: &'s HashMap<Ts, ThreadAddress>,
}

impl LinkScheme for SiteLinks<'_> {
    fn site_page(&self, page: SitePage) -> Option<String> {
        (page == SitePage::Channels).then(|| format!("{}{INDEX}", self.up))
    }

    fn channel(&self, place: &ChannelOfTeam) -> String {
        match self.files.channels.get(place) {
            Some(folder) => format!("{}{}/{INDEX}", self.up, encoded(folder)),
            None => format!("{}{INDEX}", self.up),
        }
    }

    fn before(&self, _: &ChannelOfTeam, _: &Ts) -> Option<String> {
        self.part.before.as_ref().map(|name| format!("{name}.html#newest"))
    }

    fn after(&self, _: &ChannelOfTeam, _: &Ts) -> Option<String> {
        self.part.after.as_ref().map(|name| format!("{name}.html"))
    }

    fn message(&self, _: &ChannelOfTeam, ts: &Ts) -> String {
        // What is on no page of messages is a reply.
        if self.part.messages.contains(ts) {
            format!("{}.html#{}", self.part.name, anchor(ts))
        } else {
            format!("{}#{}", self.part.threads(), anchor_in_thread(ts))
        }
    }

    fn thread(&self, _: &ChannelOfTeam, root_ts: &Ts) -> String {
        self.threads.get(root_ts).map_or_else(|| INDEX.to_owned(), |place| place.address.clone())
    }

    fn versions(&self, _: &ChannelOfTeam, _: &Ts) -> Option<String> {
        None
    }

    fn file(&self, _: &TeamId, file: &FileId) -> Option<String> {
        self.files.files.get(file).map(|name| format!("{}{FILES}/{name}", self.up))
    }

    fn picture(&self, key: &FileKey) -> Option<String> {
        self.files.pictures.contains(key).then(|| format!("{}{PICTURES}/{}", self.up, picture_name(key)))
    }

    fn permalink(&self, _: &ChannelId, _: &Ts) -> Option<String> {
        None
    }

    fn asset(&self, asset: &Asset) -> String {
        format!("{}{ASSETS}/{}", self.up, asset.file_name())
    }
}

/// What a picture's file is called: its key has the workspace, and a hash of where it came from.
pub(super) fn picture_name(key: &FileKey) -> String {
    key.as_str().trim_start_matches("slack/").replace("/images/", "-").replace('/', "-")
}

/// A path as an address has it: names of channels have letters of any script.
fn encoded(path: &str) -> String {
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
    use super::*;

    #[test]
    fn links_lead_to_files_of_the_site_and_nowhere_else() {
        let place =
            ChannelOfTeam { team: TeamId::parse("T1").unwrap(), channel: ChannelId::parse("C1").unwrap() };
        let (ts, reply) = (Ts::parse("1.000000").unwrap(), Ts::parse("2.000000").unwrap());
        let mut files = SiteFiles::default();
        files.channels.insert(place.clone(), "c/会".into());
        let mut part = SitePart { name: "2026-11".into(), ..SitePart::default() };
        part.messages.insert(ts.clone());
        let threads = HashMap::new();
        let links = SiteLinks { up: "../../", files: &files, part: &part, threads: &threads };
        assert_eq!(links.channel(&place), "../../c/%E4%BC%9A/index.html");
        assert_eq!(links.message(&place, &ts), format!("2026-11.html#{}", anchor(&ts)));
        assert!(links.message(&place, &reply).starts_with("2026-11-threads.html#"));
        assert_eq!(links.before(&place, &ts), None);
        assert_eq!(links.file(&place.team, &FileId::parse("F1").unwrap()), None);
        assert_eq!(links.site_page(SitePage::Search), None);
    }
}
