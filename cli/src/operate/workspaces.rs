//! `annalist workspaces`: every workspace, whether Slack lets the app in, and what is late.

use std::collections::BTreeSet;
use std::io::Write;

use jiff::Timestamp;
use ports::archive::{Archive, ItemKey};
use ports::clock::{Clock, TimestampMs};
use process::config::backend::BackendArgs;
use process::config::slack::SlackArgs;
use reader::waiting::WaitingJobs;
use reader::{directory, waiting, workspaces};
use rules::schedule::{AppState, WorkKind, WorkspaceRow};
use serde::Serialize;
use slack::ids::{AppId, TeamId};
use slack_api::WebApi;

use crate::plain;

/// `annalist workspaces`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WorkspacesArgs {
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    #[command(flatten)]
    pub(crate) slack: SlackArgs,
    /// One JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// The token of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum TokenHealth {
    Ok,
    /// Slack refused it at the last sync, or just now if there was none.
    Refused,
    None,
}

/// A workspace, under the names of `--json`.
#[derive(Debug, Serialize)]
struct WorkspaceLine {
    team_id: TeamId,
    name: Option<String>,
    state: &'static str,
    state_reason: Option<String>,
    token: TokenHealth,
    /// Slack's time of the last complete sync of its directory.
    synced_ts: Option<String>,
    next_sync: Option<String>,
    /// Jobs that wait aside.
    waiting: u64,
    oldest_wait_s: Option<u64>,
    /// On Lambda, the beginning of the day.
    events_last_seen: Option<String>,
    /// The app that sent the last event.
    app_id: Option<AppId>,
}

/// Prints every workspace that has rows or a token.
pub(crate) async fn run(
    archive: &dyn Archive,
    api: &WebApi,
    clock: &dyn Clock,
    args: &WorkspacesArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut rows = workspaces::read(archive).await?;
    let tokens = KnownTokens::read(api).await;
    let known: BTreeSet<TeamId> = rows.iter().map(|row| row.team.clone()).collect();
    for team in tokens.teams.difference(&known) {
        rows.push(never_synced(api, team).await);
    }
    rows.sort_by(|one, other| one.team.cmp(&other.team));
    let (waiting, now) = (waiting::read(archive).await?, clock.now());
    for row in &rows {
        let line = WorkspaceLine::read(archive, row, &tokens, &waiting, now).await?;
        if args.json {
            plain::json_line(out, &line)?;
        } else {
            writeln!(out, "{}", plain::line(&line.text(now)))?;
        }
    }
    if rows.is_empty() && !args.json {
        writeln!(out, "No workspace is known: none has sent an event, and there is no token.")?;
    }
    Ok(())
}

/// A workspace that has a token and no row. Only Slack knows whether the token is accepted.
async fn never_synced(api: &WebApi, team: &TeamId) -> WorkspaceRow {
    let mut row = WorkspaceRow::new(team.clone());
    if let Err(error) = api.slack_time(team).await
        && error.is_token_error()
    {
        row.state = AppState::TokenFailed;
        row.state_reason = Some(error.to_string());
    }
    row
}

/// The workspaces that have a token.
struct KnownTokens {
    teams: BTreeSet<TeamId>,
    /// Slack refuses a token, and so does not say whose it is.
    has_refused: bool,
}

impl KnownTokens {
    async fn read(api: &WebApi) -> Self {
        match api.teams().await {
            Ok(teams) => Self { teams: teams.into_iter().collect(), has_refused: false },
            Err(error) => Self { teams: BTreeSet::new(), has_refused: error.is_token_error() },
        }
    }

    fn health(&self, row: &WorkspaceRow) -> TokenHealth {
        match (self.teams.contains(&row.team), row.state) {
            (true, AppState::Active) => TokenHealth::Ok,
            (true, AppState::TokenFailed | AppState::Uninstalled) => TokenHealth::Refused,
            (false, _) if self.has_refused => TokenHealth::Refused,
            (false, _) => TokenHealth::None,
        }
    }
}

impl WorkspaceLine {
    async fn read(
        archive: &dyn Archive,
        row: &WorkspaceRow,
        tokens: &KnownTokens,
        waiting: &[WaitingJobs],
        now: TimestampMs,
    ) -> anyhow::Result<Self> {
        let team = &row.team;
        let token = tokens.health(row);
        let synced = archive.get(&ItemKey::directory_sync(team)).await?;
        let due = TimestampMs(row.schedule(WorkKind::Sync).due_ms).max(now);
        let of_team = || waiting.iter().filter(|jobs| jobs.team == *team);
        let seen = workspaces::last_event(archive, row).await?;
        let is_synced = token != TokenHealth::None && row.state != AppState::Uninstalled;
        Ok(Self {
            team_id: team.clone(),
            name: directory::read_workspace_facts(archive, team).await?.name,
            state: row.state.as_str(),
            state_reason: row.state_reason.clone(),
            token,
            synced_ts: synced.and_then(|synced| Some(synced.text("synced_ts")?.to_owned())),
            next_sync: is_synced.then(|| time(Timestamp::from_second(due.seconds()))),
            waiting: of_team().map(|jobs| jobs.jobs).sum(),
            oldest_wait_s: of_team().map(|jobs| now.since(jobs.since).as_secs()).max(),
            events_last_seen: seen.map(|[seen, _]| time(Timestamp::from_second(seen.micros() / 1_000_000))),
            app_id: row.app.as_ref().map(|last| last.app.clone()),
        })
    }

