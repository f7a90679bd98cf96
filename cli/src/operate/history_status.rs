//! What `annalist status` says of history: how far it is read, and how far the archive is compared with it.

use jiff::Timestamp;
use ports::archive::Archive;
use ports::clock::TimestampMs;
use reader::proof::{TeamProof, last_day};
use reader::{find, history, proof};
use rules::history::progress::HistoryProgress;
use rules::history::proof::ProofCounts;
use serde::Serialize;
use slack::ids::Ts;
use workers::historian::RESTRICTED_ADVICE;

use crate::plain;

/// How far the reading of a workspace's history is.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HistoryLine {
    pub(super) team_id: String,
    mode: String,
    state: &'static str,
    channels: u64,
    read: u64,
    pub(crate) unreadable: u64,
    since: Option<String>,
    #[serde(skip)]
    pub(crate) text: String,
}

impl HistoryLine {
    pub(crate) fn new(progress: &HistoryProgress, now: TimestampMs) -> Self {
        let since = progress.since.as_ref().and_then(|ts| Timestamp::from_microsecond(ts.micros()).ok());
        let refused = match progress.unreadable {
            0 => String::new(),
            count => format!("; Slack refuses to show {}", plain::counted(count, "channel", "channels")),
        };
        let advice = if progress.is_restricted { format!(". {RESTRICTED_ADVICE}") } else { String::new() };
        Self {
            team_id: progress.team.to_string(),
            mode: progress.mode.clone(),
            state: progress.state(now.seconds()).as_str(),
            channels: progress.channels,
            read: progress.read,
            unreadable: progress.unreadable,
            since: since.map(|since| since.to_string()),
            text: format!("{}{refused}{advice}", history::progress_line(progress)),
        }
    }
}

/// How far a workspace is compared with Slack.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ProofLine {
    pub(super) team_id: String,
    night: Ts,
    through: Option<Ts>,
    channels: u64,
    behind: u64,
    pub(crate) missing: u64,
    filled: u64,
    calls: u64,
    /// Channels that are behind for so long that a person must look.
    #[serde(skip)]
    pub(crate) late: u64,
}

impl ProofLine {
    pub(crate) fn new(proof: TeamProof) -> Self {
        let TeamProof { team, night, through, channels, behind, found } = proof;
        let ProofCounts { missing, filled, calls, .. } = found;
        let late = behind.iter().filter(|known| known.is_late(&night)).count() as u64;
        let behind = behind.len() as u64;
        Self { team_id: team.to_string(), night, through, channels, behind, missing, filled, calls, late }
    }

    pub(crate) fn text(&self) -> String {
        let through = self.through.as_ref().map_or("nothing yet".to_owned(), last_day);
        let behind = match self.behind {
            0 => String::new(),
            count => format!("; {} behind", plain::counted(count, "channel", "channels")),
        };
        let found = match self.missing {
            0 => String::new(),
            count => format!(
                "; the last night found {}",
                plain::counted(count, "missing message", "missing messages")
            ),
        };
        format!("complete up to {through}, compared with Slack{behind}{found}")
    }
}

/// Reads how far history is read, for each workspace.
pub(crate) async fn histories(archive: &dyn Archive, now: TimestampMs) -> anyhow::Result<Vec<HistoryLine>> {
    Ok(history::progress(archive).await?.iter().map(|line| HistoryLine::new(line, now)).collect())
}

/// Reads how far the archive is compared, for each workspace that was.
pub(crate) async fn proofs(archive: &dyn Archive) -> anyhow::Result<Vec<ProofLine>> {
    let mut proofs = Vec::new();
    for team in find::teams(archive).await? {
        proofs.extend(proof::of_team(archive, &team).await?.map(ProofLine::new));
    }
    Ok(proofs)
}
