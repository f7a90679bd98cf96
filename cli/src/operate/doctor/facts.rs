//! Everything the judgements are made of. No secret is among it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use embedded::condition::{FolderCondition, Integrity};
use ports::clock::Clock;
use process::config::DEFAULT_METRICS_LISTEN;
use process::config::backend::BackendKind;
use rules::gap::projection::Gap;
use slack::ids::TeamId;
use slack::signature::SigningSecrets;
use slack_api::check::{Bot, ClockComparison};
use slack_api::probe::ProbeFailure;
use slack_api::{ApiError, TokenKind};

use super::{DoctorArgs, archive_facts, local_facts, slack_facts};
use crate::operate::status::Status;

/// What was found out.
pub(super) struct Facts {
    /// The flag that leads another command to the same archive.
    pub(super) place: String,
    /// Whether it is on AWS.
    pub(super) on_aws: bool,
    /// The signing secret, if one is set, or why it cannot be used.
    pub(super) secret: Result<Option<Secret>, String>,
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
    /// Anything else.
    Unusable(String),
}

/// The signing secret, seen from afar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Secret {
    pub(super) count: usize,
    /// How many of them do not look as Slack makes them.
    pub(super) odd: usize,
}

/// What Slack says.
pub(super) enum SlackFacts {
    /// A setting cannot be used.
    Unusable(String),
    /// There is no token; Slack tells the time all the same.
    NoToken(Option<ClockComparison>),
    /// The tokens that Slack was asked about, and the number of all tokens.
    Tokens { total: usize, asked: Vec<TokenFacts> },
}

/// Whether questions are answered, by the settings.
pub(super) enum ResponderFacts {
    Off,
    On,
    /// A setting cannot be used.
    Unusable(String),
}

/// A token, and what Slack says of it.
pub(super) struct TokenFacts {
    pub(super) given_for: Option<TeamId>,
    pub(super) kind: TokenKind,
    pub(super) answer: Result<Bot, ApiError>,
    pub(super) scopes: Option<BTreeSet<String>>,
    pub(super) times: Option<ClockComparison>,
    /// The public channels, if the token could list them.
    pub(super) channels: Option<Result<ChannelCounts, ApiError>>,
}

/// The public channels that are not archived, as Slack lists them on its first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ChannelCounts {
    pub(super) listed: usize,
    pub(super) joined: usize,
    /// Whether there are more pages.
    pub(super) more: bool,
}

/// What answers where `annalist up` should.
pub(super) struct IngestFacts {
    pub(super) address: SocketAddr,
    pub(super) ready: Result<(), ProbeFailure>,
    /// Requests that it has refused since its start, where its metrics tell.
    pub(super) refused: Result<RefusedCounts, ProbeFailure>,
}

/// Requests that a process has refused, by the reason. A request without a signature can come from any client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RefusedCounts {
    /// Signed with another secret.
    pub(super) mismatch: u64,
    /// Signed by Slack, at a time that is another by that process's clock.
    pub(super) stale: u64,
}

/// What became of a challenge to the Request URL.
pub(super) enum RequestUrl {
    /// No URL was given.
    NotGiven,
    /// There is no secret to sign with.
    NoSecret,
    Asked {
        url: String,
        answer: Result<Duration, ProbeFailure>,
    },
}

/// What the open backend says. Each part may fail alone.
pub(super) struct ArchiveFacts {
    /// By the name of the port.
    pub(super) ports: Vec<(&'static str, Result<(), String>)>,
    pub(super) newest: Result<NewestMessage, String>,
    pub(super) status: Result<Status, String>,
    /// The same a while later, if the counts lag and something waited.
    pub(super) later: Option<Result<Status, String>>,
    /// Whether another process has the folder open; `None` if that cannot be told.
    pub(super) in_use: Option<bool>,
    pub(super) gaps: Result<Gaps, String>,
    /// `None` if there is no database file.
    pub(super) integrity: Option<Result<Integrity, String>>,
}

/// The newest message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewestMessage {
    /// When it was written.
    pub(super) ts_s: Option<i64>,
    /// Channels that were looked at.
    pub(super) channels: usize,
}

/// The gaps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Gaps {
    /// How many of them go on.
    pub(super) open: usize,
    /// How many have ended, and Slack may have what is missing.
    pub(super) missing: usize,
    pub(super) filled: usize,
    pub(super) lost: usize,
    /// Of those that go on, or else of those that are missing, the one that began last.
    pub(super) newest: Option<Gap>,
    /// The newest of the times in which requests were refused although Slack had signed them.
    pub(super) refused: Option<Gap>,
    /// Whether anything was ever read of Slack's history, or of an export.
    pub(super) has_history: bool,
}

/// Sends all requests at once: one without an answer delays no other.
pub(super) async fn gather(args: &DoctorArgs, clock: &dyn Clock) -> Facts {
    let secrets = local_facts::signing_secrets().await;
    let seen = |secrets: &SigningSecrets| Secret { count: secrets.count(), odd: secrets.odd() };
    let secret = secrets.as_ref().map(|secrets| secrets.as_ref().map(seen)).map_err(Clone::clone);
    let signed_with = secrets.as_ref().ok().and_then(Option::as_ref);
    let metrics = args.metrics.metrics_listen.unwrap_or(DEFAULT_METRICS_LISTEN);
    let own = async {
        // Before anything is signed: what the doctor sends may be refused too.
        let ingest = local_facts::ingest(args.listen.listen, metrics).await;
        (ingest, local_facts::request_url(args.url.as_deref(), signed_with, clock).await)
    };
    let (slack, (ingest, request_url), archive) =
        tokio::join!(slack_facts::ask(&args.slack, clock), own, archive_facts::look(&args.backend),);
    Facts {
        place: args.backend.as_typed(),
        on_aws: match args.backend.backend {
            BackendKind::Embedded => false,
            BackendKind::Aws => true,
        },
        secret,
        slack,
        responder: local_facts::responder(&args.responder).await,
        ingest,
        request_url,
        folder: local_facts::folder(&args.backend),
        archive,
    }
}

/// Waits no longer than this for an answer.
pub(super) async fn within<T, E: ToString>(
    time_limit: Duration,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(time_limit, answer).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer in {} s", time_limit.as_secs())),
    }
}
