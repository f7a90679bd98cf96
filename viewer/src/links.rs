//! Where links lead.

use ports::files::FileKey;
use reader::joined::ChannelOfTeam;
use slack::ids::{ChannelId, FileId, TeamId, Ts};

use crate::assets;

/// Makes the addresses of a site's pages. One that the site does not have is `None`, and is not linked.
pub trait LinkScheme: Send + Sync {
    /// A page of the navigation.
    fn site_page(&self, page: SitePage) -> Option<String>;

    /// A channel, at its newest messages.
    fn channel(&self, place: &ChannelOfTeam) -> String;

    /// The messages of a channel before this one.
    fn before(&self, place: &ChannelOfTeam, ts: &Ts) -> Option<String>;

    /// The messages of a channel after this one.
    fn after(&self, place: &ChannelOfTeam, ts: &Ts) -> Option<String>;

    /// A message among those of its channel.
    fn message(&self, place: &ChannelOfTeam, ts: &Ts) -> String;

    /// The thread that has this root. What is served may also be named by a reply, and is then the part that has it.
    fn thread(&self, place: &ChannelOfTeam, root_ts: &Ts) -> String;

    /// What a message said before.
    fn versions(&self, place: &ChannelOfTeam, ts: &Ts) -> Option<String>;

    /// The bytes of a file.
    fn file(&self, team: &TeamId, file: &FileId) -> Option<String>;

    /// A picture of a person, or of an emoji.
    fn picture(&self, key: &FileKey) -> Option<String>;

    /// A message of which only the channel's id is known.
    fn permalink(&self, channel: &ChannelId, ts: &Ts) -> Option<String>;

    /// A file that belongs to the pages themselves.
    fn asset(&self, asset: &assets::Asset) -> String;
}

/// A page of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SitePage {
    /// The channels.
    Channels,
    /// What is looked for.
    Search,
    /// The files.
    Files,
    /// The figures of a period.
    Figures,
    /// What is held.
    Coverage,
}

impl SitePage {
    /// All of them, in the order of the navigation.
    pub const ALL: [Self; 5] = [Self::Channels, Self::Search, Self::Files, Self::Figures, Self::Coverage];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Channels => "Channels",
            Self::Search => "Search",
            Self::Files => "Files",
            Self::Figures => "Figures",
            Self::Coverage => "Coverage",
        }
    }
}

/// The addresses of what [`crate::router`] serves.
#[derive(Debug, Clone, Copy)]
pub struct ServedLinks;

impl LinkScheme for ServedLinks {
    fn site_page(&self, page: SitePage) -> Option<String> {
        Some(
            match page {
                SitePage::Channels => "/",
                SitePage::Search => "/search",
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

    fn before(&self, place: &ChannelOfTeam, ts: &Ts) -> Option<String> {
        Some(format!("{}?before={ts}", self.channel(place)))
    }

    fn after(&self, place: &ChannelOfTeam, ts: &Ts) -> Option<String> {
        Some(format!("{}?after={ts}", self.channel(place)))
    }

    fn message(&self, place: &ChannelOfTeam, ts: &Ts) -> String {
        format!("{}?around={ts}#{}", self.channel(place), anchor(ts))
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

    fn picture(&self, key: &FileKey) -> Option<String> {
        let (team, hash) = key.as_str().strip_prefix("slack/")?.split_once("/images/")?;
        Some(format!("/pictures/{team}/{hash}"))
    }

    fn permalink(&self, channel: &ChannelId, ts: &Ts) -> Option<String> {
        let digits: String = ts.as_str().chars().filter(char::is_ascii_digit).collect();
        Some(format!("/archives/{channel}/p{digits}"))
    }

    fn asset(&self, asset: &assets::Asset) -> String {
        format!("/static/{}", asset.file_name())
    }
}

/// What a message is called within the page of its channel.
#[must_use]
pub fn anchor(ts: &Ts) -> String {
    format!("m{ts}")
}

/// What a message is called within its thread, which is beside the channel.
#[must_use]
pub fn anchor_in_thread(ts: &Ts) -> String {
    format!("t{ts}")
}
