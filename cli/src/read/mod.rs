//! The read commands, which never write.
//!
//! They read the archive through the `reader` crate.
//!
//! * [`target`] parses the arguments for channels and messages, [`range`] those for time ranges; [`channel`]
//!   has the errors for channels that are not found.
//! * [`messages`], [`thread`], [`revisions`], [`users`], [`user_groups`], [`files`], [`gaps`], [`coverage`], [`channels`] and
//!   [`snapshots`] are the commands.
//! * [`threads`] prints replies under their roots; [`printer`] and [`render`] print messages, [`with_names`] adds names to
//!   their JSON.

mod channel;
mod channels;
mod coverage;
mod files;
mod gaps;
mod messages;
mod printer;
mod range;
mod render;
mod revisions;
mod snapshots;
mod target;
mod thread;
mod threads;
mod user_groups;
mod users;
mod with_names;

use std::borrow::Cow;
use std::io;
use std::num::NonZeroUsize;

use ports::archive::ArchiveError;
use process::config::IndexArgs;
use process::config::backend::{BackendArgs, BackendError};
use process::config::zone::ZoneArgs;
use rules::project;
use serde_json::Value;
use slack::ids::{TeamId, Ts};

pub(crate) use channels::channels;
pub(crate) use coverage::{CoverageArgs, coverage};
pub(crate) use files::{FilesArgs, files};
pub(crate) use gaps::gaps;
pub(crate) use messages::messages;
pub(crate) use range::{EmptyRange, TimeBound, range_between};
pub(crate) use reader::numbers::human_size;
pub(crate) use render::{MessageLayout, Render, shared_files};
pub(crate) use revisions::revisions;
pub(crate) use snapshots::{channel, with_plain_text};
pub(crate) use target::{MessageArgs, channel as channel_name};
pub(crate) use thread::thread;
pub(crate) use threads::REPLY_INDENT;
pub(crate) use user_groups::user_groups;
pub(crate) use users::{people_of, unknown as unknown_person, users};

/// The arguments of every read command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    /// One JSON object per line, with the stored attribute names
    #[arg(long)]
    pub(crate) json: bool,
    /// At most N; of messages and gaps, the newest
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<NonZeroUsize>,
    /// Workspace id, if the archive holds several
    #[arg(long, value_name = "TEAM", value_parser = team)]
    pub(crate) team: Option<TeamId>,
    #[command(flatten)]
    pub(crate) zone: ZoneArgs,
    /// Whether the addresses of files are those of the site that serves them.
    #[arg(skip)]
    pub(crate) is_for_site: bool,
}

/// Where the files of printed rows are.
pub(crate) enum FileAddresses {
    /// In the file store, below this URI.
    Stored(String),
    /// On the site that serves them.
    OfSite,
}

impl FileAddresses {
    /// The row with these addresses.
    pub(crate) fn of<'r>(&self, row: &'r Value) -> Cow<'r, Value> {
        match self {
            Self::Stored(files_uri) => project::address(row, files_uri),
            Self::OfSite => project::site_address(row),
        }
    }
}

impl ReadArgs {
    pub(crate) fn file_addresses(&self) -> Result<FileAddresses, BackendError> {
        if self.is_for_site {
            return Ok(FileAddresses::OfSite);
        }
        self.backend.files_uri().map(FileAddresses::Stored)
    }
}

/// The arguments of a command about one channel.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ChannelArgs {
    /// Channel name or id, such as '#general' or C0123ABCD
    #[arg(value_name = "CHANNEL", value_parser = target::channel)]
    pub(crate) channel: String,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// `annalist channel`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SnapshotArgs {
    #[command(flatten)]
    pub(crate) channel: ChannelArgs,
    /// Every state it was in, oldest first
    #[arg(long)]
    pub(crate) history: bool,
    /// With its name, members, kind and age as channelstats has them, and its members day by day
    #[arg(long, requires = "json", conflicts_with = "history")]
    pub(crate) figures: bool,
    /// Stop treating it as once public: its private messages are dropped from now on
    #[arg(long, conflicts_with_all = ["history", "json", "limit"])]
    pub(crate) forget_public: bool,
}

/// `annalist users`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct UsersArgs {
    /// Every profile this person had, by id or name, oldest first
    #[arg(long, value_name = "USER")]
    pub(crate) history: Option<String>,
    /// With the first message that is known of each, as channelstats has it
    #[arg(long, requires = "json", conflicts_with = "history")]
    pub(crate) figures: bool,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// `annalist messages`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MessagesArgs {
    #[command(flatten)]
    pub(crate) channel: ChannelArgs,
    /// Only messages from this time on: a date, a date and time, or a message's timestamp
    #[arg(long, value_name = "TIME", value_parser = TimeBound::parse)]
    pub(crate) since: Option<TimeBound>,
    /// Only messages before this time; a date is its midnight, so that --since 2026-11-01 --until 2026-11-08 is a week
    #[arg(long, value_name = "TIME", value_parser = TimeBound::parse)]
    pub(crate) until: Option<TimeBound>,
    /// Strictly by time; otherwise replies follow the message that they reply to
    #[arg(long)]
    pub(crate) flat: bool,
    /// With the figures of each message: words, mentions, reactions, replies
    #[arg(long, requires = "json")]
    pub(crate) figures: bool,
    /// With user_id, user_name, channel_name, time and permalink
    #[arg(long, requires = "json")]
    pub(crate) with_names: bool,
}

/// `annalist channels`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ChannelsArgs {
    /// Bring the search index up to date first, so that every message is counted
    #[arg(long)]
    pub(crate) count: bool,
    /// With the name, members, kind and age of each as channelstats has them
    #[arg(long, requires = "json")]
    pub(crate) figures: bool,
    #[command(flatten)]
    pub(crate) index: IndexArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

pub(crate) fn team(text: &str) -> Result<TeamId, &'static str> {
    TeamId::parse(text).map_err(|_| "a workspace id is such as T0123ABCD")
}

/// Why there is nothing to read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The archive has no channel with this id or name, or several.
    #[error("{0}")]
    Channel(String),
    /// The archive has no person with this id or name, or several.
    #[error("{0}")]
    Person(String),
    /// The archive has no rows of this workspace.
    #[error("no workspace {0} in this archive")]
    UnknownTeam(TeamId),
    /// No person has this name.
    #[error("no person is called {called} in this archive{advice}")]
    UnknownUser {
        /// The name from the command line.
        called: String,
        /// Advice for the user.
        advice: String,
    },
    /// The channel has no such message.
    #[error(
        "no message {ts} in channel {channel}: `annalist messages {channel}` shows each message's timestamp"
    )]
    UnknownMessage {
        channel: String,
        /// The message's timestamp.
        ts: Ts,
    },
    /// The end of a range is not after its beginning.
    #[error(transparent)]
    EmptyRange(#[from] EmptyRange),
    /// The location of the file store is unknown.
    #[error(transparent)]
    Files(#[from] BackendError),
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Writing the output failed.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl ReadError {
    /// Whether an argument must be corrected, as opposed to a failure.
    pub(crate) fn is_wrong_argument(&self) -> bool {
        match self {
            Self::Channel(_)
            | Self::Person(_)
            | Self::UnknownTeam(_)
            | Self::UnknownUser { .. }
            | Self::UnknownMessage { .. }
            | Self::EmptyRange(_) => true,
            Self::Files(_) | Self::Archive(_) | Self::Output(_) => false,
        }
    }
}
