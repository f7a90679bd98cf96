//! `annalist report`: prints the figures of a period, compared with the previous period.
//!
//! * [`text`] prints for a terminal of 80 columns, with [`bars`]; the `viewer` crate has the HTML page, the
//!   `reader` crate the JSON.

mod bars;
mod text;

use std::io::Write;

use anyhow::bail;
use jiff::Timestamp;
use ports::archive::Archive;
use ports::changes::Changes;
use ports::clock::Clock;
use process::config::backend::BackendArgs;
use reader::figures::excerpts;
use reader::figures::json;
use reader::figures::making::{ReportScope, ReportSources};
use reader::figures::period::Period;
use reader::figures::report::FiguresReport;
use reader::figures::rollups::Rollups;
use reader::figures::stored::{self, ListedReport};
use reader::find;
use rules::figures::stored_report::ReportHead;
use serde_json::json;
use slack::ids::{TeamId, Ts, UserId};
use workers::statistician::store_report;

use crate::UsageError;
use crate::operate::date::date;
use crate::plain;
use crate::read::{ReadError, channel_name, team, unknown_person};

/// The JSON field that shows scripts whether a report was stored. It cannot occur within a text, where quotes
/// are escaped.
const NOT_CACHED: &str = "\"cached\":false";
const CACHED: &str = "\"cached\":true";

/// Maximum length of a name from the command line in an error.
const SHOWN: usize = 80;

/// `annalist report`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ReportArgs {
    /// A week as ISO 8601 counts them, such as 2026-W46; otherwise the last one that is over
    #[arg(long, value_name = "WEEK", value_parser = Period::week, conflicts_with_all = ["from", "to"])]
    week: Option<Period>,
    /// A month, such as 2026-08, compared with the month before
    #[arg(long, value_name = "MONTH", value_parser = Period::month, conflicts_with_all = ["week", "from", "to"])]
    month: Option<Period>,
    /// From this date on: midnight in UTC, or a time such as 2026-11-20T09:30:00Z
    #[arg(long, value_name = "DATE", value_parser = date, requires = "to")]
    from: Option<Ts>,
    /// Before this date
    #[arg(long, value_name = "DATE", value_parser = date, requires = "from")]
    to: Option<Ts>,
    /// Only this channel: its name or id
    #[arg(long, value_name = "CHANNEL", value_parser = channel_name, conflicts_with = "user")]
    channel: Option<String>,
    /// Only this person: their name or id
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Which reports are stored
    #[arg(long, conflicts_with_all = ["week", "month", "from", "channel", "user", "html"])]
    list: bool,
    /// One JSON object
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// A page for a browser that needs nothing else
    #[arg(long)]
    html: bool,
    /// Workspace id, if the archive holds several
    #[arg(long, value_name = "TEAM", value_parser = team)]
    team: Option<TeamId>,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

