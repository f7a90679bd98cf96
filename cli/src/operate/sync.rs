//! `annalist sync`: syncs the directory from Slack now, without waiting for the hourly sync.

use std::io::Write;
use std::sync::Arc;

use anyhow::bail;
use fleet::args::DirectoryArgs;
use futures_util::{StreamExt, stream};
use ports::clock::SystemClock;
use process::config::backend::{Backend, BackendArgs};
use process::config::slack::SlackArgs;
use slack::ids::TeamId;
use slack_api::WebApi;
use workers::directory::joins::{self, RetryLimit};
use workers::directory::{AT_ONCE, DirectorySync, Joiner, SyncReport};

use crate::{plain, read};

/// Consecutive failures before the command gives up. Few, because the user is waiting.
const RETRY_LIMIT: RetryLimit = RetryLimit::Failures(3);

/// The error if no token is set.
pub(crate) const NO_TOKEN: &str = "there is no token: set SLACK_BOT_TOKEN to the Bot User OAuth Token from your Slack app's \
     OAuth & Permissions page, or SLACK_BOT_TOKENS_FILE to a file with one for each workspace";

/// `annalist sync`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SyncArgs {
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    #[command(flatten)]
    pub(crate) slack: SlackArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Only this workspace, by its id
    #[arg(long, value_name = "TEAM", value_parser = read::team)]
    pub(crate) team: Option<TeamId>,
}

/// Syncs every workspace that has a token, several at once, and prints each result as it comes.
pub(crate) async fn run(
    backend: &Backend,
    api: Arc<WebApi>,
    args: &SyncArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if !api.has_tokens() {
        bail!("{NO_TOKEN}");
    }
    let sync = DirectorySync::new(Arc::clone(&api), backend.archive(), backend.queue())
        .with_listed_members(args.directory.members);
    let mut teams = api.teams().await?;
    if let Some(team) = &args.team {
        teams.retain(|known| known == team);
        if teams.is_empty() {
            bail!("there is no token for {team}: add it to the file of SLACK_BOT_TOKENS_FILE");
        }
    }
    let mut reports = Vec::new();
    let syncs = teams.iter().map(|team| sync.sync_and_schedule(team, &SystemClock));
    let mut syncs = stream::iter(syncs).buffer_unordered(AT_ONCE);
    while let Some(report) = syncs.next().await {
        print_report(&report, out)?;
        out.flush()?;
        reports.push(report);
    }
    let to_join: usize = reports.iter().map(|report| report.to_join.len()).sum();
    let public_channels = plain::counted(to_join, "public channel", "public channels");
    if to_join > 0 && args.directory.no_join {
        writeln!(
            out,
            "The app is not in {public_channels}: messages there do not arrive. Invite it, or leave \
             out --no-join."
        )?;
    } else if to_join > 0 {
        writeln!(out, "Joining {public_channels}, about 50 a minute …")?;
        out.flush()?;
        join(&api, &reports, out).await?;
    }
    let failed = reports.iter().filter(|report| report.failure.is_some()).count();
    match reports.as_slice() {
        [] => writeln!(out, "No workspace has a token: SLACK_BOT_TOKENS_FILE lists none.")?,
        _ if failed > 0 => bail!("{failed} of {} workspaces could not be synced", reports.len()),
        _ => {}
    }
    Ok(())
}

