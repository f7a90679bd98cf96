//! Stores events, folds their channels again, and projects the ChannelIndex.
//!
//! A shard is written only if it has not changed since it was read, so that no entry of another writer is
//! lost.
//! That alone is not enough: a writer that finds the index up to date writes nothing, and a writer with older
//! rows may write after that. So each writer re-reads the newest rows after its write to see whether its
//! channels have newer rows. A writer stores the event first, then a greater snapshot as the newest row of
//! the channel, and reads the index last. So either this writer sees the last write, or the other writer sees
//! the snapshot and folds the channel again. A crash in between leaves a job that is repeated.
//!
//! A channel is folded from the newest snapshot before the writer's first event, so that an event of a channel with
//! a long past reads a few rows. That snapshot may lack an earlier event whose writer is still at work. So a writer
//! folds again until all snapshots are there: either its last read sees the row of the later event, or the later
//! writer, which read after its own insert, sees the complete snapshot.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::archive::{
    Archive, ArchiveError, ArchiveExt, Query, Update, WriteOutcome, key, newest, query_all,
};
use rules::channel::ChannelEvent;
use rules::channel::fold::{Folded, Timeline, Timelines, fold, is_base};
use rules::channel::index;
use slack::ids::{ChannelId, TeamId};

use crate::admission::marks::note_visibility;

/// Channels read concurrently: SQLite has four readers, DynamoDB answers in milliseconds.
const READS_AT_ONCE: usize = 16;

/// IDs of one channel that are folded together: bounds the cost of a forged chain of ID changes.
const MAX_RELATIVES: usize = 64;

/// Rows read at once on the way back to a snapshot that can be continued: that is nearly always the first.
const ROWS_BEFORE: usize = 4;

/// Every round except the last is a write, or a rejection because another writer wrote first. A few rounds
/// are already a lot.
const MAX_ROUNDS: usize = 16;

/// Stores events; returns one result per event, in their order. Idempotent: a repetition writes only what is
/// missing.
pub async fn store(
    archive: &dyn Archive,
    events: &[ChannelEvent],
    shard_bytes: usize,
) -> Vec<Result<(), ArchiveError>> {
    let evidence: Vec<_> = events.iter().filter_map(ChannelEvent::evidence).collect();
    if let Err(error) = note_visibility(archive, &evidence).await {
        return vec![Err(error); events.len()];
    }
    let inserts: Vec<(usize, Update)> = events
        .iter()
        .enumerate()
        .flat_map(|(index, event)| event.inserts().into_iter().map(move |insert| (index, insert)))
        .collect();
    let updates: Vec<&Update> = inserts.iter().map(|(_, insert)| insert).collect();
    let written = archive.write_all(&updates).await;
    let mut results: Vec<Result<(), ArchiveError>> = vec![Ok(()); events.len()];
    for ((index, _), outcome) in inserts.iter().zip(written) {
        if let Err(error) = outcome {
            results[*index] = Err(error);
        }
    }
    let mut by_team: BTreeMap<&TeamId, Vec<usize>> = BTreeMap::new();
    for (index, event) in events.iter().enumerate().filter(|(index, _)| results[*index].is_ok()) {
        by_team.entry(event.team()).or_default().push(index);
    }
    for (team, indexes) in by_team {
        let mut changed = ChangedChannels::new();
        for event in indexes.iter().map(|index| &events[*index]) {
            event.channels().for_each(|channel| changed_since(&mut changed, channel, event.clock().as_str()));
        }
        if let Err(error) = project(archive, team, &changed, shard_bytes).await {
            indexes.into_iter().for_each(|index| results[index] = Err(error.clone()));
        }
    }
    results
}

/// Channels, each with the sort key of the first of its rows that changed.
type ChangedChannels = BTreeMap<ChannelId, String>;

fn changed_since(changed: &mut ChangedChannels, channel: &ChannelId, first: &str) {
    let known = changed.entry(channel.clone()).or_insert_with(|| first.to_owned());
    if first < known.as_str() {
        first.clone_into(known);
    }
}

/// Folds channels from their rows and updates the index.
async fn project(
    archive: &dyn Archive,
    team: &TeamId,
    changed: &ChangedChannels,
    shard_bytes: usize,
) -> Result<(), ArchiveError> {
    for _ in 0..MAX_ROUNDS {
        let folded = refold(archive, team, changed).await?;
        let names = folded
            .iter()
            .filter_map(|(channel, folded)| Some((channel.clone(), folded.index_name.clone()?)))
            .collect();
        let shards = index::shards(&query_all(archive, Query::partition(key::channel_index(team))).await?);
        let updates = index::plan_names(team, shards, &names, shard_bytes);
        if updates.is_empty() {
            return Ok(());
        }
        match write_index(archive, &updates).await? {
            IndexWrite::Refused => {}
            IndexWrite::Applied if have_newer_rows(archive, team, folded).await? => {}
            IndexWrite::Applied | IndexWrite::Erased => return Ok(()),
        }
    }
    Err(ArchiveError::Unavailable("the channel index keeps changing".into()))
}

