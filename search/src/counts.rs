//! The numbers of messages per channel and of replies per message. The archive does not store them, and
//! counting them there would read all rows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use reader::joined::ChannelOfTeam;
use rusqlite::{Connection, OptionalExtension};
use slack::ids::{ChannelId, TeamId, Ts};

use crate::index::SearchIndex;
use crate::schema::IndexError;
use crate::write::{IDS_PER_SECOND, end_id, first_id, known_place_id, place_query, ts_text};

/// Maximum number of replies that are read for a page of threads: a fraction of a second.
const MAX_SCANNED: usize = 20_000;

/// Later than all messages, and small enough that ids are numbers of 64 bits.
const MAX_MICROS: i64 = 1 << 52;

/// The replies to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSize {
    /// The number of replies, including those that were also sent to the channel.
    pub replies: u64,
    /// The newest reply.
    pub last: Ts,
}

/// Threads of a channel, the one with the newest reply first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecentThreads {
    /// The roots, with their replies.
    pub threads: Vec<(Ts, ThreadSize)>,
    /// The next page has the threads whose newest reply is before this time; `None` if there are no more.
    pub next: Option<Ts>,
}

/// The messages at a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelActivity {
    pub messages: u64,
    /// The oldest of them.
    pub oldest: Option<Ts>,
    /// The newest of them.
    pub newest: Option<Ts>,
}

impl SearchIndex {
    /// Returns the number of messages at each location, and the newest of them.
    pub async fn activity(&self) -> Result<BTreeMap<ChannelOfTeam, ChannelActivity>, IndexError> {
        self.read(activity).await
    }

    /// Returns the replies to each of these messages of a channel with these locations. Messages without
    /// replies are missing.
    pub async fn thread_sizes(
        &self,
        locations: &[ChannelOfTeam],
        roots: &[Ts],
    ) -> Result<BTreeMap<Ts, ThreadSize>, IndexError> {
        let (locations, roots) = (locations.to_vec(), roots.to_vec());
        self.read(move |connection| thread_sizes(connection, &locations, &roots)).await
    }

    /// Returns the threads of a channel with these locations whose newest reply is before a time, at most `limit`.
    pub async fn recent_threads(
        &self,
        locations: &[ChannelOfTeam],
        before: Option<&Ts>,
        limit: usize,
    ) -> Result<RecentThreads, IndexError> {
        let (locations, before) = (locations.to_vec(), before.map_or(MAX_MICROS, Ts::micros));
        self.read(move |connection| recent_threads(connection, &locations, before.min(MAX_MICROS), limit))
            .await
    }

    /// Returns for each time between two neighbouring bounds whether a channel with these locations has messages then that
    /// are no replies.
    pub async fn are_used(
        &self,
        locations: &[ChannelOfTeam],
        bounds: &[Ts],
    ) -> Result<Vec<bool>, IndexError> {
        let (locations, bounds) = (locations.to_vec(), bounds.iter().map(Ts::micros).collect::<Vec<_>>());
        self.read(move |connection| are_used(connection, &locations, &bounds)).await
    }

    /// Returns the number of messages at each location.
    pub async fn message_counts(&self) -> Result<BTreeMap<ChannelOfTeam, u64>, IndexError> {
        self.read(message_counts).await
    }
}

fn place_ids(connection: &Connection, locations: &[ChannelOfTeam]) -> rusqlite::Result<Vec<i64>> {
    let mut ids = Vec::new();
    for ChannelOfTeam { team, channel } in locations {
        ids.extend(known_place_id(connection, [team.as_str(), channel.as_str()])?);
    }
    Ok(ids)
}

/// Reads the replies of the channel from the newest on: the first one of each thread is its newest.
fn recent_threads(
    connection: &Connection,
    locations: &[ChannelOfTeam],
    before: i64,
    limit: usize,
) -> rusqlite::Result<RecentThreads> {
    let places = place_ids(connection, locations)?;
    if places.is_empty() || limit == 0 {
        return Ok(RecentThreads::default());
    }
    let query = places.into_iter().map(place_query).collect::<Vec<_>>().join(" OR ");
    let mut statement = connection.prepare_cached(
        "SELECT messages.id, messages.thread FROM words CROSS JOIN messages ON messages.id = words.rowid \
         WHERE words MATCH ?1 AND words.rowid < ?2 AND messages.ts < ?3 AND messages.thread <> messages.ts \
         ORDER BY words.rowid DESC",
    )?;
    let mut rows = statement.query(rusqlite::params![query, end_id(connection, before)?, before])?;
    let mut seen = BTreeSet::new();
    let mut threads: Vec<(Ts, ThreadSize)> = Vec::new();
    let (mut scanned, mut next) = (0, None);
    while let Some(row) = rows.next()? {
        let (id, root): (i64, i64) = (row.get(0)?, row.get(1)?);
        // A reply has at least the first id of its second.
        if threads.len() > limit && id < first_id(threads[limit - 1].1.last.micros()) {
            break;
        }
        if scanned == MAX_SCANNED {
            // Replies from this time on were all read.
            let read_from = (id.div_euclid(IDS_PER_SECOND) + 1).saturating_mul(1_000_000);
            threads.retain(|(_, size)| size.last.micros() >= read_from);
            next = Ts::parse(&ts_text(read_from)).ok();
            break;
        }
        scanned += 1;
        let Ok(root) = Ts::parse(&ts_text(root)) else { continue };
        if !seen.insert(root.clone()) {
            continue;
        }
        let mut sizes = thread_sizes(connection, locations, std::slice::from_ref(&root))?;
        // An earlier page has a thread with a later reply.
        if let Some(size) = sizes.remove(&root).filter(|size| size.last.micros() < before) {
            threads.push((root, size));
            threads.sort_by_key(|(_, size)| Reverse(size.last.micros()));
        }
    }
    if threads.len() > limit {
        next = Some(threads[limit - 1].1.last.clone());
        threads.truncate(limit);
    }
    Ok(RecentThreads { threads, next })
}