/// Prints the result of a workspace.
fn print_report(report: &SyncReport, out: &mut dyn Write) -> anyhow::Result<()> {
    let SyncReport { team, team_name, channels, people, emoji, user_groups, bookmarks, .. } = report;
    let name = team_name.as_ref().map(|name| format!(" ({})", plain::line(name))).unwrap_or_default();
    let changed = [channels, people, emoji, user_groups, bookmarks];
    let changed: usize = changed.iter().map(|counts| counts.changed).sum();
    if let Some(failure) = &report.failure {
        writeln!(out, "{team}{name}: failed: {}", plain::line(&failure.to_string()))?;
        return Ok(());
    }
    write!(
        out,
        "{team}{name}: {}, {}, {} emoji{}; {changed} new or changed",
        plain::counted(channels.listed, "channel", "channels"),
        plain::counted(people.listed, "person", "people"),
        emoji.listed,
        match user_groups.listed {
            0 => String::new(),
            listed => format!(", {}", plain::counted(listed, "user group", "user groups")),
        }
    )?;
    if report.skipped() > 0 {
        let why = report.first_skipped.as_ref().map_or_else(|| "odd".to_owned(), ToString::to_string);
        write!(out, "; {} passed over, the first because: {}", report.skipped(), plain::line(&why))?;
    }
    writeln!(out)?;
    if report.unlisted_private > 0 {
        let channels = plain::counted(report.unlisted_private, "private channel", "private channels");
        writeln!(out, "  Slack does not list the members of {channels}: invite the app to them.")?;
    }
    if !report.missing_scopes.is_empty() {
        let scopes: Vec<&str> = report.missing_scopes.iter().map(String::as_str).collect();
        writeln!(
            out,
            "  The app lacks the scope {}: add it on the OAuth & Permissions page and install the app again.",
            scopes.join(", ")
        )?;
    }
    Ok(())
}

/// Joins the channels of the reports and prints the results.
async fn join(api: &WebApi, reports: &[SyncReport], out: &mut dyn Write) -> anyhow::Result<()> {
    let (joiner, requests) = Joiner::new();
    for report in reports {
        joiner.found(report.team.clone(), report.to_join.clone());
    }
    drop(joiner);
    for (team, tally) in joins::run(api, requests, RETRY_LIMIT).await {
        writeln!(out, "{team}: joined {}", tally.joined)?;
        for (reason, channels) in &tally.failed {
            writeln!(out, "  not joined: {channels} ({})", plain::line(reason))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use slack_api::{ApiUrl, Tokens};
    use workers::directory::SyncError;
    use workers::directory::report::SyncCounts;

    use super::*;
    use crate::fixture::CliFixture;

    fn report() -> SyncReport {
        let tally = |listed, changed, skipped| SyncCounts { listed, changed, skipped };
        SyncReport {
            team: TeamId::parse("T1").unwrap(),
            team_name: Some("Acme \u{1b}[2J".into()),
            channels: tally(12, 3, 1),
            people: tally(30, 0, 0),
            emoji: tally(0, 0, 0),
            missing_scopes: BTreeSet::from(["emoji:read".to_owned()]),
            ..SyncReport::new(TeamId::parse("T1").unwrap())
        }
    }

    fn text(report: &SyncReport) -> String {
        let mut out = Vec::new();
        print_report(report, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_report_is_a_line_for_counts_and_one_for_advice() {
        let text = text(&report());
        for expected in
            ["T1 (Acme ", "12 channels, 30 people, 0 emoji", "3 new", "1 passed over", "emoji:read"]
        {
            assert!(text.contains(expected), "{text}");
        }
        assert!(!text.contains('\u{1b}'));
        let failed = SyncReport { failure: Some(SyncError::NoDate), ..report() };
        assert!(self::text(&failed).contains("failed: Slack's answers"));
    }

    #[tokio::test]
    async fn without_a_token_the_error_says_what_to_set() {
        let fixture = CliFixture::open().await;
        let args = SyncArgs {
            backend: fixture.data(),
            slack: SlackArgs { slack_api_url: None },
            directory: DirectoryArgs::default(),
            team: None,
        };
        let api = Arc::new(WebApi::new(ApiUrl::default(), Tokens::empty()));
        let error = run(&fixture.backend, api, &args, &mut Vec::new()).await.unwrap_err().to_string();
        assert!(error.contains("SLACK_BOT_TOKEN ") && !error.contains('\n'), "{error}");
    }
}