/// The result of a write to the index.
enum IndexWrite {
    Applied,
    /// Another writer changed the shard since it was read.
    Refused,
    /// A shard is erased, and stays erased.
    Erased,
}

/// Writes the shards that have not changed since they were read.
async fn write_index(archive: &dyn Archive, updates: &[Update]) -> Result<IndexWrite, ArchiveError> {
    let mut write = IndexWrite::Applied;
    for update in updates {
        match archive.write(update).await? {
            WriteOutcome::Applied => {}
            WriteOutcome::Rejected(shard) if shard.is_erased() => write = IndexWrite::Erased,
            // An entry that moves must be in its new shard before it leaves the old one.
            WriteOutcome::Rejected(_) => return Ok(IndexWrite::Refused),
        }
    }
    Ok(write)
}

/// Whether one of these channels has a newer row than when it was folded.
async fn have_newer_rows(
    archive: &dyn Archive,
    team: &TeamId,
    folded: BTreeMap<ChannelId, Folded>,
) -> Result<bool, ArchiveError> {
    let checks = stream::iter(folded).map(|(channel, folded)| async move {
        let newest = newest(archive, key::channels(team, &channel)).await?;
        Ok::<_, ArchiveError>(newest.is_some_and(|row| folded.newest.is_behind(&row)))
    });
    let mut checks = checks.buffer_unordered(READS_AT_ONCE);
    while let Some(has_newer_row) = checks.try_next().await? {
        if has_newer_row {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the missing snapshots until none is missing, and returns the resulting state of each channel.
async fn refold(
    archive: &dyn Archive,
    team: &TeamId,
    changed: &ChangedChannels,
) -> Result<BTreeMap<ChannelId, Folded>, ArchiveError> {
    for _ in 0..MAX_ROUNDS {
        let timelines = read_timelines(archive, team, changed).await?;
        // Channels that continue these under another ID are folded with them: they took over their state.
        let mut folded = fold(team, &timelines);
        let snapshots: Vec<Update> =
            folded.values_mut().flat_map(|folded| std::mem::take(&mut folded.snapshots)).collect();
        if snapshots.is_empty() {
            return Ok(folded);
        }
        let updates: Vec<&Update> = snapshots.iter().collect();
        for outcome in archive.write_all(&updates).await {
            outcome?;
        }
    }
    Err(ArchiveError::Unavailable("the rows of a channel keep changing".into()))
}

/// Reads the rows of these channels, and of the IDs that they had or have, from the change of the ID on.
async fn read_timelines(
    archive: &dyn Archive,
    team: &TeamId,
    changed: &ChangedChannels,
) -> Result<Timelines, ArchiveError> {
    let mut timelines = Timelines::new();
    let mut read = ChangedChannels::new();
    let mut unread = changed.clone();
    let max_channels = changed.len() + MAX_RELATIVES;
    while !unread.is_empty() {
        read.extend(unread.clone());
        let found: Vec<(ChannelId, Timeline)> = stream::iter(unread)
            .map(|(channel, first)| async move {
                let timeline = read_timeline(archive, team, &channel, &first).await?;
                Ok::<_, ArchiveError>((channel, timeline))
            })
            .buffer_unordered(READS_AT_ONCE)
            .try_collect()
            .await?;
        let mut relatives = ChangedChannels::new();
        for (relative, first) in found.iter().flat_map(|(_, timeline)| timeline.relatives()) {
            changed_since(&mut relatives, &relative, first);
        }
        timelines.extend(found);
        // A relative that was read from a later time on is read again.
        relatives.retain(|relative, first| read.get(relative).is_none_or(|known| *first < *known));
        let mut remaining = max_channels.saturating_sub(timelines.len());
        relatives.retain(|relative, _| {
            let is_new = !timelines.contains_key(relative);
            remaining = remaining.saturating_sub(usize::from(is_new));
            !is_new || remaining > 0
        });
        unread = relatives;
    }
    Ok(timelines)
}

/// Reads the rows of a channel from `first` on, and those before it back to the newest that can be continued.
async fn read_timeline(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    first: &str,
) -> Result<Timeline, ArchiveError> {
    let partition = key::channels(team, channel);
    let until = Some(first.to_owned());
    let mut before =
        Query { until, descending: true, limit: ROWS_BEFORE, ..Query::partition(partition.clone()) };
    let base = loop {
        let page = archive.query(&before).await?;
        if let Some(base) = page.items.into_iter().find(is_base) {
            break Some(base);
        }
        match page.next {
            Some(next) => before.after = Some(next),
            None => break None,
        }
    };
    let after = base.as_ref().map(|row| row.key.clone());
    let rows = query_all(archive, Query { after, ..Query::partition(partition) }).await?;
    Ok(Timeline::read(base.as_ref(), &rows))
}
