//! What was read from Slack's history of a workspace's channels, for readers. This module reads the facts
//! from the archive; [`closing`](rules::gap::closing) determines which gaps they fill.

use std::collections::BTreeSet;

use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use rules::filled::{self, UnreadableReason};
use rules::gap::closing::HistoryFacts;
use rules::gap::projection::Gap;
use rules::gap::run::RunSpan;
use rules::public_mark::MarkState;
use rules::{channel, version};
use slack::ids::{ChannelId, TeamId, Ts};

use crate::gaps;
use crate::joined::ChannelOfTeam;

/// Maximum number of channels that are checked for whether a gap affects them. Each check reads a few rows.
const MAX_CHANNELS: usize = 2_000;

/// Number of oldest rows of a channel that are read to find its creation time.
const FIRST_ROWS: usize = 8;

/// Reads the facts about the history of a workspace's channels that these gaps need.
pub async fn facts(archive: &dyn Archive, team: &TeamId, gaps: &[Gap]) -> Result<HistoryFacts, ArchiveError> {
    if gaps.is_empty() {
        return Ok(HistoryFacts::default());
    }
    let spans = query_all(archive, Query::partition(key::filled(team))).await?;
    let unreadables = query_all(archive, Query::partition(key::unreadable(team))).await?;
    let kept = channels_with_public_mark(archive, team).await?;
    let mut facts = HistoryFacts::new(&filled::spans(&spans), &filled::unreadables(&unreadables), kept);
    let for_all_channels = gaps.iter().filter(|gap| gap.channel.is_none() && gap.to.is_some());
    let runs = gaps::runs(archive, team).await?;
    let lacking: BTreeSet<ChannelId> =
        for_all_channels.flat_map(|gap| facts.lacking_channels(gap)).cloned().collect();
    for channel in lacking.iter().take(MAX_CHANNELS) {
        if let Some(created) = created(archive, team, channel).await? {
            facts.set_created(channel, created);
        }
        if misses_nothing(archive, team, channel, &runs, &facts).await? {
            facts.exclude_channel(channel);
        }
    }
    Ok(facts)
}

/// Returns the channels with a public mark.
pub async fn channels_with_public_mark(
    archive: &dyn Archive,
    team: &TeamId,
) -> Result<Vec<ChannelId>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::public_marks(team))).await?;
    let marked = rows.iter().filter(|row| MarkState::from_row(Some(row)) == MarkState::Public);
    Ok(marked.filter_map(|row| ChannelId::parse(&row.key.timestamp).ok()).collect())
}

/// Returns the creation time of a channel, if an event contained it.
pub async fn created(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
) -> Result<Option<Ts>, ArchiveError> {
    let first = Query { limit: FIRST_ROWS, ..Query::partition(key::channels(team, channel)) };
    Ok(archive.query(&first).await?.items.iter().filter_map(channel::created).min())
}

/// Returns the earliest time at which the app is known to have been in a channel: it received its own join
/// event, or a message was delivered when it was posted. `runs` are those of the workspace.
pub async fn first_presence(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    runs: &[RunSpan],
) -> Result<Option<Ts>, ArchiveError> {
    Ok(gaps::presence_signs(archive, team, channel, runs, &version::zero()).await?.into_iter().min())
}

/// Whether no event of a channel can be missing although its history was not read: the app was never in the
/// channel, or the channel continues under another id, whose history is read instead.
async fn misses_nothing(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    runs: &[RunSpan],
    facts: &HistoryFacts,
) -> Result<bool, ArchiveError> {
    if facts.is_refused(channel, UnreadableReason::NotInChannel) {
        return Ok(first_presence(archive, team, channel, runs).await?.is_none());
    }
    if facts.is_refused(channel, UnreadableReason::NotFound) {
        return continues_under_another_id(archive, team, channel).await;
    }
    Ok(false)
}

/// Whether a channel continues under another id, under which Slack keeps its whole history.
pub async fn continues_under_another_id(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
) -> Result<bool, ArchiveError> {
    let location = ChannelOfTeam { team: team.clone(), channel: channel.clone() };
    let newest = location.newest(archive).await?;
    Ok(newest.is_some_and(|newest| newest.next_id().is_some()))
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
