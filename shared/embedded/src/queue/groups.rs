//! Which messages of one queue are next: a hint per message group, checked against the tables before it is used.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use ports::clock::TimestampMs;
use ports::queue::GroupId;

/// Messages looked ahead for a group that is not blocked, as SQS FIFO does. Behind a backlog of this many in blocked
/// groups nothing is found; a bound is what keeps a backlog of millions from filling the memory.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/best-practices-message-deduplication.html>
pub(super) const LOOK_AHEAD: usize = 120_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupState {
    /// May have something to receive; the number is its head when it became so.
    Ready(i64),
    /// Its head is invisible until then.
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
    /// Blocked by another process's lease, which it may give back without telling.
    foreign: HashSet<GroupId>,
    messages: usize,
    /// Messages up to here are known.
    indexed_to: i64,
}

impl Groups {
    /// Messages after this one are not known yet.
    pub(super) fn indexed_to(&self) -> i64 {
        self.indexed_to
    }

    /// How many more may be looked at.
    pub(super) fn room(&self) -> usize {
        LOOK_AHEAD.saturating_sub(self.messages)
    }

    /// Learns of a message behind all known ones.
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

    /// Makes groups whose time has come ready again.
    pub(super) fn wake(&mut self, now: TimestampMs) {
        while let Some((until, _)) = self.blocked.first()
            && *until <= now
            && let Some((_, group)) = self.blocked.pop_first()
        {
            self.make_ready(&group);
        }
    }

    /// Another process changed something: whatever waits for it may be ready.
    pub(super) fn wake_foreign(&mut self) {
        for group in std::mem::take(&mut self.foreign) {
            self.make_ready(&group);
        }
    }

    /// How many groups may have something.
    pub(super) fn ready_groups(&self) -> usize {
        self.ready.len()
    }

    /// Whether any group may have something.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The head of the group [`Groups::next_ready`] would answer.
    pub(super) fn first_ready(&self) -> Option<i64> {
        self.ready.first().map(|(head, _)| *head)
    }

    /// The end of the stretch that begins with the head [`Groups::first_ready`] answers and has about `max` of the known messages.
    /// Numbers are shared with other queues, so it may be longer than that.
    pub(super) fn end_of(&self, max: usize) -> i64 {
        let first = self.first_ready().unwrap_or_default();
        let known = i128::from(self.indexed_to - first);
        let length = known * max as i128 / self.messages.max(1) as i128;
        i64::try_from(length + 1).map_or(i64::MAX, |length| first.saturating_add(length))
    }

    /// The group whose head came first among those that may have something. It is out of the set until it is put back
    /// by [`Groups::block`] or [`Groups::make_ready`].
    pub(super) fn next_ready(&mut self) -> Option<GroupId> {
        self.ready.pop_first().map(|(_, group)| group)
    }

    /// The group's message at this place, the oldest at 0.
    pub(super) fn seq_at(&self, group: &GroupId, place: usize) -> Option<i64> {
        self.groups.get(group)?.seqs.get(place).copied()
    }

    /// Forgets messages that are gone.
    pub(super) fn remove(&mut self, group: &GroupId, gone: &[i64]) {
        let Some(known) = self.groups.get_mut(group) else { return };
        for seq in gone {
            // Messages go in order but for the odd one, so the search ends at once.
            if let Some(at) = known.seqs.iter().position(|known| known == seq) {
                known.seqs.remove(at);
                self.messages -= 1;
            }
        }
        if known.seqs.is_empty()
            && let Some(empty) = self.groups.remove(group)
        {
            self.unlist(group, empty.state);
        }
    }

    /// The group's head is invisible until then; `foreign` where another process holds it.
    pub(super) fn block(&mut self, group: &GroupId, until: TimestampMs, foreign: bool) {
        let Some(known) = self.groups.get_mut(group) else { return };
        let before = std::mem::replace(&mut known.state, GroupState::Blocked(until));
        self.unlist(group, before);
        if foreign {
            self.foreign.insert(group.clone());
        }
        self.blocked.insert((until, group.clone()));
    }

    /// The group may have something.
    pub(super) fn make_ready(&mut self, group: &GroupId) {
        let Some(known) = self.groups.get_mut(group) else { return };
        let Some(head) = known.seqs.front().copied() else { return };
        let before = std::mem::replace(&mut known.state, GroupState::Ready(head));
        self.unlist(group, before);
        self.ready.insert((head, group.clone()));
    }

    /// When the next blocked group may have something.
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
