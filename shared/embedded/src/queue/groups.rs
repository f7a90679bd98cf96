//! The next messages of one queue: a hint per message group, which is checked against the tables before use.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use ports::clock::TimestampMs;
use ports::lease::has_ended;
use ports::queue::GroupId;

/// Maximum number of messages searched for a group that is not blocked, as in SQS FIFO. Messages behind a
/// backlog of this size in blocked groups are not found; the limit keeps a backlog of millions from filling
/// the memory.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/best-practices-message-deduplication.html>
pub(super) const LOOK_AHEAD: usize = 120_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupState {
    /// May have messages to receive; the number is its head when it became ready.
    Ready(i64),
    /// Its head is invisible until this time.
    Blocked(TimestampMs),
}

struct WaitingGroup {
    seqs: VecDeque<i64>,
    state: GroupState,
}

/// The groups of one queue.
#[derive(Default)]
pub(super) struct Groups {
    groups: HashMap<GroupId, WaitingGroup>,
    ready: BTreeSet<(i64, GroupId)>,
    blocked: BTreeSet<(TimestampMs, GroupId)>,
    /// Groups blocked by a lease of another process, which may release it without a notification.
    foreign: HashSet<GroupId>,
    messages: usize,
    /// The sequence number up to which messages are known.
    indexed_to: i64,
}

impl Groups {
    /// The sequence number up to which messages are known.
    pub(super) fn indexed_to(&self) -> i64 {
        self.indexed_to
    }

    /// How many more messages may be added.
    pub(super) fn free_capacity(&self) -> usize {
        LOOK_AHEAD.saturating_sub(self.messages)
    }

    /// Adds a message after all known ones.
    pub(super) fn push(&mut self, group: GroupId, seq: i64) {
        self.indexed_to = seq;
        self.messages += 1;
        if let Some(known) = self.groups.get_mut(&group) {
            known.seqs.push_back(seq);
            return;
        }
        self.ready.insert((seq, group.clone()));
        self.groups
            .insert(group, WaitingGroup { seqs: VecDeque::from([seq]), state: GroupState::Ready(seq) });
    }

    /// Makes the groups ready whose block has ended.
    pub(super) fn wake(&mut self, now: TimestampMs) {
        let ended = |block: &&(TimestampMs, GroupId)| has_ended(block.0, now);
        while let Some(block) = self.blocked.first().filter(ended).or(self.blocked.last().filter(ended)) {
            let block = block.clone();
            self.blocked.remove(&block);
            self.make_ready(&block.1);
        }
    }

    /// Makes the groups ready that another process blocked, because it may have released them.
    pub(super) fn wake_foreign(&mut self) {
        for group in std::mem::take(&mut self.foreign) {
            self.make_ready(&group);
        }
    }

    /// The number of groups that may have messages to receive.
    pub(super) fn ready_groups(&self) -> usize {
        self.ready.len()
    }

    /// Whether any group may have messages to receive.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The head of the group that [`Groups::next_ready`] would return.
    pub(super) fn first_ready(&self) -> Option<i64> {
        self.ready.first().map(|(head, _)| *head)
    }

    /// The end of the range of sequence numbers that begins with [`Groups::first_ready`] and contains about
    /// `max` known messages. Sequence numbers are shared with other queues, so the range may be longer than
    /// `max`.
    pub(super) fn stretch_end(&self, max: usize) -> i64 {
        let first = self.first_ready().unwrap_or_default();
        let known = i128::from(self.indexed_to - first);
        let length = known * max as i128 / self.messages.max(1) as i128;
        i64::try_from(length + 1).map_or(i64::MAX, |length| first.saturating_add(length))
    }

    /// Removes and returns the ready group with the oldest head, until [`Groups::block`] or
    /// [`Groups::make_ready`] adds it again.
    pub(super) fn next_ready(&mut self) -> Option<GroupId> {
        self.ready.pop_first().map(|(_, group)| group)
    }

    /// The group's message at this index, the oldest at 0.
    pub(super) fn seq_at(&self, group: &GroupId, index: usize) -> Option<i64> {
        self.groups.get(group)?.seqs.get(index).copied()
    }

    /// Removes messages that no longer exist.
    pub(super) fn remove(&mut self, group: &GroupId, gone: &[i64]) {
        let Some(known) = self.groups.get_mut(group) else { return };
        for seq in gone {
            // Messages are usually removed in order, so the search ends immediately.
            if let Some(index) = known.seqs.iter().position(|known| known == seq) {
                known.seqs.remove(index);
                self.messages -= 1;
            }
        }
        if known.seqs.is_empty()
            && let Some(empty) = self.groups.remove(group)
        {
            self.unlist(group, empty.state);
        }
    }

    /// Blocks a group whose head is invisible until this time; `foreign` if another process holds the lease.
    pub(super) fn block(&mut self, group: &GroupId, until: TimestampMs, foreign: bool) {
        let Some(known) = self.groups.get_mut(group) else { return };
        let before = std::mem::replace(&mut known.state, GroupState::Blocked(until));
        self.unlist(group, before);
        if foreign {
            self.foreign.insert(group.clone());
        }
        self.blocked.insert((until, group.clone()));
    }

    /// Makes a group ready that may have messages to receive.
    pub(super) fn make_ready(&mut self, group: &GroupId) {
        let Some(known) = self.groups.get_mut(group) else { return };
        let Some(head) = known.seqs.front().copied() else { return };
        let before = std::mem::replace(&mut known.state, GroupState::Ready(head));
        self.unlist(group, before);
        self.ready.insert((head, group.clone()));
    }

    /// When the block of the next group ends.
    pub(super) fn next_wake(&self) -> Option<TimestampMs> {
        self.blocked.first().map(|(until, _)| *until)
    }

    fn unlist(&mut self, group: &GroupId, state: GroupState) {
        match state {
            GroupState::Ready(head) => self.ready.remove(&(head, group.clone())),
            GroupState::Blocked(until) => self.blocked.remove(&(until, group.clone())),
        };
    }
}
