//! Sends messages.

use super::cache::Memory;
use super::recent::deduplication_key;
use super::{append, label};
use crate::writer::Transaction;
use ports::queue::{Outgoing, QueueName, QueueRef};

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
        let seq = memory.next_seq();
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