/// Prints a report. Uses the stored one if it is still valid, otherwise creates and stores it.
pub(crate) async fn run(
    archive: &dyn Archive,
    changes: &dyn Changes,
    clock: &dyn Clock,
    args: &ReportArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let now = Timestamp::from_millisecond(clock.now().0)?;
    if args.list {
        return list(archive, changes, now, args, out).await;
    }
    let period = match (&args.from, &args.to) {
        (Some(from), Some(to)) => Period::between(from, to).map_err(UsageError::new)?,
        _ => args.week.or(args.month).unwrap_or_else(|| Period::last_week(now)),
    };
    let (team, scope) = match (&args.channel, &args.user) {
        (Some(name), _) => {
            let channel =
                find::find_channel(archive, name, args.team.as_ref()).await.map_err(ReadError::from)?;
            (channel.current_location().team.clone(), ReportScope::Channel(channel))
        }
        (None, Some(name)) => {
            let (team, user) = person(archive, args, name).await?;
            (team, ReportScope::User(user))
        }
        (None, None) => (workspace(archive, args).await?, ReportScope::Team),
    };
    let rollups = Rollups::read(archive, changes, &team).await?;
    let sources = ReportSources::read(archive, &team, scope, period, rollups.as_ref(), now).await?;
    if let Some(stored) = sources.stored().await? {
        if args.json {
            return Ok(out.write_all(stored.replacen(NOT_CACHED, CACHED, 1).as_bytes())?);
        }
        if let Some(report) = stored::read(&stored) {
            return print(archive, report, args, out).await;
        }
    }
    let stamp = sources.stamp();
    let made = sources.make().await?;
    let mut text = Vec::new();
    plain::json_line(&mut text, &json::report_json(&made.report))?;
    let text = String::from_utf8(text)?;
    if let Some(stamp) = stamp {
        let kept = made.to_kept_report(stamp, text.clone(), now);
        // The report is printed even if it cannot be stored, for example with read-only access or on a full
        // disk.
        if let Err(error) = store_report(archive, &kept).await {
            tracing::warn!(%error, "the report cannot be stored and will be recreated next time");
        }
    }
    if args.json {
        return Ok(out.write_all(text.as_bytes())?);
    }
    print(archive, made.report, args, out).await
}

/// Prints a report as text or as an HTML page.
async fn print(
    archive: &dyn Archive,
    mut report: FiguresReport,
    args: &ReportArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    excerpts::add(archive, &mut report).await?;
    if args.html {
        writeln!(out, "{}", viewer::pages::figures::standalone_report(&report).into_string())?;
    } else {
        text::print(&report, out)?;
    }
    Ok(())
}

/// Prints the stored reports by workspace and id, and whether each is still valid.
async fn list(
    archive: &dyn Archive,
    changes: &dyn Changes,
    now: Timestamp,
    args: &ReportArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for team in find::requested_teams(archive, args.team.as_ref()).await.map_err(ReadError::from)? {
        let rollups = Rollups::read(archive, changes, &team).await?;
        for listed in stored::list(archive, &team).await? {
            let is_live = listed.is_current(archive, rollups.as_ref(), now).await?;
            let ListedReport { team, report_id, head: ReportHead { basis, made_at, .. } } = listed;
            if args.json {
                let line = json!({ "team_id": team, "report_id": report_id, "made_at": made_at, "basis": basis,
                    "live": is_live });
                plain::json_line(out, &line)?;
            } else {
                let changed = if is_live { "" } else { "  (something has changed since)" };
                writeln!(out, "{team}  {report_id}  made {made_at}{changed}")?;
            }
        }
    }
    Ok(())
}

/// Returns the workspace of the report. Returns an error if there are several.
async fn workspace(archive: &dyn Archive, args: &ReportArgs) -> anyhow::Result<TeamId> {
    let mut teams = find::requested_teams(archive, args.team.as_ref()).await.map_err(ReadError::from)?;
    if teams.len() > 1 {
        let teams: Vec<&str> = teams.iter().map(TeamId::as_str).collect();
        bail!("the archive holds several workspaces, {}: choose one with --team", teams.join(", "));
    }
    match teams.pop() {
        Some(team) => Ok(team),
        None => bail!("nothing is stored yet: `annalist doctor` says what is missing"),
    }
}

/// Returns the person of the report. Returns an error if there are several.
async fn person(archive: &dyn Archive, args: &ReportArgs, name: &str) -> anyhow::Result<(TeamId, UserId)> {
    let teams = find::requested_teams(archive, args.team.as_ref()).await.map_err(ReadError::from)?;
    let mut people = find::find_people(archive, name, teams.clone()).await?;
    if people.len() > 1 {
        let people: Vec<String> =
            people.iter().take(5).map(|(team, user)| format!("{user} of {team}")).collect();
        let name = plain::excerpt(name, SHOWN);
        bail!("several people are called {name}, {}: name one by id, with --team", people.join(", "));
    }
    match people.pop() {
        Some(person) => Ok(person),
        None => Err(unknown_person(archive, name, &teams).await.into()),
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
