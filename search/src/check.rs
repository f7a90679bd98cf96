//! Compares the index with the archive in the background. SQLite does not notice all damage, and a damaged index
//! only finds fewer messages.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ports::archive::{Archive, Item, ItemKey, Query};
use ports::changes::Changes;
use reader::channels::{ChannelList, ChannelOrder};
use reader::figures::rollups::Rollups;
use reader::find;
use reader::joined::ChannelOfTeam;
use rules::figures::rollup::RollupDay;
use rules::project;
use rusqlite::{Connection, InterruptHandle};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::entries;
use crate::follower::{self, FollowError};
use crate::index::{BATCH_SIZE, SearchIndex};
use crate::write::{known_place_id, place_query};

/// The delay of the first check after a start, and the interval between two. A check reads the index once.
const FIRST_DELAY: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_secs(24 * 3_600);

/// The rest between two channels: other work has priority.
const REST: Duration = Duration::from_millis(20);

/// A difference between the index and the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexDamage {
    /// SQLite's own check found this.
    File(String),
    /// The index has fewer messages of a channel's day than the archive.
    Missing { location: ChannelOfTeam, day: RollupDay },
}

impl std::fmt::Display for IndexDamage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(problem) => f.write_str(problem),
            Self::Missing { location, day } => {
                write!(
                    f,
                    "messages of {} in {} on {} are missing",
                    location.channel,
                    location.team,
                    day.text()
                )
            }
        }
    }
}

/// Checks the index until `stop` is set, and removes a damaged one: its follower makes it anew.
pub(crate) async fn check_daily(
    path: &Path,
    changes: &dyn Changes,
    archive: &dyn Archive,
    mut stop: watch::Receiver<bool>,
) {
    let mut delay = FIRST_DELAY;
    loop {
        let check = async {
            sleep(delay).await;
            check_once(path, changes, archive).await
        };
        tokio::select! {
            checked = check => if let Err(error) = checked {
                tracing::warn!(%error, "the search index cannot be compared with the archive");
            },
            // An error means that the sender was dropped because the process ends.
            _ = stop.wait_for(|stopped| *stopped) => return,
        }
        delay = INTERVAL;
    }
}

/// Checks the index, and removes a damaged one. Returns what it found.
pub async fn check_once(
    path: &Path,
    changes: &dyn Changes,
    archive: &dyn Archive,
) -> Result<Option<IndexDamage>, FollowError> {
    let index = SearchIndex::open(path).await?;
    let damage = find_damage(&index, changes, archive).await?;
    if let Some(damage) = &damage {
        tracing::warn!(index = %path.display(), %damage, "the search index is damaged and is made anew");
        index.discard()?;
    }
    Ok(damage)
}

/// Compares the index with the roll-ups of all closed days.
async fn find_damage(
    index: &SearchIndex,
    changes: &dyn Changes,
    archive: &dyn Archive,
) -> Result<Option<IndexDamage>, FollowError> {
    let stop_on_drop = StopOnDrop::default();
    let stopped = Arc::clone(&stop_on_drop.0);
    if let Some(problem) = index.read(move |connection| check_file(connection, &stopped)).await? {
        return Ok(Some(IndexDamage::File(problem)));
    }
    // An index that is behind lacks messages. An archive on AWS does not know whether it is.
    if changes.backlog_estimate(index.cursor().await?.as_ref()).await? != Some(0) {
        return Ok(None);
    }
    let teams = find::teams(archive).await?;
    for team in &teams {
        let Some(rollups) = Rollups::read(archive, changes, team).await? else { continue };
        let list = ChannelList::read(archive, std::slice::from_ref(team), ChannelOrder::Id).await?;
        for listed in list.channels() {
            let location = &listed.location;
            let counted = rollups.message_counts(archive, location).await?;
            if counted.is_empty() {
                continue;
            }
            let indexed = counts_by_day(index, location).await?;
            let is_short = |(day, messages): &(&RollupDay, &u64)| {
                indexed.get(*day).copied().unwrap_or_default() < **messages
            };
            // The first of them suffices: if it is not missing after all, the others have changed as well.
            if let Some((day, _)) = counted.iter().find(is_short)
                && is_missing(index, changes, archive, location, *day).await?
            {
                return Ok(Some(IndexDamage::Missing { location: location.clone(), day: *day }));
            }
            sleep(REST).await;
        }
    }
    Ok(None)
}

/// Whether the index lacks messages of a day. Messages may be written, edited and erased meanwhile.
async fn is_missing(
    index: &SearchIndex,
    changes: &dyn Changes,
    archive: &dyn Archive,
    location: &ChannelOfTeam,
    day: RollupDay,
) -> Result<bool, FollowError> {
    let before = stored(archive, location, day).await?;
    if !follower::catch_up(index, changes, archive, BATCH_SIZE, |_| true).await? {
        return Ok(false);
    }
    let indexed = counts_by_day(index, location).await?.get(&day).copied().unwrap_or_default();
    let after = stored(archive, location, day).await?;
    Ok(indexed < before.min(after))
}

/// Counts the messages of a day in the archive.
async fn stored(archive: &dyn Archive, location: &ChannelOfTeam, day: RollupDay) -> Result<u64, FollowError> {
    let partition = location.messages();
    let until = day.next().map(RollupDay::bound);
    let after = Some(ItemKey::new(partition.clone(), day.bound()));
    let mut query = Query { after, until, ..Query::partition(partition) };
    let mut count = 0;
    loop {
        let page = archive.query(&query).await?;
        let is_message = |item: &&Item| !item.is_erased() && project::message(item).is_some();
        count += page.items.iter().filter(is_message).count() as u64;
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(count),
        }
    }
}

/// Counts the messages of a channel that the index finds, by day.
async fn counts_by_day(
    index: &SearchIndex,
    location: &ChannelOfTeam,
) -> Result<BTreeMap<RollupDay, u64>, FollowError> {
    let key = [location.team.to_string(), location.channel.to_string()];
    let counted = index.read(move |connection| {
        let Some(place) = known_place_id(connection, key.each_ref().map(String::as_str))? else {
            return Ok(BTreeMap::new());
        };
        let mut statement = connection.prepare_cached(
            "SELECT messages.ts / 86400000000, count(*) FROM words CROSS JOIN messages ON messages.id = words.rowid \
             WHERE words MATCH ?1 AND messages.counted = 1 GROUP BY 1",
        )?;
        let rows = statement.query_map([place_query(place)], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
        })?;
        let mut counts = BTreeMap::new();
        for row in rows {
            let (day, count) = row?;
            counts.extend(RollupDay::new(day).map(|day| (day, count)));
        }
        Ok(counts)
    });
    Ok(counted.await?)
}

/// Ends a check of the file if its future is dropped, so that the process can end.
#[derive(Default)]
struct StopOnDrop(Arc<CheckInterrupt>);

#[derive(Default)]
struct CheckInterrupt {
    is_set: AtomicBool,
    running: Mutex<Option<InterruptHandle>>,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.is_set.store(true, Ordering::Relaxed);
        let running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.interrupt();
        }
    }
}

/// Returns the first problem in the file: what SQLite finds, or a difference between the word lists and the
/// messages.
fn check_file(connection: &Connection, stopped: &CheckInterrupt) -> rusqlite::Result<Option<String>> {
    *stopped.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection.get_interrupt_handle());
    if stopped.is_set.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let result: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if result != "ok" {
        return Ok(Some(result));
    }
    let is_complete = entries::are_complete(connection, &stopped.is_set)?;
    Ok((!is_complete).then(|| "its word lists are not those of its messages".to_owned()))
}
