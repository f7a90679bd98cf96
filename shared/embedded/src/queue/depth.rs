//! Counts the messages of a queue.

use rusqlite::{Connection, OptionalExtension, params};

use super::label;
use ports::clock::TimestampMs;
use ports::lease::{MAX_LEASE, has_ended};
use ports::queue::{Depth, QueueRef};

/// Counts the messages of a queue. Reads only an index with a few bytes per message, never the bodies.
pub(super) fn depth(connection: &Connection, queue: QueueRef, now: TimestampMs) -> rusqlite::Result<Depth> {
    let label = label(queue);
    let total: i64 = connection
        .prepare_cached("SELECT count(*) FROM jobs WHERE queue = ?1")?
        .query_row([&label], |row| row.get(0))?;
    let in_flight: i64 = connection
        .prepare_cached(
            "SELECT count(*) FROM leases WHERE queue = ?1 AND visible_at_ms > ?2 AND visible_at_ms <= ?3",
        )?
        .query_row(params![label, now.0, now.plus(MAX_LEASE).0], |row| row.get(0))?;
    let oldest_ms: Option<i64> = connection
        .prepare_cached("SELECT sent_at_ms FROM jobs WHERE queue = ?1 ORDER BY seq LIMIT 1")?
        .query_row([&label], |row| row.get(0))
        .optional()?;
    let delayed = if queue.dead_letters { 0 } else { count_delayed(connection, queue, &label, now)? };
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(Depth {
        waiting: count(total - in_flight - delayed),
        delayed: count(delayed),
        in_flight: count(in_flight),
        oldest_age_s: Some(oldest_ms.map_or(0, |oldest_ms| now.since(TimestampMs(oldest_ms)).as_secs())),
    })
}

fn count_delayed(
    connection: &Connection,
    queue: QueueRef,
    label: &str,
    now: TimestampMs,
) -> rusqlite::Result<i64> {
    let delay = queue.name.spec().delay;
    if delay.is_zero() {
        return Ok(0);
    }
    // Newest first: the scan ends at the first message that is no longer delayed.
    let mut statement =
        connection.prepare_cached("SELECT sent_at_ms FROM jobs WHERE queue = ?1 ORDER BY seq DESC")?;
    let mut rows = statement.query([label])?;
    let mut delayed = 0;
    while let Some(row) = rows.next()?
        && !has_ended(TimestampMs(row.get(0)?).plus(delay), now)
    {
        delayed += 1;
    }
    Ok(delayed)
}
