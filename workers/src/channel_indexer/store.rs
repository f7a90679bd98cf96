//! Keeps events, folds their channels again, and projects the ChannelIndex.
//!
//! The shards of the index are written only if they are as they were read, so that no entry of another writer is lost.
//! That alone is not enough: a writer that finds the index up to date writes nothing, and one with older
//! rows may write after that. So each writer re-reads the newest rows after its write, to see whether its channels have gone on. An
//! event is kept, and then a greater snapshot is the newest row of its channel, before its writer reads
//! the index: so either that one sees the last write, or the other writer sees the snapshot, and folds the channel again.
//! A crash in between leaves a job that is done again.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::archive::{Archive, ArchiveError, ArchiveExt, Query, Update, WriteOutcome, key, query_all};
use rules::channel::ChannelEvent;
use rules::channel::fold::{Folded, Timeline, Timelines, fold};
use rules::channel::index;
use slack::ids::{ChannelId, TeamId};

/// Channels read side by side: SQLite has four readers, DynamoDB answers in milliseconds.
const READS_AT_ONCE: usize = 16;

/// Ids of one channel that are folded together: what a forged chain of changes may cost.
const MAX_RELATIVES: usize = 64;

/// Each round but the last is a write, or a refusal, which means that another writer's write went through: a few are many.
const MAX_ROUNDS: usize = 16;

/// Keeps events: one result per event, in their order. Done again, it changes nothing but what is missing.
pub async fn store(
    archive: &dyn Archive,
    events: &[ChannelEvent],
    shard_bytes: usize,
) -> Vec<Result<(), ArchiveError>> {
    let inserts: Vec<(usize, Update)> = events
        .iter()
        .enumerate()
        .flat_map(|(place, event)| event.inserts().into_iter().map(move |insert| (place, insert)))
        .collect();
    let updates: Vec<&Update> = inserts.iter().map(|(_, insert)| insert).collect();
    let written = archive.write_all(&updates).await;
    let mut results: Vec<Result<(), ArchiveError>> = vec![Ok(()); events.len()];
    for ((place, _), outcome) in inserts.iter().zip(written) {
        if let Err(error) = outcome {
            results[*place] = Err(error);
        }
    }
    let mut by_team: BTreeMap<&TeamId, Vec<usize>> = BTreeMap::new();
    for (place, event) in events.iter().enumerate().filter(|(place, _)| results[*place].is_ok()) {
        by_team.entry(event.team()).or_default().push(place);
    }
    for (team, places) in by_team {
        let channels = places.iter().flat_map(|place| events[*place].channels().cloned()).collect();
        if let Err(error) = project(archive, team, channels, shard_bytes).await {
            places.into_iter().for_each(|place| results[place] = Err(error.clone()));
        }
    }
    results
}

/// Folds channels from their rows and brings the index up to date.
async fn project(
    archive: &dyn Archive,
    team: &TeamId,
    channels: BTreeSet<ChannelId>,
    shard_bytes: usize,
) -> Result<(), ArchiveError> {
    for _ in 0..MAX_ROUNDS {
        let folded = refold(archive, team, &channels).await?;
        let names = folded
            .iter()
            .filter_map(|(channel, folded)| Some((channel.clone(), folded.index_name.clone()?)))
            .collect();
        let shards = index::shards(&query_all(archive, Query::partition(key::channel_index(team))).await?);
        let updates = index::plan(team, shards, &names, shard_bytes);
        if updates.is_empty() {
            return Ok(());
        }
        match write_index(archive, &updates).await? {
            IndexWrite::Refused => {}
            IndexWrite::Applied if have_gone_on(archive, team, folded).await? => {}
            IndexWrite::Applied | IndexWrite::Erased => return Ok(()),
        }
    }
    Err(ArchiveError::Unavailable("the channel index keeps changing".into()))
}

/// What became of a write to the index.
enum IndexWrite {
    Applied,
    /// Another writer wrote meanwhile.
    Refused,
    /// A shard was erased, and stays so.
    Erased,
}

/// Writes shards, as far as they are still what was read.
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

/// Whether anything came to one of these channels after it was folded. Its newest row tells.
async fn have_gone_on(
    archive: &dyn Archive,
    team: &TeamId,
    folded: BTreeMap<ChannelId, Folded>,
) -> Result<bool, ArchiveError> {
    let looks = stream::iter(folded).map(|(channel, folded)| async move {
        let newest = Query { limit: 1, descending: true, ..Query::partition(key::channels(team, &channel)) };
        let page = archive.query(&newest).await?;
        Ok::<_, ArchiveError>(page.items.iter().any(|row| folded.newest.is_behind(row)))
    });
    let mut looks = looks.buffer_unordered(READS_AT_ONCE);
    while let Some(has_gone_on) = looks.try_next().await? {
        if has_gone_on {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the snapshots that rows lack, and answers how each channel stands then.
async fn refold(
    archive: &dyn Archive,
    team: &TeamId,
    channels: &BTreeSet<ChannelId>,
) -> Result<BTreeMap<ChannelId, Folded>, ArchiveError> {
    let timelines = read(archive, team, channels).await?;
    // What the channels went on as is folded with them: it took over what they were.
    let mut folded = fold(team, &timelines);
    let snapshots: Vec<Update> =
        folded.values_mut().flat_map(|folded| std::mem::take(&mut folded.snapshots)).collect();
    let updates: Vec<&Update> = snapshots.iter().collect();
    for outcome in archive.write_all(&updates).await {
        outcome?;
    }
    Ok(folded)
}

/// The rows of these channels and of every id they had or have.
async fn read(
    archive: &dyn Archive,
    team: &TeamId,
    channels: &BTreeSet<ChannelId>,
) -> Result<Timelines, ArchiveError> {
    let mut timelines = Timelines::new();
    let mut unread: BTreeSet<ChannelId> = channels.clone();
    let most = channels.len() + MAX_RELATIVES;
    while !unread.is_empty() {
        let found: Vec<(ChannelId, Timeline)> = stream::iter(unread)
            .map(|channel| async move {
                let rows = query_all(archive, Query::partition(key::channels(team, &channel))).await?;
                Ok::<_, ArchiveError>((channel, Timeline::read(&rows)))
            })
            .buffer_unordered(READS_AT_ONCE)
            .try_collect()
            .await?;
        let relatives: BTreeSet<ChannelId> =
            found.iter().flat_map(|(_, timeline)| timeline.relatives()).collect();
        timelines.extend(found);
        let room = most.saturating_sub(timelines.len());
        unread =
            relatives.into_iter().filter(|channel| !timelines.contains_key(channel)).take(room).collect();
    }
    Ok(timelines)
}
