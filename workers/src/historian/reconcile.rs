//! Compares what is read of a channel with the archive before it is stored: what is missing here, what has changed, and what is
//! here and no longer at Slack.
//!
//! That a message is not listed proves that it is gone only if Slack listed everything around it. Of the channel, that is the
//! time between two messages that Slack lists, on a page that is as long as what was asked for or is the last one. Of a thread, it
//! is everything if Slack counts no more replies than it lists.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ports::archive::{Archive, ArchiveError, ArchiveExt, ItemKey, Query, key};
use reader::range::{TimeRange, ts_of};
use rules::history::HistoryMessage;
use rules::history::compare::{CompleteListing, Difference, ListedTimeline, compare, held_reply_of};
use rules::interval::Interval;
use rules::message::deletion;
use slack::ids::{ChannelId, TeamId, Ts};

use super::page::ChannelReader;
use super::trouble::HistoryError;

/// Messages that are named of each kind: what a person looks at, and not what a broken channel has.
const MAX_NAMED: usize = 100;

/// What was found in a channel, before anything of it was stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundDifferences {
    /// Messages at Slack that are not here.
    pub missing: u64,
    /// Messages of which Slack has a newer edit, a deletion, or a reaction that is not here.
    pub changed: u64,
    /// Messages that are here and not at Slack.
    pub extra: u64,
    /// Reactions that are here and not at Slack.
    pub reactions_removed: u64,
    /// Of the missing and the changed ones, those that were stored then.
    pub filled: u64,
    /// Of the extra ones, those that were marked as deleted then.
    pub marked: u64,
    /// The newest missing ones, at most a hundred.
    pub missing_ts: BTreeSet<Ts>,
    /// The newest extra ones, at most a hundred.
    pub extra_ts: BTreeSet<Ts>,
}

impl FoundDifferences {
    /// Whether the archive still differs from Slack.
    pub fn are_left(&self) -> bool {
        self.missing + self.changed > self.filled || self.extra > self.marked
    }
}

/// The comparison of one channel with Slack, while it is read.
pub struct Comparison {
    /// What is compared: from the beginning of what is read on, and before the reading began. What is posted meanwhile is on
    /// its way here.
    scope: Interval,
    marks_deleted: bool,
    progress: Mutex<ComparisonProgress>,
}

#[derive(Default)]
struct ComparisonProgress {
    found: FoundDifferences,
    /// Replies that the channel lists too: each is in its thread again.
    broadcasts: HashSet<Ts>,
    /// Roots of which replies are here. Slack may no longer count any.
    roots: HashSet<Ts>,
}

impl Comparison {
    /// A comparison from a time on, which began at another. `marks_deleted` marks what is no longer at Slack as deleted, for
    /// good.
    pub fn of(scope: Interval, marks_deleted: bool) -> Self {
        Self { scope, marks_deleted, progress: Mutex::default() }
    }

    /// What was found so far.
    pub fn found(&self) -> FoundDifferences {
        self.progress().found.clone()
    }

    /// Whether the archive holds replies of a root, as far as it was read.
    pub(super) fn holds_replies_of(&self, root: &Ts) -> bool {
        self.progress().roots.contains(root)
    }

    /// Counts a message that was found to be missing or changed, and is stored.
    pub(super) fn count_filled(&self) {
        self.progress().found.filled += 1;
    }

    fn progress(&self) -> MutexGuard<'_, ComparisonProgress> {
        // Counts and sets: a panic elsewhere leaves them usable.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which times a page of a channel is about.
pub(super) struct PageTimes {
    /// From its oldest message on, and before what it was asked for.
    held: Option<Interval>,
    /// Between messages that Slack listed, if the page leaves nothing out there.
    seen: Option<Interval>,
}

impl PageTimes {
    /// Of a page whose oldest message and the time before which it was asked for these are. `newest` is its newest message, or
    /// the one before which it was asked for. `is_whole` says that it is as long as was asked for and that all of it was read.
    pub(super) fn of(oldest: Option<&Ts>, newest: Option<&Ts>, latest: &Ts, is_whole: bool) -> Self {
        let from = oldest.map(Ts::micros);
        let held = from.map(|from| Interval { from, to: latest.micros() });
        let seen = from.zip(newest).map(|(from, newest)| Interval { from: from + 1, to: newest.micros() });
        Self { held, seen: seen.filter(|_| is_whole) }
    }
}

/// What Slack listed of a thread.
#[derive(Default)]
pub(super) struct ThreadListing {
    replies: HashSet<Ts>,
    /// How many there are, as the root says; `None` if no page had it.
    counted: Option<u64>,
    is_broken: bool,
}

impl ThreadListing {
    /// Adds what could be read of a page of this length.
    pub(super) fn add(&mut self, root: &Ts, length: usize, messages: &[HistoryMessage]) {
        self.is_broken |= messages.len() < length;
        for message in messages {
            if message.ts == *root {
                self.counted = Some(message.thread.as_ref().map_or(0, |thread| thread.reply_count));
            } else {
                self.replies.insert(message.ts.clone());
            }
        }
    }

