//! The gaps of a workspace, for readers. This module reads the facts from the archive;
//! [`projection`](rules::gap::projection) combines them.

use ports::archive::{Archive, ArchiveError, ErasureFacts, Query, key, query_all};
use rules::gap::closing::GapState;
pub use rules::gap::closing::UnreadSpan;
use rules::gap::projection::{
    Gap, closed_times, downtime_between, end_gap, migrations, oldest_first, outside, recorded_gaps,
    surely_migrated,
};
use rules::gap::run::RunSpan;
use rules::gap::{GapEnd, GapReason};
use slack::ids::{TeamId, Ts};

use crate::presence::{first_post, forget_refusals_before_joins, presence_signs, runs};
use crate::{find, history};

/// Maximum number of channels that are read to find when events arrived again after a lost token. Each needs
/// a few rows.
const MAX_CHANNELS: usize = 2_000;

/// A gap and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GapProgress {
    pub gap: Gap,
    /// Whether the gap is still open, and whether Slack's history has filled it.
    pub state: GapState,
    /// For a gap of all channels: the number of channels in which messages are still missing.
    pub channels_left: Option<usize>,
}

/// Returns the gaps of a workspace and their states, oldest first.
pub async fn progress(archive: &dyn Archive, team: &TeamId) -> Result<Vec<GapProgress>, ArchiveError> {
    let gaps = read(archive, team).await?;
    let facts = history::facts(archive, team, &gaps).await?;
    let progress = gaps.into_iter().map(|gap| {
        let (state, channels_left) = facts.state(&gap);
        GapProgress { gap, state, channels_left }
    });
    Ok(progress.collect())
}

/// Returns the spans of Slack's history that must be read to fill the gaps of a workspace, at most `limit`.
/// `now` must not be ahead of Slack's clock. Spans that Slack refused to return are left out for a day, or
/// until the app joins the channel.
pub async fn unread_spans(
    archive: &dyn Archive,
    team: &TeamId,
    now: &Ts,
    limit: usize,
) -> Result<Vec<UnreadSpan>, ArchiveError> {
    let gaps = read(archive, team).await?;
    let mut facts = history::facts(archive, team, &gaps).await?;
    forget_refusals_before_joins(archive, team, &mut facts).await?;
    let erasures = ErasureFacts::load(archive, team).await?;
    let mut spans = facts.unread_spans(&gaps, now, limit);
    for span in &mut spans {
        if let Some(until) = erasures.expired_before(team, &span.channel).filter(|until| *until > span.from) {
            span.from = until;
        }
    }
    spans.retain(|span| span.from < span.to && !erasures.channel_is_out(team, &span.channel, now));
    Ok(spans)
}

/// Reads the gaps of a workspace, oldest first.
pub async fn read(archive: &dyn Archive, team: &TeamId) -> Result<Vec<Gap>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::gaps(team))).await?;
    let runs = runs(archive, team).await?;
    let mut gaps = Vec::new();
    let recorded = recorded_gaps(&rows).into_iter().filter(|gap| gap.reason != GapReason::Migration);
    for gap in recorded.chain(migrations(&rows)) {
        let signs = match (gap.reason, &gap.channel) {
            (GapReason::Left, Some(channel)) => {
                presence_signs(archive, team, channel, &runs, &gap.from).await?
            }
            (GapReason::Revoked, _) => {
                let mut signs = back_at_work(archive, team, &runs, &gap.from).await?;
                signs.extend(GapEnd::AccessGranted.times(&rows));
                signs
            }
            (GapReason::Migration, _) if gap.to.is_none() => {
                let from = surely_migrated(&gap.from);
                let mut signs = back_at_work(archive, team, &runs, &from).await?;
                signs.retain(|sign| *sign > from);
                signs
            }
            (
                GapReason::Downtime
                | GapReason::RateLimited
                | GapReason::Left
                | GapReason::Dropped
                | GapReason::Refused
                | GapReason::HistoryChanged
                | GapReason::Migration,
                _,
            ) => Vec::new(),
        };
        let gap = end_gap(gap, signs);
        let closed = match &gap.channel {
            Some(channel) if gap.reason == GapReason::Left => {
                closed_times(&query_all(archive, Query::partition(key::channels(team, channel))).await?)
            }
            Some(_) | None => Vec::new(),
        };
        gaps.extend(outside(gap, &closed));
    }
    gaps.extend(downtime_between(runs));
    Ok(oldest_first(gaps))
}

/// Returns the gaps of every workspace and their states, oldest first.
pub async fn progress_of_all(archive: &dyn Archive) -> Result<Vec<(TeamId, GapProgress)>, ArchiveError> {
    let mut gaps = Vec::new();
    for team in find::teams(archive).await? {
        gaps.extend(progress(archive, &team).await?.into_iter().map(|gap| (team.clone(), gap)));
    }
    gaps.sort_by(|(_, one), (_, other)| one.gap.cmp(&other.gap));
    Ok(gaps)
}

/// Returns times at which events are known to have arrived again: the first message from each channel, and
/// the first event of each run of ingest.
async fn back_at_work(
    archive: &dyn Archive,
    team: &TeamId,
    runs: &[RunSpan],
    from: &Ts,
) -> Result<Vec<Ts>, ArchiveError> {
    let mut signs: Vec<Ts> = runs.iter().map(|run| run.first.clone()).collect();
    for channel in history::channels_with_public_mark(archive, team).await?.iter().take(MAX_CHANNELS) {
        signs.extend(first_post(archive, team, channel, runs, from).await?);
    }
    Ok(signs)
}

pub fn reason_in_words(reason: GapReason) -> &'static str {
    match reason {
        GapReason::Downtime => "downtime: Annalist was stopped, or started again",
        GapReason::RateLimited => "rate_limited: too many events, Slack held them back",
        GapReason::Left => "left: the app was not in the channel",
        GapReason::Revoked => "revoked: the app was uninstalled, or its token revoked",
        GapReason::Dropped => "dropped: an event was removed from quarantine, or only counted there",
        GapReason::Refused => "refused: Slack's requests came at another time by this machine's clock",
        GapReason::HistoryChanged => "history_changed: Slack changed many messages at once",
        GapReason::Migration => "migration: Slack moved the workspace to Enterprise Grid",
    }
}