    /// `T1 (Acme): active, token ok, next sync 2026-11-20T12:00:00Z, last event 2026-11-20T11:58:01Z`.
    fn text(&self, now: TimestampMs) -> String {
        let name = self.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let reason = self.state_reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let token = match self.token {
            TokenHealth::Ok => "token ok",
            TokenHealth::Refused => "token refused",
            TokenHealth::None => "no token in the settings",
        };
        let mut text = format!("{}{name}: {}{reason}, {token}", self.team_id, self.state);
        match &self.next_sync {
            Some(at) if *at <= time(Timestamp::from_second(now.seconds())) => text.push_str(", sync is due"),
            Some(at) => text.push_str(&format!(", next sync {at}")),
            None => {}
        }
        match &self.events_last_seen {
            Some(at) => text.push_str(&format!(", last event {at}")),
            None => text.push_str(", no event yet"),
        }
        if let Some(oldest_s) = self.oldest_wait_s {
            let jobs = plain::counted(self.waiting, "job", "jobs");
            text.push_str(&format!(", {jobs} waiting for {}", plain::age(oldest_s)));
        }
        text
    }
}

fn time(time: Result<Timestamp, jiff::Error>) -> String {
    time.map_or_else(|_| "?".to_owned(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use ports::archive::ArchiveExt;
    use ports::queue::run::RunId;
    use rules::gap::run::RunSpan;
    use rules::schedule::SyncEnd;
    use serde_json::{Value, json};
    use slack::ids::Ts;
    use slack_api::ApiUrl;
    use testkit::fake_slack::{FakeSlack, tokens};

    use super::*;
    use crate::fixture::CliFixture;

    async fn printed(fixture: &CliFixture, api: &WebApi, json: bool) -> String {
        let args = WorkspacesArgs { backend: fixture.data(), slack: SlackArgs { slack_api_url: None }, json };
        let mut out = Vec::new();
        run(fixture.archive(), api, fixture.clock(), &args, &mut out).await.unwrap();
        String::from_utf8(out).unwrap()
    }

    #[tokio::test]
    async fn a_dead_token_and_a_missing_one_are_shown_beside_one_that_works() {
        let fixture = CliFixture::open().await;
        for team in ["T1", "T2", "T3"] {
            fixture.post(team, "C1", "1700000000.000100", "hello").await;
        }
        let dead = WorkspaceRow::new(TeamId::parse("T2").unwrap());
        fixture.archive().write(&dead.synced(SyncEnd::Refused, fixture.clock().now(), None)).await.unwrap();
        let clock = Ts::parse("1700000000.000000").unwrap();
        let refused =
            AppState::TokenFailed.update(&dead.team, &clock, "Slack refused auth.test: invalid_auth");
        fixture.archive().write(&refused).await.unwrap();
        let run = RunSpan::from_event(Ts::parse("1700000000.000100").unwrap());
        for update in run.updates(&TeamId::parse("T1").unwrap(), &RunId::begin()) {
            fixture.archive().write(&update).await.unwrap();
        }
        let slack = FakeSlack::start().await;
        let api = slack.client(tokens(&[("T1", "xoxb-1"), ("T2", "xoxb-2"), ("T4", "xoxb-4")]));

        let lines = printed(&fixture, &api, true).await;
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let column = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
        assert_eq!(column("team_id"), [json!("T1"), json!("T2"), json!("T3"), json!("T4")]);
        assert_eq!(column("token"), [json!("ok"), json!("refused"), json!("none"), json!("refused")]);
        assert_eq!(
            column("state"),
            [json!("active"), json!("token_failed"), json!("active"), json!("token_failed")]
        );
        assert_eq!(lines[1]["next_sync"], json!("2026-11-20T18:34:56Z"));
        assert_eq!(column("waiting"), vec![json!(0); 4]);
        let app = json!("A0ANNALIST");
        assert_eq!(column("app_id"), [app.clone(), app.clone(), app, json!(null)]);
        // Without a run of ingest, as on Lambda, the day is known.
        let day = json!("2023-11-14T00:00:00Z");
        assert_eq!(
            column("events_last_seen"),
            [json!("2023-11-14T22:13:20Z"), day.clone(), day, json!(null)]
        );

        let text = printed(&fixture, &api, false).await;
        let text: Vec<&str> = text.lines().collect();
        assert!(text[0].contains("T1: active, token ok, sync is due"), "{text:?}");
        assert!(
            text[1].contains("token_failed (Slack refused auth.test: invalid_auth), token refused"),
            "{text:?}"
        );
        assert!(
            text[2].contains("T3: active, no token in the settings, last event 2023-11-14T00:00:00Z"),
            "{text:?}"
        );
        assert!(text[3].ends_with("no event yet"), "{text:?}");
    }

    #[tokio::test]
    async fn without_workspaces_it_says_so() {
        let fixture = CliFixture::open().await;
        let api = WebApi::new(ApiUrl::default(), slack_api::Tokens::empty());
        assert!(printed(&fixture, &api, false).await.contains("No workspace is known"));
    }
}
