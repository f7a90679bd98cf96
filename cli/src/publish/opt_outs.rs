//! `annalist publish opt-out`, `opt-in` and `opt-outs`: who is not named on a public site.

use std::io::Write;

use ports::archive::{Archive, ArchiveExt, Item, Query, key, query_all};
use ports::clock::Clock;
use process::config::backend::BackendArgs;
use reader::find;
use rules::publishing::opt_out::{self, PublicStance};
use serde_json::json;
use slack::ids::{TeamId, UserId};
use workers::archive_version;

use crate::plain;
use crate::read::team;

/// The wishes of people about public sites.
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum SiteOptOutCommand {
    /// Leave a person out of public sites, from the next run on
    #[command(name = "opt-out")]
    Leave(SiteOptOutArgs),
    /// Show a person on public sites again
    #[command(name = "opt-in")]
    Return(OptInArgs),
    /// Show who is left out
    #[command(name = "opt-outs")]
    List(OptOutsArgs),
}

/// `annalist publish opt-out`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SiteOptOutArgs {
    /// The person, by name or id
    #[arg(value_name = "USER")]
    user: String,
    /// Leave only the name out, and keep the messages
    #[arg(long)]
    keep_text: bool,
    /// Workspace id, if the archive holds several
    #[arg(long, value_name = "TEAM", value_parser = team)]
    team: Option<TeamId>,
    #[command(flatten)]
    backend: BackendArgs,
}

/// `annalist publish opt-in`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct OptInArgs {
    /// The person, by name or id
    #[arg(value_name = "USER")]
    user: String,
    /// Workspace id, if the archive holds several
    #[arg(long, value_name = "TEAM", value_parser = team)]
    team: Option<TeamId>,
    #[command(flatten)]
    backend: BackendArgs,
}

/// `annalist publish opt-outs`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct OptOutsArgs {
    /// One JSON object per person
    #[arg(long)]
    json: bool,
    /// Workspace id, if the archive holds several
    #[arg(long, value_name = "TEAM", value_parser = team)]
    team: Option<TeamId>,
    #[command(flatten)]
    backend: BackendArgs,
}

impl SiteOptOutCommand {
    /// The location of the archive.
    pub(crate) fn backend(&self) -> &BackendArgs {
        match self {
            Self::Leave(args) => &args.backend,
            Self::Return(args) => &args.backend,
            Self::List(args) => &args.backend,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(
    archive: &dyn Archive,
    clock: &dyn Clock,
    command: &SiteOptOutCommand,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match command {
        SiteOptOutCommand::Leave(SiteOptOutArgs { user, keep_text, team, .. }) => {
            let stance = if *keep_text { PublicStance::KeepText } else { PublicStance::Out };
            let user = store(archive, clock, user, team.as_ref(), stance).await?;
            let left_out = if *keep_text { "The name of" } else { "Everything of" };
            writeln!(out, "{left_out} {user} leaves each public site with its next run.")?;
        }
        SiteOptOutCommand::Return(OptInArgs { user, team, .. }) => {
            let user = store(archive, clock, user, team.as_ref(), PublicStance::In).await?;
            writeln!(out, "{user} is on each public site again from its next run on.")?;
        }
        SiteOptOutCommand::List(args) => list(archive, args, out).await?,
    }
    Ok(())
}

/// Stores a wish in each workspace that knows the person.
async fn store(
    archive: &dyn Archive,
    clock: &dyn Clock,
    called: &str,
    team: Option<&TeamId>,
    stance: PublicStance,
) -> anyhow::Result<UserId> {
    archive_version::refuse_newer(archive).await?;
    let teams = find::requested_teams(archive, team).await.map_err(crate::read::ReadError::from)?;
    let user = find::find_person(archive, called, &teams).await?;
    for team in &teams {
        archive.write(&opt_out::update(team, &user, stance, clock.now())).await?;
    }
    Ok(user)
}

async fn list(archive: &dyn Archive, args: &OptOutsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let teams =
        find::requested_teams(archive, args.team.as_ref()).await.map_err(crate::read::ReadError::from)?;
    for team in &teams {
        for row in query_all(archive, Query::partition(key::public_stances(team))).await? {
            let Some(keeps_text) = PublicStance::from_row(&row).hides() else { continue };
            let user = row.key.timestamp.clone();
            let since = since(&row);
            if args.json {
                let line =
                    json!({ "team_id": team, "user_id": user, "since": since, "keeps_text": keeps_text });
                writeln!(out, "{line}")?;
            } else {
                let what = if keeps_text { "the name only" } else { "name and messages" };
                writeln!(out, "{}  {}  {what}", plain::line(&user), since.unwrap_or_default())?;
            }
        }
    }
    Ok(())
}

/// The time of a wish, as RFC 3339.
fn since(row: &Item) -> Option<String> {
    let at = opt_out::since(row)?;
    jiff::Timestamp::from_millisecond(at.0).ok().map(|at| at.to_string())
}
