//! The facts that the checks evaluate. They contain no secret.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use embedded::condition::{FolderCondition, Integrity};
use ingest::{ConnectionFailure, SocketHello};
use process::config::SettingsFacts;
use rules::gap::projection::Gap;
use slack::ids::{AppId, TeamId};
use slack_api::check::{BotIdentity, ClockComparison};
use slack_api::probe::ProbeFailure;
use slack_api::{ApiError, TokenKind};

use super::unmoved::UnmovedFiles;
use super::unnamed::UnnamedFiles;
use crate::operate::status::Status;

/// Time limit for reading secrets: Secrets Manager answers within a second.
pub(super) const SECRETS_TIMEOUT: Duration = Duration::from_secs(15);

pub(super) struct Facts {
    /// The flag with which another command opens the same archive.
    pub(super) backend_flag: String,
    /// Whether the archive is on AWS.
    pub(super) on_aws: bool,
    pub(super) settings: SettingsFacts,
    /// The signing secret, if one is set, or why it cannot be used.
    pub(super) secret: Result<Option<Secret>, String>,
    pub(super) socket: SocketFacts,
    pub(super) slack: SlackFacts,
    pub(super) responder: ResponderFacts,
    pub(super) ingest: IngestFacts,
    pub(super) request_url: RequestUrl,
    pub(super) folder: Option<Result<FolderCondition, String>>,
    pub(super) archive: Result<ArchiveFacts, Unopened>,
}

/// Why there is no open backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unopened {
    /// There is no archive yet.
    Missing(String),
    /// The backend cannot be used for another reason.
    Unusable(String),
}

/// Facts about the signing secrets that do not reveal them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Secret {
    /// The number of secrets of the path without an app.
    pub(super) count: usize,
    /// The number of secrets that do not have the format of Slack's secrets.
    pub(super) odd: usize,
    /// The number of apps with a path of their own.
    pub(super) apps: usize,
}

/// What Slack says to a connection of Socket Mode.
pub(super) enum SocketFacts {
    /// There is no app-level token.
    NoToken,
    /// A setting cannot be used.
    Unusable(String),
    Asked(Result<SocketHello, ConnectionFailure>),
}

impl SocketFacts {
    /// Returns whether there is an app-level token, usable or not.
    pub(super) fn has_token(&self) -> bool {
        !matches!(self, Self::NoToken)
    }
}

pub(super) enum SlackFacts {
    /// A setting cannot be used.
    Unusable(String),
    /// There is no token. Slack reports its time even without one.
    NoToken(Option<ClockComparison>),
    /// The tokens that were checked, and the number of all tokens.
    Tokens { total: usize, asked: Vec<TokenFacts> },
}

impl SlackFacts {
    /// Returns the tokens that were checked.
    pub(super) fn asked(&self) -> &[TokenFacts] {
        match self {
            Self::Tokens { asked, .. } => asked,
            Self::Unusable(_) | Self::NoToken(_) => &[],
        }
    }
}

/// Whether the settings turn the responder on.
pub(super) enum ResponderFacts {
    Off,
    On,
    /// A setting cannot be used.
    Unusable(String),
}

/// A token, and Slack's response about it.
pub(super) struct TokenFacts {
    pub(super) given_for: Option<TeamId>,
    pub(super) kind: TokenKind,
    pub(super) answer: Result<BotIdentity, ApiError>,
    pub(super) scopes: Option<BTreeSet<String>>,
    pub(super) times: Option<ClockComparison>,
    /// The app, if Slack was asked for it and named one.
    pub(super) app_id: Option<String>,
    /// The public channels, if the token could list them.
    pub(super) channels: Option<Result<ChannelCounts, ApiError>>,
}

#[cfg(test)]
impl TokenFacts {
    /// Returns an accepted token with these scopes.
    pub(super) fn accepted(scopes: &[&str]) -> Self {
        let (team_name, user) = (Some("Acme".to_owned()), Some("annalist".to_owned()));
        let bot = BotIdentity { team: TeamId::parse("T1").unwrap(), team_name, user, bot_id: None };
        let scopes = Some(scopes.iter().map(|scope| (*scope).to_owned()).collect());
        let kind = TokenKind::Bot;
        Self { given_for: None, kind, answer: Ok(bot), scopes, times: None, app_id: None, channels: None }
    }
}

/// Counts of the public channels, without archived ones, on Slack's first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ChannelCounts {
    pub(super) listed: usize,
    pub(super) joined: usize,
    /// Whether there are more pages.
    pub(super) more: bool,
}

/// The responses at the addresses of `annalist up`.
pub(super) struct IngestFacts {
    pub(super) address: SocketAddr,
    pub(super) ready: Result<(), ProbeFailure>,
    /// Requests that the process has refused since its start, if its metrics are available.
    pub(super) refused: Result<RefusedCounts, ProbeFailure>,
    /// The connections of Socket Mode that the process has now, if its metrics are available.
    pub(super) connections: Option<u64>,
}

/// Counts of refused requests by reason. Requests without a signature are not counted, because any client can
/// send them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RefusedCounts {
    /// Signed with another secret.
    pub(super) mismatch: u64,
    /// Signed by Slack, with a time that differs from the clock of that process.
    pub(super) stale: u64,
}

/// The result of a challenge to the Request URL.
pub(super) enum RequestUrl {
    /// No URL was given.
    NotGiven,
    /// There is no secret to sign with.
    NoSecret,
    Probed {
        url: String,
        answer: Result<Duration, ProbeFailure>,
    },
}

/// The facts from the open backend. Each part may fail separately.
pub(super) struct ArchiveFacts {
    /// Whether each port is ready, by its name.
    pub(super) ports: Vec<(&'static str, Result<(), String>)>,
    pub(super) newest: Result<NewestMessage, String>,
    /// When each app sent its last event, in seconds since 1970, without the apps that were uninstalled.
    pub(super) apps: Result<BTreeMap<AppId, i64>, String>,
    pub(super) status: Result<Status, String>,
    /// The status of a later read, if the counts lag and jobs were waiting.
    pub(super) later: Option<Result<Status, String>>,
    /// Whether another process has the folder open; `None` if this is unknown.
    pub(super) in_use: Option<bool>,
    pub(super) gaps: Result<Gaps, String>,
    /// The files that no row names.
    pub(super) unnamed: Result<UnnamedFiles, String>,
    /// The files in the data folder; `None` if that is where files are stored, or if there is no folder.
    pub(super) unmoved: Option<Result<UnmovedFiles, String>>,
    /// `None` if there is no database file.
    pub(super) integrity: Option<Result<Integrity, String>>,
}

/// The newest message of all channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewestMessage {
    /// The time of the message.
    pub(super) ts_s: Option<i64>,
    /// The number of channels that were checked.
    pub(super) channels: usize,
}

/// Counts of gaps, and the most important ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Gaps {
    /// The number of gaps that have not ended.
    pub(super) open: usize,
    /// The number of gaps that have ended and that Slack's history may fill.
    pub(super) missing: usize,
    pub(super) filled: usize,
    pub(super) lost: usize,
    /// The open gap that began last, or otherwise the missing one that began last.
    pub(super) newest: Option<Gap>,
    /// The newest gap in which requests were refused although Slack had signed them.
    pub(super) refused: Option<Gap>,
    /// Whether any part of Slack's history or of an export was ever read.
    pub(super) has_history: bool,
}

/// Waits for an answer, at most for the time limit.
pub(super) async fn within<T, E: ToString>(
    time_limit: Duration,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(time_limit, answer).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer in {} s", time_limit.as_secs())),
    }
}
