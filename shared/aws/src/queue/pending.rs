//! Messages that wait to be sent to one queue, and the choice of the next batch.

use std::collections::{HashSet, VecDeque};

use tokio::sync::oneshot;
use tokio::time::Instant;

use ports::queue::{GroupId, MAX_MESSAGE_BYTES, QueueError};

/// Maximum number of entries per SQS call.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html>
pub(super) const MAX_ENTRIES: usize = 10;
/// Maximum size of an SQS call: the same as that of one message.
const MAX_BATCH_BYTES: usize = MAX_MESSAGE_BYTES;

/// Maximum number of waiting messages: beyond it none are accepted, and their callers wait instead.
const MAX_WAITING: usize = 1_000;
/// The same limit in bytes.
const MAX_WAITING_BYTES: usize = 16 * MAX_MESSAGE_BYTES;

/// A message in the form that SQS accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SendEntry {
    pub(super) group: GroupId,
    pub(super) dedup: String,
    pub(super) body: String,
    /// Whether the body is in [`super::text::ESCAPED`] form.
    pub(super) escaped: bool,
    /// The size that SQS counts: the body and the attributes.
    pub(super) bytes: usize,
}

/// A message whose caller waits.
#[derive(Debug)]
pub(super) struct WaitingSend {
    pub(super) entry: SendEntry,
    pub(super) since: Instant,
    /// When the caller stops waiting and gets an error.
    pub(super) deadline: Instant,
    pub(super) answer: oneshot::Sender<Result<(), QueueError>>,
}

/// Messages that can be sent now in one call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SendBatch {
    /// Indexes in the line, in order.
    indexes: Vec<usize>,
    /// Whether no further message fits.
    pub(super) full: bool,
    /// When its oldest entry began to wait.
    pub(super) since: Instant,
}

/// The waiting messages, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Pending {
    line: VecDeque<WaitingSend>,
    bytes: usize,
}

