//! Keeps events, folds their channels again, and projects the ChannelIndex.
//!
//! The shards of the index are read before the channels' rows, and written only if they are unchanged, so that no entry of
//! another writer is lost. That alone would not do: whoever finds that the index says already what it should writes nothing,
//! and one with older rows may write after that. So everybody looks again after a write, until there is nothing to write:
//! an event is kept before its writer looks at the index, hence either its writer sees the last write, or whoever made
//! that sees the event. A crash in between leaves a job that is done again.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use shared::archive::{Archive, ArchiveError, Query, Update, WriteOutcome, key, query_all, settle};
use shared::rules::channel::ChannelEvent;
use shared::rules::channel::fold::{Timeline, Timelines, fold};
use shared::rules::channel::index;
use shared::slack::ids::{ChannelId, TeamId};

/// Channels read side by side: SQLite has four readers, DynamoDB answers in milliseconds.
const READS_AT_ONCE: usize = 16;

/// Ids of one channel that are folded together: what a forged chain of changes may cost.
const MAX_RELATIVES: usize = 64;

/// Each round but the last is a write, or a refusal, which means that somebody else's write went through: a few are many.
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
        let shards = index::shards(&query_all(archive, Query::partition(key::channel_index(team))).await?);
        let names = refold(archive, team, &channels).await?;
        let updates = index::plan(team, shards, &names, shard_bytes);
        if updates.is_empty() {
            return Ok(());
        }
        if !write_index(archive, &updates).await? {
            return Ok(());
        }
    }
    Err(ArchiveError::Unavailable("the channel index keeps changing".into()))
}

/// Writes shards, as far as they are still what was read. Whether it is worth looking again: what was erased stays so.
async fn write_index(archive: &dyn Archive, updates: &[Update]) -> Result<bool, ArchiveError> {
    let mut erased = false;
    for update in updates {
        match archive.write(update).await? {
            WriteOutcome::Applied => {}
            WriteOutcome::Rejected(shard) if shard.is_erased() => erased = true,
            // An entry that moves must be in its new shard before it leaves the old one.
            WriteOutcome::Rejected(_) => return Ok(true),
        }
    }
    Ok(!erased)
}

/// Writes the snapshots that rows lack, and answers what the index should call each channel.
async fn refold(
    archive: &dyn Archive,
    team: &TeamId,
    channels: &BTreeSet<ChannelId>,
) -> Result<BTreeMap<ChannelId, String>, ArchiveError> {
    let timelines = read(archive, team, channels).await?;
    let mut snapshots = Vec::new();
    let mut names = BTreeMap::new();
    // What the channels went on as is folded with them: it took over what they were.
    for (channel, folded) in fold(team, &timelines) {
        snapshots.extend(folded.snapshots);
        names.extend(folded.index_name.map(|name| (channel, name)));
    }
    let updates: Vec<&Update> = snapshots.iter().collect();
    for (update, outcome) in updates.iter().zip(archive.write_all(&updates).await) {
        settle(archive, update, &outcome?).await?;
    }
    Ok(names)
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
