//! The workspace, the person or the channel that a command of retention, holds or opting out is about.

use anyhow::anyhow;
use ports::archive::Archive;
use process::config::backend::BackendArgs;
use reader::find;
use reader::joined::ChannelOfTeam;
use slack::ids::{TeamId, UserId};

use crate::read::{self, ReadError};

/// What each command about rules, holds and opting out takes.
#[derive(Debug, clap::Args)]
pub(super) struct ScopeArgs {
    /// Workspace id, if the archive holds several
    #[arg(long, value_name = "TEAM", value_parser = read::team)]
    pub(super) team: Option<TeamId>,
    /// One JSON object per line
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) backend: BackendArgs,
}

/// Returns the workspaces that a command is about.
pub(crate) async fn teams(archive: &dyn Archive, team: Option<&TeamId>) -> anyhow::Result<Vec<TeamId>> {
    Ok(find::requested_teams(archive, team).await.map_err(ReadError::from)?)
}

/// Returns a person, with the workspaces that the command is about.
pub(crate) async fn person(
    archive: &dyn Archive,
    called: &str,
    team: Option<&TeamId>,
) -> anyhow::Result<(Vec<TeamId>, UserId)> {
    let teams = teams(archive, team).await?;
    let user = find::find_person(archive, called, &teams).await?;
    Ok((teams, user))
}

/// Returns a channel under every id and in every workspace that it has.
pub(crate) async fn channel(
    archive: &dyn Archive,
    called: &str,
    team: Option<&TeamId>,
) -> anyhow::Result<Vec<ChannelOfTeam>> {
    let found = find::find_channel(archive, called, team).await;
    // A failure, as an unknown person or hold is, and no mistake in how the command is used.
    let channel = found.map_err(|error| anyhow!(ReadError::from(error).to_string()))?;
    Ok(channel.locations().to_vec())
}