impl Pending {
    pub(super) fn push(&mut self, waiting: WaitingSend) {
        self.bytes += waiting.entry.bytes;
        self.line.push_back(waiting);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Whether the messages of another call can be accepted.
    pub(super) fn has_room(&self) -> bool {
        self.line.len() < MAX_WAITING && self.bytes < MAX_WAITING_BYTES
    }

    /// Drops messages whose callers no longer wait: sending them would only delay the others. Their callers
    /// get the error that the outcome is unknown.
    pub(super) fn drop_overdue(&mut self, now: Instant) {
        self.line.retain(|waiting| waiting.deadline > now);
        self.bytes = self.line.iter().map(|waiting| waiting.entry.bytes).sum();
    }

    /// Returns the next batch: the first entries whose group is not in `busy`. If an entry does not fit, the
    /// later ones of its group do not overtake it.
    pub(super) fn next_batch(&self, busy: &HashSet<GroupId>) -> Option<SendBatch> {
        let mut indexes = Vec::new();
        let mut bytes = 0;
        let mut skipped: HashSet<&GroupId> = HashSet::new();
        let mut full = false;
        for (index, WaitingSend { entry, .. }) in self.line.iter().enumerate() {
            if busy.contains(&entry.group) || skipped.contains(&entry.group) {
                continue;
            }
            if bytes + entry.bytes > MAX_BATCH_BYTES {
                full = true;
                skipped.insert(&entry.group);
                continue;
            }
            bytes += entry.bytes;
            indexes.push(index);
            if indexes.len() == MAX_ENTRIES {
                full = true;
                break;
            }
        }
        let since = self.line.get(*indexes.first()?)?.since;
        Some(SendBatch { indexes, full, since })
    }

    /// Removes a batch from the line. No message may have been pushed or dropped since it was chosen.
    pub(super) fn remove_batch(&mut self, batch: SendBatch) -> Vec<WaitingSend> {
        let mut taken = Vec::with_capacity(batch.indexes.len());
        // From the end, so that the earlier indexes stay valid.
        for index in batch.indexes.into_iter().rev() {
            if let Some(waiting) = self.line.remove(index) {
                self.bytes -= waiting.entry.bytes;
                taken.push(waiting);
            }
        }
        taken.reverse();
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn line(entries: &[(&str, &str, usize)]) -> Pending {
        let mut pending = Pending::default();
        for (group, body, bytes) in entries {
            let entry = SendEntry {
                group: GroupId::from_parts(&[group]),
                dedup: (*body).to_owned(),
                body: (*body).to_owned(),
                escaped: false,
                bytes: *bytes,
            };
            let since = Instant::now();
            let (answer, _) = oneshot::channel();
            pending.push(WaitingSend { entry, since, deadline: since + Duration::from_secs(1), answer });
        }
        pending
    }

    fn take(pending: &mut Pending, busy: &[&str]) -> Option<(Vec<String>, bool)> {
        let busy = busy.iter().map(|group| GroupId::from_parts(&[group])).collect();
        let batch = pending.next_batch(&busy)?;
        let full = batch.full;
        Some((pending.remove_batch(batch).into_iter().map(|waiting| waiting.entry.body).collect(), full))
    }

    fn bodies(bodies: &[&str]) -> Vec<String> {
        bodies.iter().map(|body| (*body).to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn ten_entries_are_a_full_batch() {
        let entries: Vec<(String, String)> = (0..12).map(|n| (format!("g{n}"), format!("{n}"))).collect();
        let entries: Vec<_> =
            entries.iter().map(|(group, body)| (group.as_str(), body.as_str(), 1)).collect();
        let mut pending = line(&entries);
        assert_eq!(
            take(&mut pending, &[]),
            Some((bodies(&["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]), true))
        );
        assert_eq!(take(&mut pending, &[]), Some((bodies(&["10", "11"]), false)));
        assert!(pending.is_empty() && pending.next_batch(&HashSet::new()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_group_waits_and_the_others_do_not() {
        let mut pending = line(&[("a", "a1", 1), ("b", "b1", 1), ("a", "a2", 1), ("c", "c1", 1)]);
        assert_eq!(take(&mut pending, &["a"]), Some((bodies(&["b1", "c1"]), false)));
        assert_eq!(take(&mut pending, &["a"]), None);
        assert_eq!(take(&mut pending, &[]), Some((bodies(&["a1", "a2"]), false)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_that_does_not_fit_is_not_overtaken_by_its_group() {
        let half = MAX_BATCH_BYTES / 2;
        let mut pending = line(&[("a", "a1", half), ("b", "b1", half + 1), ("b", "b2", 1), ("c", "c1", 1)]);
        assert_eq!(take(&mut pending, &[]), Some((bodies(&["a1", "c1"]), true)));
        assert_eq!(take(&mut pending, &[]), Some((bodies(&["b1", "b2"]), false)));
        assert_eq!(pending.bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_largest_message_is_a_batch_of_its_own() {
        let mut pending = line(&[("a", "a1", MAX_BATCH_BYTES), ("b", "b1", 1)]);
        assert_eq!(take(&mut pending, &[]), Some((bodies(&["a1"]), true)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_overdue_message_is_dropped() {
        let mut pending = line(&[("a", "a1", 1)]);
        tokio::time::advance(Duration::from_secs(1)).await;
        pending.drop_overdue(Instant::now());
        assert!(pending.is_empty() && pending.bytes == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_line_is_bounded_in_messages_and_in_bytes() {
        let mut pending = line(&[("a", "1", 1); MAX_WAITING - 1]);
        assert!(pending.has_room());
        pending.push(line(&[("a", "1", 1)]).line.remove(0).unwrap());
        assert!(!pending.has_room());
        assert!(!line(&[("a", "1", MAX_MESSAGE_BYTES); 16]).has_room());
    }
}
