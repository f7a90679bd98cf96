//! The commands that decide what the archive keeps, and that check it.

use std::io::Write;

use clap::Subcommand;
use ports::clock::SystemClock;
use process::config::backend::{Backend, BackendArgs};

use super::backup::embedded_folder;
use super::copy::{self, CopyCommandArgs};
use super::hold::{self, HoldCommand};
use super::optout::{self, OptOutCommand};
use super::retain::{self, RetainCommand};
use super::verify::{self, VerifyArgs};

/// `annalist copy`, `retain`, `hold`, `optout` and `verify`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeepCommand {
    /// Copy the database to another disk, and write only what changed
    #[command(
        after_help = "It works while `annalist up` runs, which makes a copy every night with --copy-to:\n  \
        annalist copy --to /mnt/backup/annalist --data /var/lib/annalist\n  \
        annalist copy --to /mnt/backup/annalist --list"
    )]
    Copy(CopyCommandArgs),
    /// Set how long messages are kept, and remove what has expired
    #[command(subcommand)]
    Retain(RetainCommand),
    /// Keep messages from retention and from erase, as for a legal case
    #[command(subcommand)]
    Hold(HoldCommand),
    /// Store nothing more of a person or of a channel
    #[command(subcommand)]
    Optout(OptOutCommand),
    /// Check that the archive is whole
    #[command(after_help = "It changes nothing, and works while `annalist up` runs:\n  \
        annalist verify --data /var/lib/annalist")]
    Verify(VerifyArgs),
}

impl KeepCommand {
    /// Refuses what needs no archive to be refused.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        match self {
            Self::Copy(args) => args.check(),
            Self::Verify(args) => Ok(embedded_folder(&args.backend, "verify").map(drop)?),
            Self::Retain(_) | Self::Hold(_) | Self::Optout(_) => Ok(()),
        }
    }

    pub(crate) fn backend(&self) -> &BackendArgs {
        match self {
            Self::Copy(args) => &args.backend,
            Self::Retain(command) => command.backend(),
            Self::Hold(command) => command.backend(),
            Self::Optout(command) => command.backend(),
            Self::Verify(args) => &args.backend,
        }
    }
}

pub(crate) async fn run(backend: &Backend, command: &KeepCommand, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        KeepCommand::Copy(args) => copy::run(backend, args, out).await,
        KeepCommand::Retain(command) => retain::run(backend, &SystemClock::shared(), command, out).await,
        KeepCommand::Hold(command) => hold::run(backend, &SystemClock, command, out).await,
        KeepCommand::Optout(command) => optout::run(backend, &SystemClock, command, out).await,
        KeepCommand::Verify(args) => verify::run(backend, args, out).await,
    }
}
