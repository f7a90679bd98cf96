//! Joining public channels: Slack delivers messages only from channels the app is in.
//! <https://docs.slack.dev/reference/methods/conversations.join>
//!
//! One concurrent call per workspace, at the rate limit of the method: 10,000 channels take some 200 minutes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use metrics::counter;
use ports::metrics::DIRECTORY_JOINS;
use slack::ids::{ChannelId, TeamId};
use slack_api::{ApiError, Method, WebApi};
use tokio::sync::watch;
use tokio::time::Instant;

use super::joiner::JoinRequests;

/// Maximum number of waiting channels that were requested one by one. Further ones are left to the next sync.
const MAX_ASKED: usize = 1_024;

/// Maximum number of distinct reasons. Slack has a dozen.
const MAX_REASONS: usize = 32;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// How long to retry if Slack cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryLimit {
    /// For as long as it takes.
    Endless,
    /// For this many failures in a row.
    Failures(u32),
}

/// The result of joining the channels of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JoinCounts {
    /// Channels the app has joined.
    pub joined: u64,
    /// Channels that could not be joined, by reason.
    pub failed: BTreeMap<String, u64>,
}

/// The channels of one workspace.
#[derive(Default)]
struct TeamJoins {
    asked: VecDeque<ChannelId>,
    found: BTreeSet<ChannelId>,
    busy: bool,
    not_before: Option<Instant>,
    failures_in_a_row: u32,
    counts: JoinCounts,
}

struct Joined {
    team: TeamId,
    channel: ChannelId,
    result: Result<(), ApiError>,
}

/// Joins requested and found channels until no sender is left; returns the results. May be dropped at any
/// point: the next sync finds the channels that are left.
pub async fn run(
    api: &WebApi,
    requests: JoinRequests,
    retry_limit: RetryLimit,
) -> BTreeMap<TeamId, JoinCounts> {
    let JoinRequests { mut asked, mut found } = requests;
    let mut joins_by_team: BTreeMap<TeamId, TeamJoins> = BTreeMap::new();
    let mut joining: FuturesUnordered<BoxFuture<'_, Joined>> = FuturesUnordered::new();
    loop {
        for (team, team_joins) in &mut joins_by_team {
            joining.extend(team_joins.start(api, team));
        }
        tokio::select! {
            // A request is only queued, so it delays no other branch.
            biased;
            Some((team, channel)) = asked.recv() => joins_by_team.entry(team).or_default().ask(channel),
            Some((team, channels)) = found.recv() => {
                joins_by_team.entry(team).or_default().found = channels.into_iter().collect();
            }
            Some(joined) = joining.next() => {
                if let Some(team_joins) = joins_by_team.get_mut(&joined.team) {
                    team_joins.finish(joined, retry_limit);
                }
            }
            else => break,
        }
    }
    joins_by_team.into_iter().map(|(team, team_joins)| (team, team_joins.counts)).collect()
}

/// Joins requested and found channels until the shutdown; without `requests`, only waits for it.
pub async fn run_until_shutdown(
    api: Arc<WebApi>,
    requests: Option<JoinRequests>,
    mut shutdown: watch::Receiver<bool>,
) {
    let joining = async {
        if let Some(requests) = requests {
            run(&api, requests, RetryLimit::Endless).await;
        }
        std::future::pending::<()>().await;
    };
    // The next sync finds the channels that are left.
    tokio::select! {
        biased;
        _ = shutdown.wait_for(|shutdown| *shutdown) => {}
        () = joining => {}
    }
}

impl TeamJoins {
    fn ask(&mut self, channel: ChannelId) {
        if self.asked.len() < MAX_ASKED && !self.asked.contains(&channel) {
            self.asked.push_back(channel);
        }
    }

