//! What was read from Slack's history of a workspace's channels, for readers. This module reads the facts
//! from the archive; [`closing`](rules::gap::closing) determines which gaps they fill.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use ports::archive::{Archive, ArchiveError, ErasureFacts, ItemKey, Query, key, query_all};
use rules::filled::{self, FilledSpan, UnreadableReason};
use rules::gap::closing::HistoryFacts;
use rules::gap::projection::Gap;
use rules::gap::run::RunSpan;
use rules::history::progress::HistoryProgress;
use rules::history::unread::KnownHistory;
use rules::interval::{Cover, Interval};
use rules::public_mark::MarkState;
use rules::{channel, version};
use slack::ids::{ChannelId, TeamId, Ts};

use crate::joined::ChannelOfTeam;
use crate::{find, presence};

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
    let runs = presence::runs(archive, team).await?;
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
    Ok(presence::presence_signs(archive, team, channel, runs, &version::zero()).await?.into_iter().min())
}

/// What is left to read of the time before the events of a workspace's channels.
#[derive(Debug, Default)]
pub struct UnreadHistory {
    /// The channels that are kept.
    pub channels: usize,
    /// Those that Slack has lately refused to show.
    pub refused: usize,
    /// Those with something unread: the time before their events, and what was read of them.
    pub unread: Vec<(ChannelId, Interval, Vec<FilledSpan>)>,
}

/// Reads what is left to read of a workspace, at `now` by Slack's clock.
pub async fn unread(archive: &dyn Archive, team: &TeamId, now: &Ts) -> Result<UnreadHistory, ArchiveError> {
    let filled = filled::spans(&query_all(archive, Query::partition(key::filled(team))).await?);
    let unreadables = query_all(archive, Query::partition(key::unreadable(team))).await?;
    let mut facts = HistoryFacts::new(&filled, &filled::unreadables(&unreadables), []);
    presence::forget_refusals_before_joins(archive, team, &mut facts).await?;
    let mut spans: BTreeMap<ChannelId, Vec<FilledSpan>> = BTreeMap::new();
    for span in filled {
        spans.entry(span.channel.clone()).or_default().push(span);
    }
    let runs = presence::runs(archive, team).await?;
    let erasures = ErasureFacts::load(archive, team).await?;
    let mut found = UnreadHistory::default();
    for channel in channels_with_public_mark(archive, team).await? {
        if erasures.channel_is_out(team, &channel, now) {
            continue;
        }
        found.channels += 1;
        let expired_before = erasures.expired_before(team, &channel).map_or(0, |until| until.micros());
        let spans = spans.remove(&channel).unwrap_or_default();
        let known = KnownHistory {
            created: created(archive, team, &channel).await?,
            joined: first_presence(archive, team, &channel, &runs).await?,
            spans: &spans,
            shown_from: facts.limited_before(&channel).unwrap_or_default().max(expired_before),
        };
        let whole = known.before_events(now);
        let cover = Cover::from_intervals(spans.iter().map(FilledSpan::interval));
        let Some(newest) = cover.uncovered(whole).pop() else { continue };
        if !facts.is_refused_now(&channel, newest.to, now) {
            found.unread.push((channel, whole, spans));
        } else if !continues_under_another_id(archive, team, &channel).await? {
            found.refused += 1;
        }
    }
    Ok(found)
}

/// Returns how far the reading of each workspace's history is, if it has begun.
pub async fn progress(archive: &dyn Archive) -> Result<Vec<HistoryProgress>, ArchiveError> {
    let mut progress = Vec::new();
    for team in find::teams(archive).await? {
        let row = archive.get(&ItemKey::history_progress(&team)).await?;
        progress.extend(row.and_then(|row| HistoryProgress::read(&team, &row)));
    }
    Ok(progress)
}

/// `31 of 40 channels read, since 2026-08-27`; the day is that of UTC.
pub fn progress_line(progress: &HistoryProgress) -> String {
    let HistoryProgress { read, channels, since, .. } = progress;
    let since = since.as_ref().and_then(|since| Timestamp::from_microsecond(since.micros()).ok());
    let since = since.map(|since| format!(", since {}", since.strftime("%Y-%m-%d"))).unwrap_or_default();
    format!("{read} of {channels} channels read{since}")
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
