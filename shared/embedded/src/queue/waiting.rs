//! The bodies of everything on the queues, for a person who removes some of it for good.

use rusqlite::{Connection, params};

use crate::writer::Transaction;

/// Bodies read at once. The largest takes a mebibyte.
const PAGE: i64 = 200;

/// A job on a queue, whether it waits, is received or is a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedJob {
    /// Which one.
    pub seq: i64,
    /// What was sent.
    pub body: String,
}

/// Some of the jobs after this one, in the order in which they were sent.
pub(crate) fn read(connection: &Connection, after: i64) -> rusqlite::Result<Vec<QueuedJob>> {
    let mut jobs =
        connection.prepare_cached("SELECT seq, body FROM jobs WHERE seq > ?1 ORDER BY seq LIMIT ?2")?;
    let jobs =
        jobs.query_map(params![after, PAGE], |row| Ok(QueuedJob { seq: row.get(0)?, body: row.get(1)? }))?;
    jobs.collect()
}

/// Removes jobs, even those that a consumer has received: its lease is lost then. Answers how many were still there. What
/// processes remember of a message is compared with the tables before it is used, so none has to be told.
pub(crate) fn remove(transaction: &Transaction<'_>, jobs: &[i64]) -> rusqlite::Result<u64> {
    let mut removed = 0;
    let mut end_lease = transaction.connection.prepare_cached("DELETE FROM leases WHERE seq = ?1")?;
    let mut remove = transaction.connection.prepare_cached("DELETE FROM jobs WHERE seq = ?1")?;
    for seq in jobs {
        end_lease.execute([seq])?;
        removed += remove.execute([seq])? as u64;
    }
    Ok(removed)
}
