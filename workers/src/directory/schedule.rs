//! Syncs and joins for as long as the process lives.

use std::collections::HashMap;
use std::time::Duration;

use slack::ids::TeamId;
use slack_api::ApiError;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::joiner::{JoinRequests, Joiner};
use super::joins::{self, FoundChannels, RetryLimit};
use super::{DirectorySync, SyncReport};

/// What an event told is known already; this finds what was missed.
const BETWEEN_SYNCS: Duration = Duration::from_secs(3_600);

/// After a failure, and long enough to be no burden for a Slack in trouble.
const AFTER_FAILURE: Duration = Duration::from_secs(300);

/// How soon a workspace that is new in the file of tokens is seen.
const BETWEEN_LOOKS: Duration = Duration::from_secs(60);

/// Tries in a row before Slack counts as unreachable for a caller that waits.
const JOIN_TRIES: u32 = 3;

/// Lists of channels to join, one per workspace and sync.
const MAX_LISTS: usize = 16;

/// When each workspace is due.
#[derive(Debug, Default)]
struct DueTimes(HashMap<TeamId, Instant>);

impl DueTimes {
    fn is_due(&self, team: &TeamId, now: Instant) -> bool {
        self.0.get(team).is_none_or(|due| *due <= now)
    }

    fn synced(&mut self, report: &SyncReport, now: Instant) {
        let pause = if report.failure.is_some() { AFTER_FAILURE } else { BETWEEN_SYNCS };
        self.0.insert(report.team.clone(), now + pause);
    }
}

impl DirectorySync {
    /// Syncs every workspace there is a token for, now and every hour, until the shutdown. With `asked`, joins what is
    /// asked for there and every public channel that the app is not in; without, it joins none.
    pub async fn run(self, asked: Option<JoinRequests>, mut shutdown: watch::Receiver<bool>) {
        let (found, lists) = mpsc::channel(MAX_LISTS);
        let working = async {
            match asked {
                Some(asked) => {
                    let joining = joins::run(&self.api, asked, lists, RetryLimit::Endless);
                    tokio::join!(self.sync_forever(Some(found)), joining);
                }
                None => self.sync_forever(None).await,
            }
        };
        // Dropped between any two steps, a sync leaves what the next one completes.
        tokio::select! {
            biased;
            _ = shutdown.wait_for(|shutdown| *shutdown) => {}
            () = working => {}
        }
    }

    /// Syncs every workspace there is a token for once. With `join`, joins every public channel that the app is not in. May
    /// be dropped at any point: the next sync completes it.
    ///
    /// # Errors
    /// If the workspace of a token is unknown.
    pub async fn run_once(&self, join: bool) -> Result<(), ApiError> {
        let (joiner, asked) = Joiner::new();
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
        let joining = joins::run(&self.api, asked, lists, RetryLimit::Failures(JOIN_TRIES));
        tokio::join!(syncing, joining).0
    }

    /// Joins the channels that were asked for. May be dropped at any point: the next sync joins the rest.
    pub async fn join(&self, asked: &mut JoinRequests) {
        let (joiner, waiting) = Joiner::new();
        while let Ok((team, channel)) = asked.try_recv() {
            joiner.ask(&team, &channel);
        }
        drop(joiner);
        let (_, no_lists) = mpsc::channel(1);
        joins::run(&self.api, waiting, no_lists, RetryLimit::Failures(JOIN_TRIES)).await;
    }

    async fn sync_forever(&self, to_join: Option<mpsc::Sender<FoundChannels>>) {
        let mut due = DueTimes::default();
        let mut complaint = None;
        loop {
            match self.api.teams().await {
                Ok(teams) => {
                    complaint = None;
                    for team in teams {
                        if due.is_due(&team, Instant::now()) {
                            let report = self.sync(&team).await;
                            due.synced(&report, Instant::now());
                            if let Some(to_join) = &to_join {
                                // The receiver is gone only if the process ends.
                                drop(to_join.send((report.team, report.to_join)).await);
                            }
                        }
                    }
                }
                Err(error) => {
                    let error = error.to_string();
                    if complaint.as_ref() != Some(&error) {
                        tracing::warn!(error, "the workspace of the token is unknown");
                        complaint = Some(error);
                    }
                }
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
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
        due.synced(&SyncReport::new(team.clone()), start);
        assert!(!due.is_due(&team, after(3_599)) && due.is_due(&team, after(3_600)));
        assert!(due.is_due(&TeamId::parse("T2").unwrap(), start));
        let failed = SyncReport { failure: Some(SyncError::NoDate), ..SyncReport::new(team.clone()) };
        due.synced(&failed, start);
        assert!(!due.is_due(&team, after(299)) && due.is_due(&team, after(300)));
    }
}
