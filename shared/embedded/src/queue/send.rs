//! Sends messages.

use super::cache::Memory;
use super::recent::deduplication_key;
use super::{append, label};
use crate::writer::Transaction;
use ports::queue::{Outgoing, QueueName, QueueRef};
use rusqlite::params;

/// The size of the job that [`probe`] writes: larger than nearly all events, and a small part of the disk's
/// throughput if a load balancer asks every second.
const PROBE_BYTES: usize = 16 * 1024;

/// The name of the group of the job that [`probe`] writes.
const PROBE: &str = "probe";

/// Writes a job to the queue of events, and removes it in the same transaction: no worker sees it.
pub(super) fn probe(transaction: &Transaction<'_>, memory: &mut Memory) -> rusqlite::Result<()> {
    let (seq, queue) = (memory.peek_seq()?, label(QueueName::Events.into()));
    let body = " ".repeat(PROBE_BYTES);
    append(transaction.connection, seq, &queue, PROBE.as_bytes(), PROBE, transaction.now.0, &body)?;
    for removal in ["DELETE FROM jobs WHERE seq = ?1", "DELETE FROM sends WHERE seq = ?1"] {
        transaction.connection.prepare_cached(removal)?.execute(params![seq])?;
    }
    Ok(())
}

/// Adds messages in order. Returns the queues of the duplicates, whose ids were known.
pub(super) fn send(
    transaction: &Transaction<'_>,
    memory: &mut Memory,
    messages: &[Outgoing],
) -> rusqlite::Result<Vec<QueueName>> {
    let mut duplicates = Vec::new();
    for message in messages {
        let queue = QueueRef::from(message.queue);
        let key = deduplication_key(&message.dedup);
        if memory.recent(queue).contains(&key, transaction.now) {
            duplicates.push(message.queue);
            continue;
        }
        let seq = memory.next_seq()?;
        let now_ms = transaction.now.0;
        append(
            transaction.connection,
            seq,
            &label(queue),
            &key,
            message.group.as_str(),
            now_ms,
            &message.body,
        )?;
        memory.recent(queue).insert(key, transaction.now, seq);
    }
    memory.prune(transaction)?;
    Ok(duplicates)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};
    use std::path::Path;

    use ports::clock::SystemClock;
    use ports::queue::{DedupId, GroupId, QueueName, ReceiveRequest};

    use super::*;
    use crate::{DATABASE_FILE, Database};

    fn job(number: usize) -> Outgoing {
        Outgoing {
            queue: QueueName::Events,
            group: GroupId::from_parts(&["T1", "C1"]),
            dedup: DedupId::from_parts(&[&number.to_be_bytes()]),
            body: number.to_string().repeat(500),
        }
    }

    async fn send(database: &Database, number: usize) -> bool {
        database.queue().send(vec![job(number)]).await[0].is_ok()
    }

    /// Damages the file of an open database.
    type Damage = fn(&mut File, u64);

    fn damage(folder: &Path, damage: Damage) {
        let mut file = File::options().write(true).open(folder.join(DATABASE_FILE)).unwrap();
        let length = file.metadata().unwrap().len();
        damage(&mut file, length);
    }

    fn overwrite(file: &mut File, from: u64, length: u64) {
        file.seek(SeekFrom::Start(from)).unwrap();
        file.write_all(&vec![0x55; usize::try_from(length - from).unwrap()]).unwrap();
    }

    #[tokio::test]
    async fn a_queue_that_is_ready_accepts_an_event() {
        let damages: [(&str, Damage); 6] = [
            ("no damage", |_, _| {}),
            ("emptied", |file, _| file.set_len(0).unwrap()),
            ("cut in half", |file, length| file.set_len(length / 2).unwrap()),
            ("overwritten", |file, length| overwrite(file, 0, length)),
            ("overwritten after its header", |file, length| overwrite(file, 100, length)),
            ("overwritten after its first page", |file, length| overwrite(file, 4096, length)),
        ];
        let mut refused = 0;
        for (name, how) in damages {
            let folder = tempfile::tempdir().unwrap();
            let first = Database::open(folder.path(), SystemClock::shared()).unwrap();
            for number in 0..100 {
                assert!(send(&first, number).await);
            }
            first.close().await;
            drop(first);
            let database = Database::open(folder.path(), SystemClock::shared()).unwrap();
            database.queue().ready().await.unwrap();
            damage(folder.path(), how);
            for number in 100..103 {
                let is_ready = database.queue().ready().await.is_ok();
                let is_sent = send(&database, number).await;
                assert!(is_sent || !is_ready, "{name} {number}");
                refused += usize::from(!is_sent);
            }
        }
        assert!(refused > 0);
    }

    #[tokio::test]
    async fn a_probe_leaves_no_job_and_takes_no_number() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), SystemClock::shared()).unwrap();
        let queue = database.queue();
        for number in 0..20 {
            queue.ready().await.unwrap();
            assert!(send(&database, number).await);
        }
        queue.ready().await.unwrap();
        let (visibility_timeout, wait) = (std::time::Duration::from_secs(60), std::time::Duration::ZERO);
        let request = ReceiveRequest { queue: QueueName::Events.into(), max: 100, visibility_timeout, wait };
        let received = queue.receive(request).await.unwrap();
        let ids: Vec<_> = received.iter().map(|delivery| delivery.message_id.0.clone()).collect();
        assert_eq!(ids, (1..=20).map(|number| number.to_string()).collect::<Vec<_>>());
        database.close().await;
    }
}
