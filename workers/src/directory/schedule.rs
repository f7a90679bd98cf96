//! Runs syncs and joins for the life of the process.

use std::collections::HashMap;
use std::time::Duration;

use slack::ids::TeamId;
use slack_api::ApiError;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::joiner::{JoinRequests, Joiner};
use super::joins::{self, FoundChannels, RetryLimit};
use super::{DirectorySync, SyncReport};

/// Events already carry every change; the hourly sync finds missed ones.
const BETWEEN_SYNCS: Duration = Duration::from_secs(3_600);

/// The pause after a failure, long enough not to burden Slack during an incident.
const AFTER_FAILURE: Duration = Duration::from_secs(300);

/// How soon a workspace that was added to the token file is noticed.
const BETWEEN_TEAM_CHECKS: Duration = Duration::from_secs(60);

/// Attempts in a row before Slack counts as unreachable for a waiting caller.
const JOIN_TRIES: u32 = 3;

/// Maximum number of queued lists of channels to join, one per workspace and sync.
const MAX_LISTS: usize = 16;

/// The time of the next sync of each workspace.
#[derive(Debug, Default)]
struct DueTimes(HashMap<TeamId, Instant>);

impl DueTimes {
    fn is_due(&self, team: &TeamId, now: Instant) -> bool {
        self.0.get(team).is_none_or(|due| *due <= now)
    }

    fn note_sync(&mut self, report: &SyncReport, now: Instant) {
        let pause = if report.failure.is_some() { AFTER_FAILURE } else { BETWEEN_SYNCS };
        self.0.insert(report.team.clone(), now + pause);
    }
}

impl DirectorySync {
    /// Syncs every workspace with a token, now and every hour, until the shutdown. With `requests`, also
    /// joins the requested channels and every public channel that the app is not in; without, it joins no
    /// channel.
    pub async fn run(self, requests: Option<JoinRequests>, mut shutdown: watch::Receiver<bool>) {
        let (found, lists) = mpsc::channel(MAX_LISTS);
        let working = async {
            match requests {
                Some(requests) => {
                    let joining = joins::run(&self.api, requests, lists, RetryLimit::Endless);
                    tokio::join!(self.sync_forever(Some(found)), joining);
                }
                None => self.sync_forever(None).await,
            }
        };
        // A sync that is dropped between two steps is completed by the next one.
        tokio::select! {
            biased;
            _ = shutdown.wait_for(|shutdown| *shutdown) => {}
            () = working => {}
        }
    }

    /// Syncs every workspace with a token once. With `join`, joins every public channel that the app is not
    /// in. May be dropped at any point: the next sync completes it.
    ///
    /// # Errors
    /// If the workspace of a token is unknown.
    pub async fn run_once(&self, join: bool) -> Result<(), ApiError> {
        let (joiner, requests) = Joiner::new();
        drop(joiner);
        let (found, lists) = mpsc::channel(MAX_LISTS);
        let syncing = async {
            for team in self.api.teams().await? {
                let report = self.sync(&team).await;
                if join {
                    drop(found.send((report.team, report.to_join)).await);
                }
            }
            drop(found);
            Ok(())
        };
        let joining = joins::run(&self.api, requests, lists, RetryLimit::Failures(JOIN_TRIES));
        tokio::join!(syncing, joining).0
    }

    /// Joins the requested channels. May be dropped at any point: the next sync joins the rest.
    pub async fn join(&self, requests: &mut JoinRequests) {
        let (joiner, waiting) = Joiner::new();
        while let Ok((team, channel)) = requests.try_recv() {
            joiner.ask(&team, &channel);
        }
        drop(joiner);
        let (_, no_lists) = mpsc::channel(1);
        joins::run(&self.api, waiting, no_lists, RetryLimit::Failures(JOIN_TRIES)).await;
    }

    async fn sync_forever(&self, to_join: Option<mpsc::Sender<FoundChannels>>) {
        let mut due = DueTimes::default();
        let mut last_error = None;
        loop {
            match self.api.teams().await {
                Ok(teams) => {
                    last_error = None;
                    for team in teams {
                        if due.is_due(&team, Instant::now()) {
                            let report = self.sync(&team).await;
                            due.note_sync(&report, Instant::now());
                            if let Some(to_join) = &to_join {
                                // The receiver is dropped only when the process ends.
                                drop(to_join.send((report.team, report.to_join)).await);
                            }
                        }
                    }
                }
                Err(error) => {
                    let error = error.to_string();
                    if last_error.as_ref() != Some(&error) {
                        tracing::warn!(error, "the workspace of the token is unknown");
                        last_error = Some(error);
                    }
                }
            }
            tokio::time::sleep(BETWEEN_TEAM_CHECKS).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SyncError;
    use super::*;

    #[test]
    fn a_workspace_is_due_at_once_then_hourly_and_sooner_after_a_failure() {
        let team = TeamId::parse("T1").unwrap();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut due = DueTimes::default();
        assert!(due.is_due(&team, start));
        due.note_sync(&SyncReport::new(team.clone()), start);
        assert!(!due.is_due(&team, after(3_599)) && due.is_due(&team, after(3_600)));
        assert!(due.is_due(&TeamId::parse("T2").unwrap(), start));
        let failed = SyncReport { failure: Some(SyncError::NoDate), ..SyncReport::new(team.clone()) };
        due.note_sync(&failed, start);
        assert!(!due.is_due(&team, after(299)) && due.is_due(&team, after(300)));
    }
}
