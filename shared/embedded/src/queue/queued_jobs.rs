//! Lists all jobs on the queues with their bodies, and removes some of them permanently, for a person who
//! erases data.

use rusqlite::{Connection, params};

use crate::writer::Transaction;

/// Maximum number of bodies per read. The largest body has a mebibyte.
const PAGE: i64 = 200;

/// A job on a queue, in any state: waiting, received or a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedJob {
    /// Its sequence number.
    pub seq: i64,
    pub body: String,
}

/// Reads a page of the jobs after `after`, in the order in which they were sent.
pub(crate) fn read(connection: &Connection, after: i64) -> rusqlite::Result<Vec<QueuedJob>> {
    let mut jobs =
        connection.prepare_cached("SELECT seq, body FROM jobs WHERE seq > ?1 ORDER BY seq LIMIT ?2")?;
    let jobs =
        jobs.query_map(params![after, PAGE], |row| Ok(QueuedJob { seq: row.get(0)?, body: row.get(1)? }))?;
    jobs.collect()
}

/// Removes jobs, even received ones, whose consumers lose their leases. Returns how many still existed.
/// Processes check their cached messages against the tables before use, so they need no notification.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ports::clock::SystemClock;
    use ports::queue::{DedupId, GroupId, Outgoing, QueueError, QueueName, ReceiveRequest};

    use crate::Database;

    fn job(number: u64) -> Outgoing {
        Outgoing {
            queue: QueueName::Events,
            group: GroupId::from_parts(&["T1", "C1"]),
            dedup: DedupId::from_parts(&[&number.to_be_bytes()]),
            body: number.to_string(),
        }
    }

    fn request() -> ReceiveRequest {
        let (visibility_timeout, wait) = (Duration::from_secs(60), Duration::ZERO);
        ReceiveRequest { queue: QueueName::Events.into(), max: 2, visibility_timeout, wait }
    }

    #[tokio::test]
    async fn jobs_are_removed_in_any_state_and_the_others_stay_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), SystemClock::shared()).unwrap();
        let other = Database::open(folder.path(), SystemClock::shared()).unwrap();
        for sent in database.queue().send((0..300).map(job).collect()).await {
            sent.unwrap();
        }
        let received = other.queue().receive(request()).await.unwrap();
        let (mut jobs, mut after) = (Vec::new(), 0);
        loop {
            let page = database.queued_jobs(after).await.unwrap();
            let Some(last) = page.last() else { break };
            after = last.seq;
            jobs.extend(page);
        }
        assert!(jobs.iter().map(|job| job.body.clone()).eq((0..300_u64).map(|number| number.to_string())));
        let odd: Vec<i64> = jobs
            .iter()
            .filter(|job| job.body.ends_with(['1', '3', '5', '7', '9']))
            .map(|job| job.seq)
            .collect();
        assert_eq!(database.remove_jobs(odd.clone()).await.unwrap(), 150);
        assert_eq!(database.remove_jobs(odd).await.unwrap(), 0);
        let receipts: Vec<_> = received.iter().map(|delivery| delivery.receipt.clone()).collect();
        let acked = other.queue().ack(QueueName::Events.into(), &receipts).await;
        assert_eq!(acked, [Ok(()), Err(QueueError::LeaseLost)]);
        let next = other.queue().receive(request()).await.unwrap();
        assert!(next.iter().map(|delivery| delivery.body.as_str()).eq(["2", "4"]), "{next:?}");
        other.close().await;
        database.close().await;
    }
}
