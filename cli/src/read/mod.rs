//! The read half: it only gets and queries.
//!
//! * [`channel`] finds which workspace a channel belongs to.
//! * [`messages`], [`thread`], [`revisions`], [`users`] are the commands.
//! * [`rows`] pages through the archive, [`printer`] prints what it finds; [`render`], [`mrkdwn`] and [`names`] turn rows into text for people.

mod channel;
mod messages;
mod mrkdwn;
mod names;
mod printer;
mod render;
mod revisions;
mod rows;
mod thread;
mod users;

use std::io;
use std::num::NonZeroUsize;

use shared::archive::ArchiveError;
use shared::config::DataArgs;
use shared::slack::ids::{TeamId, Ts};

pub(crate) use messages::messages;
pub(crate) use revisions::revisions;
pub(crate) use thread::thread;
pub(crate) use users::users;

/// What every read command takes.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    /// One JSON object per line, with the stored attribute names
    #[arg(long)]
    pub(crate) json: bool,
    /// Only the newest N, still oldest first
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<NonZeroUsize>,
    /// Workspace id, where the archive holds several
    #[arg(long, value_name = "TEAM", value_parser = team)]
    pub(crate) team: Option<TeamId>,
}

/// What names a channel.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ChannelArgs {
    /// Channel id, such as C0123ABCD
    #[arg(value_name = "CHANNEL")]
    pub(crate) channel: String,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// What names a message.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MessageArgs {
    /// Channel id, such as C0123ABCD
    #[arg(value_name = "CHANNEL")]
    pub(crate) channel: String,
    /// The message's timestamp, such as 1620000000.000200
    #[arg(value_name = "TS", value_parser = ts)]
    pub(crate) ts: Ts,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

fn ts(text: &str) -> Result<Ts, &'static str> {
    Ts::parse(text).map_err(|_| "a timestamp is such as 1620000000.000200")
}

fn team(text: &str) -> Result<TeamId, &'static str> {
    TeamId::parse(text).map_err(|_| "a workspace id is such as T0123ABCD")
}

/// Why there is nothing to read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// Not an id at all.
    #[error(
        "no channel {0} in this archive: name it by its id, such as C0123ABCD, which stands at the end of the link that \
         Slack's \"Copy link\" gives"
    )]
    NotAnId(String),
    /// No message of this channel is stored.
    #[error(
        "no channel {0} in this archive: the app may not be a member of it, or this may be the wrong --data folder"
    )]
    UnknownChannel(String),
    /// Several workspaces have it.
    #[error("channel {channel} is in several workspaces, {teams}: choose one with --team")]
    AmbiguousChannel {
        /// Which channel.
        channel: String,
        /// Which workspaces.
        teams: String,
    },
    /// Nothing of this workspace is stored.
    #[error("no workspace {0} in this archive")]
    UnknownTeam(TeamId),
    /// No such message.
    #[error(
        "no message {ts} in channel {channel}: `annalist messages {channel}` shows each message's timestamp"
    )]
    UnknownMessage {
        /// In which channel.
        channel: String,
        /// Which message.
        ts: Ts,
    },
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Nobody can be shown anything.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}
