//! What was read of the history of a workspace's channels, for readers: facts gathered from the archive, of which
//! [`closing`](rules::gap::closing) says which gaps they fill.

use std::collections::BTreeSet;

use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use rules::filled::{self, UnreadableReason};
use rules::gap::closing::HistoryFacts;
use rules::gap::projection::Gap;
use rules::public_mark::MarkState;
use rules::{channel, version};
use slack::ids::{ChannelId, TeamId, Ts};

use crate::gaps;
use crate::joined::ChannelOfTeam;

/// Channels of which it is asked whether a gap is about them: a row or few of each.
const MAX_CHANNELS: usize = 2_000;

/// The oldest rows of a channel: one of them says when it was created, if any does.
const FIRST_ROWS: usize = 8;

/// What is known of the history of a workspace's channels, as far as these gaps need it.
pub async fn facts(archive: &dyn Archive, team: &TeamId, gaps: &[Gap]) -> Result<HistoryFacts, ArchiveError> {
    if gaps.is_empty() {
        return Ok(HistoryFacts::default());
    }
    let spans = query_all(archive, Query::partition(key::filled(team))).await?;
    let unreadables = query_all(archive, Query::partition(key::unreadable(team))).await?;
    let kept = marked(archive, team).await?;
    let mut facts = HistoryFacts::new(&filled::spans(&spans), &filled::unreadables(&unreadables), kept);
    let of_all = gaps.iter().filter(|gap| gap.channel.is_none() && gap.to.is_some());
    let lacking: BTreeSet<ChannelId> = of_all.flat_map(|gap| facts.lacking(gap)).cloned().collect();
    for channel in lacking.iter().take(MAX_CHANNELS) {
        if let Some(created) = created(archive, team, channel).await? {
            facts.created(channel, created);
        }
        if misses_nothing(archive, team, channel, &facts).await? {
            facts.leave_out(channel);
        }
    }
    Ok(facts)
}

/// The channels that are kept: those that are public, or were.
pub async fn marked(archive: &dyn Archive, team: &TeamId) -> Result<Vec<ChannelId>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::public_marks(team))).await?;
    let marked = rows.iter().filter(|row| MarkState::of(Some(row)) == MarkState::Public);
    Ok(marked.filter_map(|row| ChannelId::parse(&row.key.timestamp).ok()).collect())
}

/// When a channel was created, if Slack told.
pub async fn created(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
) -> Result<Option<Ts>, ArchiveError> {
    let first = Query { limit: FIRST_ROWS, ..Query::partition(key::channels(team, channel)) };
    Ok(archive.query(&first).await?.items.iter().filter_map(channel::created).min())
}

/// When the app is first known to have been in a channel: it was told to have joined, or a message came as it was posted.
pub async fn first_there(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
) -> Result<Option<Ts>, ArchiveError> {
    Ok(gaps::back_in(archive, team, channel, &version::zero()).await?.into_iter().min())
}

/// Whether no event of a channel can have been missed, although nothing was read of it: the app was never in it, or the
/// channel goes on under another id, which is read in its place.
async fn misses_nothing(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    facts: &HistoryFacts,
) -> Result<bool, ArchiveError> {
    if facts.is_refused(channel, UnreadableReason::NotInChannel) {
        return Ok(first_there(archive, team, channel).await?.is_none());
    }
    if facts.is_refused(channel, UnreadableReason::NotFound) {
        return goes_on_elsewhere(archive, team, channel).await;
    }
    Ok(false)
}

/// Whether a channel goes on under another id, under which Slack has all of it.
pub async fn goes_on_elsewhere(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
) -> Result<bool, ArchiveError> {
    let place = ChannelOfTeam { team: team.clone(), channel: channel.clone() };
    let newest = place.newest(archive).await?;
    Ok(newest.is_some_and(|newest| newest["next_channel_id"].is_string()))
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
