//! The deduplication ids that were sent recently.

use std::collections::{HashMap, VecDeque};

use ports::clock::TimestampMs;
use ports::queue::{DEDUPLICATION_WINDOW, DedupId};

/// Interval of a bucket: whole buckets are dropped instead of single ids.
const BUCKET_MS: i64 = 30_000;

/// Maximum number of ids, about 40 bytes each. Beyond it, which takes 13,000 sends a second for five minutes,
/// the oldest are dropped early: an event stored twice changes nothing in the archive, but a rejected event
/// would be lost.
const MAX_IDS: usize = 4_000_000;

/// Half of a SHA-256 still makes accidental collisions practically impossible.
pub(super) const KEY_BYTES: usize = 16;

type DeduplicationKey = [u8; KEY_BYTES];

struct RecentBucket {
    started: TimestampMs,
    last_seq: i64,
    sent_at: HashMap<DeduplicationKey, TimestampMs>,
}

/// The ids sent to one queue within the window.
#[derive(Default)]
pub(super) struct RecentIds {
    buckets: VecDeque<RecentBucket>,
    /// The last sequence number that was dropped since the last call of [`RecentIds::expire`].
    dropped: Option<i64>,
}

/// The part of an id that is stored.
pub(super) fn deduplication_key(dedup: &DedupId) -> DeduplicationKey {
    let mut key = [0; KEY_BYTES];
    key.copy_from_slice(&dedup.as_bytes()[..KEY_BYTES]);
    key
}

impl RecentIds {
    /// Whether the id was sent within the window that ends `now`.
    pub(super) fn contains(&self, key: &DeduplicationKey, now: TimestampMs) -> bool {
        self.buckets.iter().any(|bucket| {
            bucket.sent_at.get(key).is_some_and(|sent_at| {
                now.since(*sent_at) < DEDUPLICATION_WINDOW && !is_of_a_clock_ahead(*sent_at, now)
            })
        })
    }

    /// Adds a sent id. Drops all others if the clock was set back by more than the window.
    pub(super) fn insert(&mut self, key: DeduplicationKey, sent_at: TimestampMs, seq: i64) {
        if self.buckets.back().is_some_and(|newest| is_of_a_clock_ahead(newest.started, sent_at)) {
            self.dropped = self.buckets.drain(..).map(|bucket| bucket.last_seq).max();
        }
        let started = TimestampMs(sent_at.0 - sent_at.0.rem_euclid(BUCKET_MS));
        if self.buckets.back().is_none_or(|bucket| bucket.started < started) {
            self.buckets.push_back(RecentBucket { started, last_seq: seq, sent_at: HashMap::new() });
        }
        if let Some(bucket) = self.buckets.back_mut() {
            bucket.last_seq = bucket.last_seq.max(seq);
            bucket.sent_at.insert(key, sent_at);
        }
    }

    /// Drops the ids outside the window. Returns the last sequence number that was dropped.
    pub(super) fn expire(&mut self, now: TimestampMs) -> Option<i64> {
        let mut dropped = self.dropped.take();
        while let Some(oldest) = self.buckets.front() {
            let ends = TimestampMs(oldest.started.0 + BUCKET_MS);
            let total: usize = self.buckets.iter().map(|bucket| bucket.sent_at.len()).sum();
            let crowded = total > MAX_IDS && self.buckets.len() > 1;
            if now.since(ends) < DEDUPLICATION_WINDOW && !crowded {
                break;
            }
            dropped = dropped.max(Some(oldest.last_seq));
            self.buckets.pop_front();
        }
        dropped
    }
}

/// Whether this time is so far ahead that the clock was set back since. A job that is sent again and again, as
/// one for a gap, would otherwise be a duplicate for as long as the clock was ahead.
fn is_of_a_clock_ahead(sent_at: TimestampMs, now: TimestampMs) -> bool {
    sent_at.since(now) >= DEDUPLICATION_WINDOW
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_id_is_known_for_exactly_the_window() {
        let mut recent = RecentIds::default();
        let start = TimestampMs(1_000_007);
        recent.insert([1; KEY_BYTES], start, 1);
        let last = start.plus(DEDUPLICATION_WINDOW - Duration::from_millis(1));
        recent.expire(last);
        assert!(recent.contains(&[1; KEY_BYTES], last));
        assert!(!recent.contains(&[2; KEY_BYTES], last));
        let after = start.plus(DEDUPLICATION_WINDOW);
        recent.expire(after);
        assert!(!recent.contains(&[1; KEY_BYTES], after));
    }

    #[test]
    fn ids_of_a_clock_that_was_ahead_are_unknown_and_dropped_with_the_next_send() {
        let mut recent = RecentIds::default();
        let now = TimestampMs(1_000_007);
        recent.insert([1; KEY_BYTES], now.plus(DEDUPLICATION_WINDOW * 50), 1);
        assert!(!recent.contains(&[1; KEY_BYTES], now));
        recent.insert([2; KEY_BYTES], now, 2);
        assert!(recent.contains(&[2; KEY_BYTES], now));
        assert_eq!((recent.expire(now), recent.expire(now)), (Some(1), None));
        let soon = now.plus(DEDUPLICATION_WINDOW - Duration::from_millis(1));
        recent.insert([3; KEY_BYTES], soon, 3);
        recent.insert([4; KEY_BYTES], now, 4);
        assert!((2..=4).all(|key| recent.contains(&[key; KEY_BYTES], now)));
    }

    #[test]
    fn expiring_returns_the_last_sequence_number_so_that_its_rows_can_be_deleted() {
        let mut recent = RecentIds::default();
        recent.insert([1; KEY_BYTES], TimestampMs(0), 1);
        recent.insert([2; KEY_BYTES], TimestampMs(1), 2);
        recent.insert([3; KEY_BYTES], TimestampMs(BUCKET_MS), 3);
        let window_ms = i64::try_from(DEDUPLICATION_WINDOW.as_millis()).unwrap();
        assert_eq!(recent.expire(TimestampMs(BUCKET_MS + window_ms)), Some(2));
        assert_eq!(recent.expire(TimestampMs(BUCKET_MS + window_ms)), None);
    }
}