    /// The next call, unless one is in progress. A new channel goes first: its messages are being written
    /// now.
    fn start<'a>(&mut self, api: &'a WebApi, team: &TeamId) -> Option<BoxFuture<'a, Joined>> {
        if self.busy {
            return None;
        }
        let channel = self.asked.pop_front().or_else(|| self.found.pop_first())?;
        self.busy = true;
        let (team, not_before) = (team.clone(), self.not_before.take());
        Some(Box::pin(async move {
            if let Some(not_before) = not_before {
                tokio::time::sleep_until(not_before).await;
            }
            let parameters = [("channel", channel.as_str())];
            let result = api.call(&team, Method::ConversationsJoin, &parameters).await.map(drop);
            Joined { team, channel, result }
        }))
    }

    fn finish(&mut self, joined: Joined, retry_limit: RetryLimit) {
        let Joined { team, channel, result } = joined;
        self.busy = false;
        match result {
            Ok(()) => {
                self.failures_in_a_row = 0;
                self.counts.joined += 1;
                counter!(DIRECTORY_JOINS, "outcome" => "joined").increment(1);
            }
            Err(error) => match Next::after(&error) {
                Next::OtherChannels => {
                    self.failures_in_a_row = 0;
                    self.fail(&team, &error, 1);
                }
                Next::Nothing => self.give_up(&team, &error),
                Next::Again { pause } => {
                    self.failures_in_a_row += 1;
                    if retry_limit == RetryLimit::Failures(self.failures_in_a_row) {
                        self.give_up(&team, &error);
                    } else {
                        let doubled = FIRST_PAUSE * 2_u32.pow(self.failures_in_a_row.min(10));
                        self.not_before = Some(Instant::now() + pause.unwrap_or(doubled.min(LONGEST_PAUSE)));
                        self.asked.push_front(channel);
                    }
                }
            },
        }
        if self.asked.is_empty() && self.found.is_empty() && retry_limit == RetryLimit::Endless {
            let JoinCounts { joined, failed } = std::mem::take(&mut self.counts);
            tracing::info!(%team, joined, ?failed, "finished joining public channels");
        }
    }

    /// No channel of this workspace can be joined for now; the next sync tries again.
    fn give_up(&mut self, team: &TeamId, error: &ApiError) {
        let left = 1 + self.asked.len() + self.found.len();
        self.asked.clear();
        self.found.clear();
        self.failures_in_a_row = 0;
        self.fail(team, error, left as u64);
    }

    fn fail(&mut self, team: &TeamId, error: &ApiError, channels: u64) {
        counter!(DIRECTORY_JOINS, "outcome" => "failed").increment(channels);
        let reason = error.refusal_code().map_or_else(|| error.to_string(), str::to_owned);
        let failed = &mut self.counts.failed;
        let reason =
            if failed.len() < MAX_REASONS || failed.contains_key(&reason) { reason } else { "others".into() };
        if !failed.contains_key(&reason) {
            tracing::warn!(%team, %error, "public channels cannot be joined");
        }
        *failed.entry(reason).or_default() += channels;
    }
}

/// The effect of a failure on the waiting channels.
enum Next {
    /// The failure is specific to this channel; continue with the others.
    OtherChannels,
    /// Every channel would fail in the same way; stop.
    Nothing,
    /// The failure may pass; retry.
    Again { pause: Option<Duration> },
}

impl Next {
    fn after(error: &ApiError) -> Self {
        match error {
            ApiError::Refused { error, .. } => match error.as_str() {
                "missing_scope"
                | "not_authed"
                | "invalid_auth"
                | "account_inactive"
                | "token_revoked"
                | "token_expired"
                | "not_allowed_token_type"
                | "no_permission"
                | "ekm_access_denied"
                | "team_access_not_granted" => Self::Nothing,
                _ => Self::OtherChannels,
            },
            ApiError::Garbled { .. } => Self::OtherChannels,
            ApiError::NoToken(_) | ApiError::WrongToken { .. } => Self::Nothing,
            ApiError::RateLimited { retry_after, .. } => Self::Again { pause: Some(*retry_after) },
            ApiError::Unreachable { .. } => Self::Again { pause: None },
        }
    }
}
