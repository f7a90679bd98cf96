//! The process's cache of the queue's tables, and its invalidation.

use std::collections::HashMap;

use rusqlite::params;

use super::groups::Groups;
use super::label;
use super::recent::{KEY_BYTES, RecentIds};
use crate::connection::JOB_NUMBERS;
use crate::writer::Transaction;
use ports::clock::TimestampMs;
use ports::queue::{DEDUPLICATION_WINDOW, GroupId, QueueRef, Receipt};

/// Number of expired sends that each transaction deletes: more than it adds on average, and few enough to be
/// fast.
const PRUNED_PER_TRANSACTION: i64 = 2_000;

/// The cache of the tables: updated with every transaction, rebuilt after a rollback.
#[derive(Default)]
pub(super) struct Memory {
    rollbacks: Option<u64>,
    foreign_commits: u64,
    last_seq: i64,
    recent: HashMap<QueueRef, RecentIds>,
    groups: HashMap<QueueRef, Groups>,
    /// The groups of the messages that this process has received.
    leased: HashMap<i64, GroupId>,
    abandoned: Vec<(QueueRef, Receipt)>,
    pruned_to: i64,
    expired_to: i64,
}

impl Memory {
    /// Updates the cache to the transaction. After a rollback everything is read again; after a commit of
    /// another process, its sends are added, and groups that it may have released become ready.
    pub(super) fn catch_up(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        if self.rollbacks != Some(transaction.rollbacks) {
            let abandoned = std::mem::take(&mut self.abandoned);
            *self = Self { abandoned, ..Self::default() };
            self.pruned_to =
                transaction
                    .connection
                    .query_row("SELECT coalesce(min(seq), 0) FROM sends", [], |row| row.get(0))?;
            self.read_sends(transaction)?;
            // A person may have changed the tables: no job may come before one that is there.
            let last_job: i64 =
                transaction
                    .connection
                    .query_row("SELECT coalesce(max(seq), 0) FROM jobs", [], |row| row.get(0))?;
            self.last_seq = self.last_seq.max(last_job);
            self.rollbacks = Some(transaction.rollbacks);
            self.foreign_commits = transaction.foreign_commits;
        } else if self.foreign_commits != transaction.foreign_commits {
            self.read_sends(transaction)?;
            self.groups.values_mut().for_each(Groups::wake_foreign);
            self.foreign_commits = transaction.foreign_commits;
        }
        Ok(())
    }

    fn read_sends(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let queues: HashMap<String, QueueRef> = QueueRef::all().map(|queue| (label(queue), queue)).collect();
        let since =
            transaction.now.0.saturating_sub(i64::try_from(DEDUPLICATION_WINDOW.as_millis()).unwrap_or(0));
        let mut statement = transaction
            .connection
            .prepare_cached("SELECT seq, queue, dedup, sent_at_ms FROM sends WHERE seq > ?1 ORDER BY seq")?;
        let mut rows = statement.query(params![self.last_seq])?;
        while let Some(row) = rows.next()? {
            self.last_seq = row.get(0)?;
            let sent_at_ms: i64 = row.get(3)?;
            let queue = queues.get(row.get_ref(1)?.as_str()?);
            if let (Some(queue), true) = (queue, sent_at_ms > since) {
                let mut key = [0; KEY_BYTES];
                key.copy_from_slice(row.get_ref(2)?.as_blob()?.get(..KEY_BYTES).unwrap_or(&[0; KEY_BYTES]));
                self.recent.entry(*queue).or_default().insert(key, TimestampMs(sent_at_ms), self.last_seq);
            }
        }
        Ok(())
    }

    /// Returns the sequence number of the next message. Numbers only grow, because the last send is never
    /// deleted.
    ///
    /// # Errors
    /// If the numbers are used up: no worker would see the message.
    pub(super) fn next_seq(&mut self) -> rusqlite::Result<i64> {
        self.last_seq = self.peek_seq()?;
        Ok(self.last_seq)
    }

    /// The number that [`Self::next_seq`] would return.
    pub(super) fn peek_seq(&self) -> rusqlite::Result<i64> {
        let next = self.last_seq.saturating_add(1);
        if JOB_NUMBERS.contains(&next) {
            Ok(next)
        } else {
            Err(rusqlite::Error::IntegralValueOutOfRange(0, next))
        }
    }