    fn is_complete(&self) -> bool {
        !self.is_broken && self.counted.is_some_and(|counted| counted <= self.replies.len() as u64)
    }
}

impl ChannelReader<'_> {
    /// Compares messages with their rows; says of each whether something of it is not here.
    pub(super) async fn compare(
        &self,
        comparison: &Comparison,
        messages: &[HistoryMessage],
    ) -> Result<Vec<bool>, HistoryError> {
        let keys: Vec<&ItemKey> = messages.iter().map(|message| message.change.key()).collect();
        let rows = self.archive.get_all(&keys).await?;
        let ComparisonProgress { found, broadcasts, .. } = &mut *comparison.progress();
        let lacking = messages.iter().zip(&rows).map(|(message, row)| {
            if !comparison.scope.contains(message.ts.micros()) || broadcasts.contains(&message.ts) {
                return false;
            }
            let compared = compare(message, row.as_ref());
            found.reactions_removed += compared.reactions_removed;
            match compared.difference {
                Some(Difference::Missing) => {
                    found.missing += 1;
                    name(&mut found.missing_ts, message.ts.clone());
                }
                Some(Difference::Changed) => found.changed += 1,
                None => {}
            }
            compared.difference.is_some()
        });
        Ok(lacking.collect())
    }

    /// Notes the replies that the channel itself lists, once they are compared.
    pub(super) fn note_broadcasts(&self, messages: &[HistoryMessage]) {
        if let Some(comparison) = self.comparison() {
            let replies = messages.iter().filter(|message| message.is_reply());
            comparison.progress().broadcasts.extend(replies.map(|message| message.ts.clone()));
        }
    }

    /// Finds what is here of the time of a page and not on it, and the threads of which replies are here.
    pub(super) async fn find_gone(
        &self,
        comparison: &Comparison,
        messages: &[HistoryMessage],
        times: &PageTimes,
    ) -> Result<(), HistoryError> {
        let Some(held) = times.held else { return Ok(()) };
        let within = |time: Interval| Interval {
            from: time.from.max(comparison.scope.from),
            to: time.to.min(comparison.scope.to),
        };
        let listing = times.seen.map(|seen| CompleteListing {
            place: ListedTimeline::Channel,
            time: within(seen),
            listed: messages.iter().map(|message| message.ts.clone()).collect(),
        });
        let held = within(held);
        if held.from >= held.to {
            return Ok(());
        }
        let range = TimeRange { since: Some(ts_of(held.from)), until: None };
        let query = Query {
            after: range.after().map(|after| ItemKey::new(self.messages_key(), after)),
            until: Some(ts_of(held.to).to_string()),
            ..Query::partition(self.messages_key())
        };
        self.look_for_gone(comparison, listing.as_ref(), query).await
    }

    /// Finds what is here of a thread and no longer at Slack.
    pub(super) async fn find_gone_replies(
        &self,
        comparison: &Comparison,
        root: &Ts,
        listing: ThreadListing,
    ) -> Result<(), HistoryError> {
        if !listing.is_complete() {
            return Ok(());
        }
        let listing = CompleteListing {
            place: ListedTimeline::Thread(root.clone()),
            time: comparison.scope,
            listed: listing.replies,
        };
        let query = Query::parent(key::thread_parent(self.calls.team(), root));
        self.look_for_gone(comparison, Some(&listing), query).await
    }

    async fn look_for_gone(
        &self,
        comparison: &Comparison,
        listing: Option<&CompleteListing>,
        mut query: Query,
    ) -> Result<(), HistoryError> {
        loop {
            let page = self.archive.query(&query).await?;
            // Another channel may have a thread of the same ts.
            let here = page.items.iter().filter(|row| row.key.item_id == self.messages_key());
            let mut gone = Vec::new();
            {
                let ComparisonProgress { found, roots, .. } = &mut *comparison.progress();
                for row in here {
                    roots.extend(held_reply_of(row));
                    gone.extend(listing.and_then(|listing| listing.lacks(row)));
                }
                found.extra += gone.len() as u64;
                gone.iter().for_each(|ts| name(&mut found.extra_ts, ts.clone()));
            }
            if comparison.marks_deleted {
                mark(self.archive, self.calls.team(), self.channel, &gone).await?;
                comparison.progress().found.marked += gone.len() as u64;
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(()),
            }
        }
    }

    fn messages_key(&self) -> String {
        key::messages(self.calls.team(), self.channel)
    }
}

async fn mark(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    gone: &[Ts],
) -> Result<(), ArchiveError> {
    let deletions: Vec<_> = gone.iter().map(|ts| deletion(team, channel, ts)).collect();
    archive
        .write_all(&deletions.iter().collect::<Vec<_>>())
        .await
        .into_iter()
        .try_for_each(|outcome| outcome.map(drop))
}

/// Adds a name, and drops the oldest one if there are too many.
fn name(names: &mut BTreeSet<Ts>, ts: Ts) {
    names.insert(ts);
    if names.len() > MAX_NAMED {
        names.pop_first();
    }
}