fn are_used(
    connection: &Connection,
    locations: &[ChannelOfTeam],
    bounds: &[i64],
) -> rusqlite::Result<Vec<bool>> {
    let places = place_ids(connection, locations)?;
    if places.is_empty() {
        return Ok(vec![false; bounds.len().saturating_sub(1)]);
    }
    let query = places.into_iter().map(place_query).collect::<Vec<_>>().join(" OR ");
    let mut statement = connection.prepare_cached(
        "SELECT 1 FROM words CROSS JOIN messages ON messages.id = words.rowid \
         WHERE words MATCH ?1 AND words.rowid >= ?2 AND words.rowid < ?3 AND messages.ts >= ?4 AND messages.ts < ?5 \
         AND messages.counted = 1 AND (messages.thread IS NULL OR messages.thread = messages.ts) LIMIT 1",
    )?;
    let mut is_used = |from: i64, to: i64| {
        let end = end_id(connection, to)?;
        statement.exists(rusqlite::params![query, first_id(from), end, from, to])
    };
    bounds.windows(2).map(|day| is_used(day[0], day[1])).collect()
}

fn thread_sizes(
    connection: &Connection,
    locations: &[ChannelOfTeam],
    roots: &[Ts],
) -> rusqlite::Result<BTreeMap<Ts, ThreadSize>> {
    let ids = place_ids(connection, locations)?;
    let mut sizes = BTreeMap::new();
    if ids.is_empty() {
        return Ok(sizes);
    }
    let parameters: Vec<String> = (0..ids.len()).map(|index| format!("?{}", index + 2)).collect();
    // A channel that several workspaces share has each message once per workspace.
    let mut statement = connection.prepare_cached(&format!(
        "SELECT count(DISTINCT ts), max(ts) FROM messages WHERE place IN ({}) AND thread = ?1 AND ts <> ?1",
        parameters.join(", ")
    ))?;
    for root in roots {
        let values = std::iter::once(root.micros()).chain(ids.iter().copied());
        let (replies, last): (i64, Option<i64>) =
            statement.query_row(rusqlite::params_from_iter(values), |row| Ok((row.get(0)?, row.get(1)?)))?;
        if let Some(last) = last.and_then(|last| Ts::parse(&ts_text(last)).ok()) {
            sizes.insert(root.clone(), ThreadSize { replies: replies.cast_unsigned(), last });
        }
    }
    Ok(sizes)
}

fn message_counts(connection: &Connection) -> rusqlite::Result<BTreeMap<ChannelOfTeam, u64>> {
    let mut statement =
        connection.prepare_cached("SELECT team, channel, messages FROM places WHERE messages > 0")?;
    let rows = statement.query_map([], |row| {
        let (team, channel): (String, String) = (row.get(0)?, row.get(1)?);
        Ok((team, channel, row.get::<_, i64>(2)?.cast_unsigned()))
    })?;
    let mut counts = BTreeMap::new();
    for row in rows {
        let (team, channel, messages) = row?;
        if let (Ok(team), Ok(channel)) = (TeamId::parse(&team), ChannelId::parse(&channel)) {
            counts.insert(ChannelOfTeam { team, channel }, messages);
        }
    }
    Ok(counts)
}

fn activity(connection: &Connection) -> rusqlite::Result<BTreeMap<ChannelOfTeam, ChannelActivity>> {
    // The ids of messages are in the order of their seconds.
    let first = |order: &str| {
        connection.prepare_cached(&format!(
            "SELECT messages.ts FROM words CROSS JOIN messages ON messages.id = words.rowid \
             WHERE words MATCH ?1 AND messages.counted = 1 ORDER BY words.rowid {order} LIMIT 1"
        ))
    };
    let (mut oldest, mut newest) = (first("ASC")?, first("DESC")?);
    let mut activity = BTreeMap::new();
    for (location, messages) in message_counts(connection)? {
        let place = known_place_id(connection, [location.team.as_str(), location.channel.as_str()])?;
        let [oldest, newest] = [&mut oldest, &mut newest].map(|found| match place {
            Some(place) => found.query_row([place_query(place)], |row| row.get::<_, i64>(0)).optional(),
            None => Ok(None),
        });
        let ts = |ts: Option<i64>| ts.and_then(|ts| Ts::parse(&ts_text(ts)).ok());
        activity.insert(location, ChannelActivity { messages, oldest: ts(oldest?), newest: ts(newest?) });
    }
    Ok(activity)
}