    /// The ids recently sent to a queue.
    pub(super) fn recent(&mut self, queue: QueueRef) -> &mut RecentIds {
        self.recent.entry(queue).or_default()
    }

    /// Deletes some of the sends outside the deduplication window.
    pub(super) fn prune(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        for recent in self.recent.values_mut() {
            if let Some(last) = recent.expire(transaction.now) {
                self.expired_to = self.expired_to.max(last);
            }
        }
        // The last send stays, and so do younger sends of other queues, because they come later in the table.
        let end = self.expired_to.min(self.pruned_to + PRUNED_PER_TRANSACTION).min(self.last_seq);
        if self.pruned_to >= end {
            return Ok(());
        }
        let window_ms = i64::try_from(DEDUPLICATION_WINDOW.as_millis()).unwrap_or(i64::MAX);
        transaction
            .connection
            .prepare_cached(
                "DELETE FROM sends WHERE seq >= ?1 AND seq < ?2 AND (sent_at_ms <= ?3 OR sent_at_ms >= ?4)",
            )?
            .execute(params![
                self.pruned_to,
                end,
                transaction.now.0 - window_ms,
                transaction.now.0 + window_ms
            ])?;
        self.pruned_to = end;
        Ok(())
    }

    /// Adds the messages of a queue up to the look-ahead limit.
    pub(super) fn look_ahead(
        &mut self,
        transaction: &Transaction<'_>,
        queue: QueueRef,
    ) -> rusqlite::Result<()> {
        let groups = self.groups(queue);
        let mut statement = transaction.connection.prepare_cached(
            "SELECT seq, group_id FROM jobs WHERE queue = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        )?;
        let room = i64::try_from(groups.free_capacity()).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![label(queue), groups.indexed_to(), room])?;
        while let Some(row) = rows.next()? {
            let seq = row.get(0)?;
            groups.push(GroupId::from(row.get::<_, String>(1)?), seq);
        }
        groups.wake(transaction.now);
        Ok(())
    }

    /// The known groups of a queue.
    pub(super) fn groups(&mut self, queue: QueueRef) -> &mut Groups {
        self.groups.entry(queue).or_default()
    }

    /// Forgets messages that no longer exist.
    pub(super) fn forget(&mut self, queue: QueueRef, group: &GroupId, gone: &[i64]) {
        gone.iter().for_each(|seq| drop(self.leased.remove(seq)));
        self.groups(queue).remove(group, gone);
    }

    /// Records that this process has received a message of this group.
    pub(super) fn lease(&mut self, seq: i64, group: GroupId) {
        self.leased.insert(seq, group);
    }

    /// Makes the group of a received message ready, because the message may be visible again.
    pub(super) fn mark_released(&mut self, queue: QueueRef, seq: i64) {
        if let (Some(group), Some(groups)) = (self.leased.get(&seq), self.groups.get_mut(&queue)) {
            groups.make_ready(group);
        }
    }

    /// Removes acked messages, and makes their groups ready.
    pub(super) fn mark_acked(&mut self, queue: QueueRef, seqs: &[i64]) {
        let mut by_group: HashMap<GroupId, Vec<i64>> = HashMap::new();
        for seq in seqs {
            if let Some(group) = self.leased.remove(seq) {
                by_group.entry(group).or_default().push(*seq);
            }
        }
        if let Some(groups) = self.groups.get_mut(&queue) {
            for (group, seqs) in by_group {
                groups.remove(&group, &seqs);
                groups.make_ready(&group);
            }
        }
    }

    /// The messages to release: see [`Self::release_later`].
    pub(super) fn take_abandoned(&mut self) -> Vec<(QueueRef, Receipt)> {
        std::mem::take(&mut self.abandoned)
    }

    /// Lets the next operation release messages that were received for a caller that is gone.
    pub(super) fn release_later(&mut self, queue: QueueRef, receipts: impl Iterator<Item = Receipt>) {
        self.abandoned.extend(receipts.map(|receipt| (queue, receipt)));
    }
}
