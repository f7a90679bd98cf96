//! The first pass of a follower: all messages, in slices of time.
//!
//! An import stores one channel after another, each with all its years. A follower that stores messages by time,
//! such as the search index, would write to all its pages again for each channel: ten times the messages took
//! seventeen times as long. In slices of some days it only appends.

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::{ChangeCollector, ChangedRows, VISITED};
use ports::archive::rows::FOLLOWED;

/// The number of characters with which the timestamps of a slice begin: 11.6 days of timestamps with ten digits.
/// Each slice costs two seeks for each channel.
const SLICE_CHARS: usize = 4;

/// Greater than every key that begins with the same text.
const END: char = '\u{10FFFF}';

/// The position in the first pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FirstPass {
    /// The greatest rowid when the pass began. Later rows are read as new ones after it.
    until: i64,
    /// The greatest rowid of a message that was read.
    greatest: i64,
    /// The number of messages that were read.
    pub(super) read: i64,
    /// The beginning of the timestamps of the slice; `None` before the first slice.
    slice: Option<String>,
    /// The channel that is read, and its last message that was; `None` before the first one of the slice.
    partition: Option<String>,
    after: Option<String>,
}

impl FirstPass {
    pub(super) fn begin(connection: &Connection) -> rusqlite::Result<Self> {
        let until = connection
            .prepare_cached("SELECT coalesce(max(rowid), 0) FROM items")?
            .query_row([], |row| row.get(0))?;
        Ok(Self { until, greatest: 0, read: 0, slice: None, partition: None, after: None })
    }
}

impl<T: ChangeCollector> ChangedRows<T> {
    /// Reads the next messages of the first pass, if it has not ended. Returns whether these were all.
    pub(super) fn read_first(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let Some(mut pass) = self.position.pass.take() else { return Ok(true) };
        let mut visited = 0;
        let is_all = loop {
            let Some(slice) = &pass.slice else {
                pass.slice = next_slice(connection, "")?;
                if pass.slice.is_none() {
                    break true;
                }
                continue;
            };
            if let Some(partition) = &pass.partition {
                let mut statement = rows_of(connection, pass.after.is_some())?;
                let from = pass.after.as_ref().unwrap_or(slice);
                let mut rows = statement.query(params![partition, from, format!("{slice}{END}")])?;
                let mut is_stopped = false;
                while let Some(row) = rows.next()? {
                    is_stopped = self.is_full() || visited >= VISITED;
                    if is_stopped {
                        break;
                    }
                    visited += 1;
                    pass.after = Some(row.get(1)?);
                    let rowid: i64 = row.get(3)?;
                    if rowid <= pass.until {
                        self.push(row)?;
                        pass.read += 1;
                        pass.greatest = pass.greatest.max(rowid);
                    }
                }
                if is_stopped {
                    break false;
                }
            }
            visited += 1;
            pass.after = None;
            pass.partition = next_partition(connection, pass.partition.as_deref().unwrap_or(FOLLOWED))?;
            if pass.partition.is_none() {
                pass.slice = next_slice(connection, &format!("{slice}{END}"))?;
                if pass.slice.is_none() {
                    break true;
                }
            }
        };
        if is_all {
            self.position.row = pass.greatest;
        } else {
            self.position.pass = Some(pass);
        }
        Ok(is_all)
    }
}

/// The messages of a partition from a timestamp on, or after it.
fn rows_of(connection: &Connection, is_after: bool) -> rusqlite::Result<CachedStatement<'_>> {
    let compared = if is_after { ">" } else { ">=" };
    connection.prepare_cached(&format!(
        "SELECT item_id, timestamp, attributes, rowid FROM items \
         WHERE item_id = ?1 AND timestamp {compared} ?2 AND timestamp < ?3 ORDER BY timestamp"
    ))
}

/// The next partition of messages.
fn next_partition(connection: &Connection, after: &str) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT min(item_id) FROM items WHERE item_id > ?1 AND item_id < ?2")?
        .query_row(params![after, format!("{FOLLOWED}{END}")], |row| row.get(0))
}

/// The slice of the first message from a timestamp on.
fn next_slice(connection: &Connection, from: &str) -> rusqlite::Result<Option<String>> {
    let mut first_of = connection.prepare_cached(
        "SELECT timestamp FROM items WHERE item_id = ?1 AND timestamp >= ?2 ORDER BY timestamp LIMIT 1",
    )?;
    let mut partition = FOLLOWED.to_owned();
    let mut first: Option<String> = None;
    while let Some(next) = next_partition(connection, &partition)? {
        let own: Option<String> = first_of.query_row(params![next, from], |row| row.get(0)).optional()?;
        first = match (first, own) {
            (Some(first), Some(own)) => Some(first.min(own)),
            (first, own) => first.or(own),
        };
        partition = next;
    }
    Ok(first.map(|first| first.chars().take(SLICE_CHARS).collect()))
}
