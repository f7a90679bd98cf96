//! The addresses of pages.

use ports::files::FileKey;
use reader::joined::ChannelOfTeam;
use slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};

use crate::assets;

/// Creates the addresses of a site's pages. A page that the site does not have is `None`, and is not linked.
pub trait LinkScheme: Send + Sync {
    /// A page of the navigation.
    fn site_page(&self, page: SitePage) -> Option<String>;

    /// The newest messages of a channel.
    fn channel(&self, location: &ChannelOfTeam) -> String;

    /// The messages of a channel before this one.
    fn before(&self, location: &ChannelOfTeam, ts: &Ts) -> Option<String>;

    /// The messages of a channel after this one.
    fn after(&self, location: &ChannelOfTeam, ts: &Ts) -> Option<String>;

    fn message(&self, location: &ChannelOfTeam, ts: &Ts) -> String;

    /// The thread with this root. On a served site, the timestamp may also be a reply's, and the page then
    /// has that reply.
    fn thread(&self, location: &ChannelOfTeam, root_ts: &Ts) -> String;

    /// The versions of a message. Only a served site has them.
    fn versions(&self, _location: &ChannelOfTeam, _ts: &Ts) -> Option<String> {
        None
    }

    /// The bytes of a file; of a canvas, those of the newest version.
    fn file(&self, team: &TeamId, file: &FileId) -> Option<String>;

    /// The page of a canvas, with its text and its versions. Only a served site has one.
    fn canvas(&self, _team: &TeamId, _file: &FileId) -> Option<String> {
        None
    }

    /// A picture of a person, or of an emoji.
    fn picture(&self, key: &FileKey) -> Option<String>;

    /// A message in a channel whose workspace is unknown. Only a served site finds it.
    fn permalink(&self, _channel: &ChannelId, _ts: &Ts) -> Option<String> {
        None
    }

    /// The page of a person. Only a served site has one.
    fn person(&self, _team: &TeamId, _user: &str) -> Option<String> {
        None
    }

    /// A page about a channel. Only a served site has one.
    fn about_channel(&self, _location: &ChannelOfTeam, _page: AboutChannel) -> Option<String> {
        None
    }

    /// The address of a message that a reader copies, from the root of the site. Only a served site has one.
    fn copied_link(&self, _channel: &ChannelId, _ts: &Ts) -> Option<String> {
        None
    }

    /// The value with which the search form asks for messages of this channel only.
    fn search_scope(&self, location: &ChannelOfTeam) -> Option<String> {
        Some(location.channel.to_string())
    }

    /// Whether the site lists the channels that its form asks for. Only a served site does: elsewhere the form needs a
    /// script.
    fn filters_channels(&self) -> bool {
        false
    }

    /// An asset of the pages.
    fn asset(&self, asset: &assets::Asset) -> String;
}

/// A page of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SitePage {
    Channels,
    Search,
    People,
    Files,
    /// The figures of a period.
    Figures,
    /// The coverage of the channels.
    Coverage,
}

impl SitePage {
    /// All pages, in the order of the navigation.
    pub const ALL: [Self; 6] =
        [Self::Channels, Self::Search, Self::People, Self::Files, Self::Figures, Self::Coverage];

    /// The name in the navigation.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Channels => "Channels",
            Self::Search => "Search",
            Self::People => "People",
            Self::Files => "Files",
            Self::Figures => "Figures",
            Self::Coverage => "Coverage",
        }
    }
}

/// A page about a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AboutChannel {
    /// Its topic, members and other facts.
    Info,
    Threads,
    /// The days with messages.
    Calendar,
}

/// The addresses of the pages that [`crate::router`] serves.
#[derive(Debug, Clone, Copy)]
pub struct ServedLinks;

impl LinkScheme for ServedLinks {
    fn site_page(&self, page: SitePage) -> Option<String> {
        Some(
            match page {
                SitePage::Channels => "/",
                SitePage::Search => "/search",
                SitePage::People => "/people",
                SitePage::Files => "/files",
                SitePage::Figures => "/stats",
                SitePage::Coverage => "/coverage",
            }
            .to_owned(),
        )
    }

    fn channel(&self, ChannelOfTeam { team, channel }: &ChannelOfTeam) -> String {
        format!("/c/{team}/{channel}")
    }

    fn before(&self, location: &ChannelOfTeam, ts: &Ts) -> Option<String> {
        Some(format!("{}?before={ts}", self.channel(location)))
    }

    fn after(&self, location: &ChannelOfTeam, ts: &Ts) -> Option<String> {
        Some(format!("{}?after={ts}", self.channel(location)))
    }

    fn message(&self, location: &ChannelOfTeam, ts: &Ts) -> String {
        format!("{}?around={ts}#{}", self.channel(location), anchor(ts))
    }

    fn thread(&self, ChannelOfTeam { team, channel }: &ChannelOfTeam, root_ts: &Ts) -> String {
        format!("/t/{team}/{channel}/{root_ts}")
    }

    fn versions(&self, ChannelOfTeam { team, channel }: &ChannelOfTeam, ts: &Ts) -> Option<String> {
        Some(format!("/r/{team}/{channel}/{ts}"))
    }

    fn file(&self, team: &TeamId, file: &FileId) -> Option<String> {
        Some(format!("/files/{team}/{file}"))
    }

    fn canvas(&self, team: &TeamId, file: &FileId) -> Option<String> {
        Some(format!("/canvas/{team}/{file}"))
    }

    fn picture(&self, key: &FileKey) -> Option<String> {
        let (team, hash) = key.as_str().strip_prefix("slack/")?.split_once("/images/")?;
        Some(format!("/pictures/{team}/{hash}"))
    }

    fn permalink(&self, channel: &ChannelId, ts: &Ts) -> Option<String> {
        let digits: String = ts.as_str().chars().filter(char::is_ascii_digit).collect();
        Some(format!("/archives/{channel}/p{digits}"))
    }

    fn person(&self, team: &TeamId, user: &str) -> Option<String> {
        Some(format!("/u/{team}/{}", UserId::parse(user).ok()?))
    }

    fn about_channel(&self, location: &ChannelOfTeam, page: AboutChannel) -> Option<String> {
        let name = match page {
            AboutChannel::Info => "info",
            AboutChannel::Threads => "threads",
            AboutChannel::Calendar => "calendar",
        };
        Some(format!("{}/{name}", self.channel(location)))
    }

    fn copied_link(&self, channel: &ChannelId, ts: &Ts) -> Option<String> {
        self.permalink(channel, ts)
    }

    fn filters_channels(&self) -> bool {
        true
    }

    fn asset(&self, asset: &assets::Asset) -> String {
        format!("/static/{}", asset.file_name())
    }
}

/// The HTML id of a message in its channel.
pub fn anchor(ts: &Ts) -> String {
    format!("m{ts}")
}

/// The HTML id of a message in its thread, which is shown next to the channel.
pub fn anchor_in_thread(ts: &Ts) -> String {
    format!("t{ts}")
}
