//! When the directory of a workspace is due again.

use std::collections::BTreeMap;

use ports::archive::{ArchiveError, ArchiveExt, ItemKey, WriteOutcome};
use ports::clock::Clock;
use reader::range::ts_from_micros;
use rules::schedule::{AppState, SyncEnd, WorkKind, WorkspaceRow};
use slack::ids::{TeamId, Ts};
use slack_api::ApiError;

use super::{DirectorySync, SyncError, SyncReport};

/// Attempts to change a row while other processes change it too.
const ATTEMPTS: u32 = 10;

impl DirectorySync {
    /// Syncs a workspace, and stores how that ended and when it is due again. If that cannot be stored, it stays due.
    pub async fn sync_and_schedule(&self, team: &TeamId, clock: &dyn Clock) -> SyncReport {
        // Before the sync: a token that is replaced meanwhile was not used.
        let token = self.token_marks().await.ok().and_then(|mut marks| marks.remove(team));
        let mut report = self.sync(team).await;
        if let Err(error) = self.schedule(&report, token, clock).await {
            tracing::warn!(%team, %error, "when the directory is due again cannot be stored");
            report.failure.get_or_insert(error.into());
        }
        report
    }

    /// The workspaces that have a token, with the mark of the token.
    pub(super) async fn token_marks(&self) -> Result<BTreeMap<TeamId, String>, ApiError> {
        let tokens = self.api.team_tokens().await?;
        Ok(tokens.into_iter().map(|(team, token)| (team, token.mark())).collect())
    }

    async fn schedule(
        &self,
        report: &SyncReport,
        token: Option<String>,
        clock: &dyn Clock,
    ) -> Result<(), ArchiveError> {
        let (team, archive) = (&report.team, &*self.archive);
        let end = match &report.failure {
            None => SyncEnd::Synced,
            Some(SyncError::Api(error)) if error.is_token_error() => SyncEnd::Refused,
            Some(_) => SyncEnd::Failed,
        };
        let mut stored = archive.get(&ItemKey::team(team)).await?;
        // A workspace that only the token file names may not exist.
        if stored.is_none() {
            return Ok(());
        }
        for _ in 0..ATTEMPTS {
            let row = stored.as_ref().and_then(WorkspaceRow::read);
            let row = row.unwrap_or_else(|| WorkspaceRow::new(team.clone()));
            match archive.write(&row.synced(end, clock.now(), token.clone())).await? {
                WriteOutcome::Applied => return self.note_state(&row, end, token, report, clock).await,
                WriteOutcome::Rejected(newer) => stored = Some(newer),
            }
        }
        // It stays due: the next tick tries again.
        Ok(())
    }

    /// Stores whether Slack lets the app in, if it is news. That of a new token is, so that the report of an earlier
    /// removal that arrives late does not count. The time is Slack's, as that of events: by a clock that is ahead, the state
    /// would hide later events.
    async fn note_state(
        &self,
        row: &WorkspaceRow,
        end: SyncEnd,
        token: Option<String>,
        report: &SyncReport,
        clock: &dyn Clock,
    ) -> Result<(), ArchiveError> {
        let reason = report.failure.as_ref().map(ToString::to_string).unwrap_or_default();
        let is_new = row.schedule(WorkKind::Sync).token != token;
        let (state, shown_at) = match end {
            SyncEnd::Synced if is_new || row.state != AppState::Active => {
                (AppState::Active, report.began_at.clone())
            }
            SyncEnd::Refused if row.state == AppState::Active => {
                (AppState::TokenFailed, self.slack_time(clock).await)
            }
            SyncEnd::Synced | SyncEnd::Refused | SyncEnd::Failed => return Ok(()),
        };
        // Without Slack's time, the next sync that ends so stores it.
        let Some(shown_at) = shown_at else { return Ok(()) };
        self.archive.write(&state.update(&row.team, &shown_at, &reason)).await.map(drop)
    }

    /// Slack's time, for which no token is needed.
    async fn slack_time(&self, clock: &dyn Clock) -> Option<Ts> {
        let clocks = self.api.check_without_token(clock).await.clocks?;
        Some(ts_from_micros(clocks.slack_s.saturating_mul(1_000_000)))
    }
}
