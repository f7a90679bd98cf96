//! `annalist report`: the figures of a period, beside those of the period before.
//!
//! * [`text`] is for a terminal of 80 columns, with its [`bars`]; pages are the viewer's; JSON is the reader's.

mod bars;
mod text;

use std::io::Write;

use anyhow::bail;
use jiff::Timestamp;
use ports::archive::Archive;
use ports::changes::Changes;
use ports::clock::Clock;
use process::config::backend::BackendArgs;
use reader::figures::json;
use reader::figures::making::{ReportScope, ReportSources};
use reader::figures::period::Period;
use reader::figures::report::FiguresReport;
use reader::figures::rollups::Rollups;
use reader::figures::stored::{self, ListedReport};
use reader::find;
use rules::figures::kept::ReportHead;
use serde_json::json;
use slack::ids::{TeamId, Ts, UserId};
use workers::statistician::store_report;

use crate::UsageError;
use crate::operate::date::date;
use crate::plain;
use crate::read::{ReadError, channel_name, team, unknown_person};

/// What scripts read of a report that was made now, and of one that was stored. A quote within text has a backslash before it.
const NOT_CACHED: &str = "\"cached\":false";
const CACHED: &str = "\"cached\":true";

/// How much of a name from the command line an error shows.
const SHOWN: usize = 80;

/// `annalist report`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ReportArgs {
    /// A week as ISO 8601 counts them, such as 2026-W46; otherwise the last one that is over
    #[arg(long, value_name = "WEEK", value_parser = Period::week, conflicts_with_all = ["from", "to"])]
    week: Option<Period>,
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
    #[arg(long, conflicts_with_all = ["week", "from", "channel", "user", "html"])]
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

/// Makes a report, or finds it stored, and prints it.
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
        _ => args.week.unwrap_or_else(|| Period::last_week(now)),
    };
    let (team, asked) = match (&args.channel, &args.user) {
        (Some(called), _) => {
            let channel =
                find::channel(archive, called, args.team.as_ref()).await.map_err(ReadError::from)?;
            (channel.main().team.clone(), ReportScope::Channel(channel))
        }
        (None, Some(called)) => {
            let (team, user) = person(archive, args, called).await?;
            (team, ReportScope::User(user))
        }
        (None, None) => (workspace(archive, args).await?, ReportScope::Team),
    };
    let rollups = Rollups::read(archive, changes, &team).await?;
    let asked = ReportSources::begin(archive, &team, asked, period, rollups.as_ref(), now).await?;
    if let Some(stored) = asked.stored().await? {
        if args.json {
            return Ok(out.write_all(stored.text.replacen(NOT_CACHED, CACHED, 1).as_bytes())?);
        }
        if let Some(report) = stored.read() {
            return print(&report, args, out);
        }
    }
    let keeping = asked.keeping();
    let made = asked.make().await?;
    let mut text = Vec::new();
    plain::json_line(&mut text, &json::of(&made.report))?;
    let text = String::from_utf8(text)?;
    if let Some(keeping) = keeping {
        let kept = keeping.of(&made, text.clone(), now);
        // It is shown even if it cannot be stored: by someone who may only read, or on a full disk.
        if let Err(error) = store_report(archive, &kept).await {
            tracing::warn!(%error, "the report cannot be stored; it is made again next time");
        }
    }
    if args.json {
        return Ok(out.write_all(text.as_bytes())?);
    }
    print(&made.report, args, out)
}

/// Prints a report for people.
fn print(report: &FiguresReport, args: &ReportArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if args.html {
        writeln!(out, "{}", viewer::pages::figures::standalone(report).into_string())?;
    } else {
        text::print(report, out)?;
    }
    Ok(())
}

/// Prints which reports are stored, by workspace and id, and which of them would be shown again.
async fn list(
    archive: &dyn Archive,
    changes: &dyn Changes,
    now: Timestamp,
    args: &ReportArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for team in find::teams_asked_for(archive, args.team.as_ref()).await.map_err(ReadError::from)? {
        let rollups = Rollups::read(archive, changes, &team).await?;
        for listed in stored::list(archive, &team).await? {
            let is_live = listed.is_live(archive, rollups.as_ref(), now).await?;
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

/// The one workspace that is meant.
async fn workspace(archive: &dyn Archive, args: &ReportArgs) -> anyhow::Result<TeamId> {
    let mut teams = find::teams_asked_for(archive, args.team.as_ref()).await.map_err(ReadError::from)?;
    if teams.len() > 1 {
        let teams: Vec<&str> = teams.iter().map(TeamId::as_str).collect();
        bail!("the archive holds several workspaces, {}: choose one with --team", teams.join(", "));
    }
    match teams.pop() {
        Some(team) => Ok(team),
        None => bail!("nothing is stored yet: `annalist doctor` says what is missing"),
    }
}

/// The one person who is meant.
async fn person(archive: &dyn Archive, args: &ReportArgs, called: &str) -> anyhow::Result<(TeamId, UserId)> {
    let teams = find::teams_asked_for(archive, args.team.as_ref()).await.map_err(ReadError::from)?;
    let mut people = find::people(archive, called, teams.clone()).await?;
    if people.len() > 1 {
        let people: Vec<String> =
            people.iter().take(5).map(|(team, user)| format!("{user} of {team}")).collect();
        let called = plain::excerpt(called, SHOWN);
        bail!("several people are called {called}, {}: name one by id, with --team", people.join(", "));
    }
    match people.pop() {
        Some(person) => Ok(person),
        None => Err(unknown_person(archive, called, &teams).await.into()),
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
