//! Compares messages of a channel with the archive before they are stored: which are missing here, which have
//! changed, and which are archived here but no longer in Slack.
//!
//! An unlisted message is proven to be deleted only if Slack listed everything around it. For the channel,
//! that is the interval between two messages that Slack lists, on a page that is as long as requested or the
//! last one. For a thread, it is everything if Slack counts no more replies than it lists.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ports::archive::erasure::ErasureFacts;
use ports::archive::{Archive, ArchiveError, ArchiveExt, ItemKey, Query, key};
use reader::range::{TimeRange, ts_from_micros};
use rules::history::HistoryMessage;
use rules::history::compare::{CompleteListing, Difference, ListedTimeline, archived_reply_root, compare};
use rules::interval::Interval;
use rules::message::deletion;
use slack::ids::{ChannelId, TeamId, Ts, UserId};

use super::error::HistoryError;
use super::page::ChannelReader;

/// Messages that are named of each kind: enough for a person to inspect, but not all of a broken channel.
const MAX_NAMED: usize = 100;

/// The differences found in a channel, before any message was stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundDifferences {
    /// Messages in Slack that are not in the archive.
    pub missing: u64,
    /// Messages for which Slack has a newer edit, a deletion, or a reaction that is not in the archive.
    pub changed: u64,
    /// Messages in the archive that are no longer in Slack.
    pub extra: u64,
    /// Reactions in the archive that are no longer in Slack.
    pub reactions_removed: u64,
    /// The missing and changed messages that were then stored.
    pub filled: u64,
    /// The extra messages that were then marked as deleted.
    pub marked: u64,
    /// The newest missing messages, at most a hundred.
    pub missing_ts: BTreeSet<Ts>,
    /// The newest extra messages, at most a hundred.
    pub extra_ts: BTreeSet<Ts>,
}

/// The comparison of one channel with Slack, while it is read.
pub struct Comparison {
    /// The compared interval: from the start of the read spans until the reading began. Later messages are
    /// still on their way to the archive.
    scope: Interval,
    marks_deleted: bool,
    /// What covers messages: those are not missing.
    facts: ErasureFacts,
    progress: Mutex<ComparisonProgress>,
}

#[derive(Default)]
struct ComparisonProgress {
    found: FoundDifferences,
    /// Replies that the channel lists too: each also appears in its thread.
    broadcasts: HashSet<Ts>,
    /// Roots with archived replies. Slack may no longer count any.
    roots: HashSet<Ts>,
    /// From here on everything is compared and stored, if the comparison records it.
    reached: Option<Ts>,
}

impl Comparison {
    /// A comparison of this interval. `marks_deleted` permanently marks messages that are no longer in Slack
    /// as deleted. Messages that `facts` cover are not missing.
    pub fn new(scope: Interval, marks_deleted: bool, facts: ErasureFacts) -> Self {
        Self { scope, marks_deleted, facts, progress: Mutex::default() }
    }

    /// The point from which on everything is compared and stored: for [`super::ThreadChoice::Proven`].
    pub fn reached(&self) -> Option<Ts> {
        self.progress().reached.clone()
    }

    /// Records this point. It only moves towards the past.
    pub(super) fn note_reached(&self, from: &Ts) {
        let reached = &mut self.progress().reached;
        if reached.as_ref().is_none_or(|reached| from < reached) {
            *reached = Some(from.clone());
        }
    }

    /// The differences found so far.
    pub fn found(&self) -> FoundDifferences {
        self.progress().found.clone()
    }

    /// Whether the archive has replies of a root in the part that was compared so far.
    pub(super) fn has_replies_of(&self, root: &Ts) -> bool {
        self.progress().roots.contains(root)
    }

    /// Counts a missing or changed message that is now stored.
    pub(super) fn count_filled(&self) {
        self.progress().found.filled += 1;
    }

    fn progress(&self) -> MutexGuard<'_, ComparisonProgress> {
        // Counts and sets: a panic elsewhere leaves them usable.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The intervals that a page of a channel covers.
pub(super) struct PageTimes {
    /// From the page's oldest message to the bound it was requested with.
    covered: Option<Interval>,
    /// Between messages that Slack listed, if the page is complete there.
    complete: Option<Interval>,
}

impl PageTimes {
    /// The intervals of a page with this oldest message, requested with the bound `latest`. `newest` is its
    /// newest message, or the last message of the page before. `is_whole` is set if the page is as long as
    /// requested and every message could be parsed.
    pub(super) fn new(oldest: Option<&Ts>, newest: Option<&Ts>, latest: &Ts, is_whole: bool) -> Self {
        let from = oldest.map(Ts::micros);
        let covered = from.map(|from| Interval { from, to: latest.micros() });
        let complete =
            from.zip(newest).map(|(from, newest)| Interval { from: from + 1, to: newest.micros() });
        Self { covered, complete: complete.filter(|_| is_whole) }
    }
}

/// The replies that Slack listed of a thread.
#[derive(Default)]
pub(super) struct ThreadListing {
    replies: HashSet<Ts>,
    /// The reply count of the root; `None` if no page had the root.
    counted: Option<u64>,
    is_broken: bool,
}

impl ThreadListing {
    /// Adds the parsed messages of a page of this length.
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
    /// Compares messages with their rows; returns for each whether it differs from the archive.
    pub(super) async fn compare(
        &self,
        comparison: &Comparison,
        messages: &[HistoryMessage],
    ) -> Result<Vec<bool>, HistoryError> {
        let keys: Vec<&ItemKey> = messages.iter().map(|message| message.change.key()).collect();
        let rows = self.archive.get_all(&keys).await?;
        let ComparisonProgress { found, broadcasts, .. } = &mut *comparison.progress();
        let differs = messages.iter().zip(&rows).map(|(message, row)| {
            if !comparison.scope.contains(message.ts.micros()) || broadcasts.contains(&message.ts) {
                return false;
            }
            let author = message.author.as_ref().map(UserId::as_str);
            if comparison.facts.covers_content(message.change.key(), author) {
                return false;
            }
            let compared = compare(message, row.as_ref());
            found.reactions_removed += compared.reactions_removed;
            match compared.difference {
                Some(Difference::Missing) => {
                    found.missing += 1;
                    add_name(&mut found.missing_ts, message.ts.clone());
                }
                Some(Difference::Changed) => found.changed += 1,
                None => {}
            }
            compared.difference.is_some()
        });
        Ok(differs.collect())
    }

    /// Records the replies that the channel itself lists, once they are compared.
    pub(super) fn note_broadcasts(&self, messages: &[HistoryMessage]) {
        if let Some(comparison) = self.comparison() {
            let replies = messages.iter().filter(|message| message.is_reply());
            comparison.progress().broadcasts.extend(replies.map(|message| message.ts.clone()));
        }
    }

    /// Finds archived messages in the page's interval that are not on the page, and the threads with archived
    /// replies.
    pub(super) async fn find_gone(
        &self,
        comparison: &Comparison,
        messages: &[HistoryMessage],
        times: &PageTimes,
    ) -> Result<(), HistoryError> {
        let Some(covered) = times.covered else { return Ok(()) };
        let within = |time: Interval| Interval {
            from: time.from.max(comparison.scope.from),
            to: time.to.min(comparison.scope.to),
        };
        let listing = times.complete.map(|complete| CompleteListing {
            timeline: ListedTimeline::Channel,
            interval: within(complete),
            listed: messages.iter().map(|message| message.ts.clone()).collect(),
        });
        let covered = within(covered);
        if covered.from >= covered.to {
            return Ok(());
        }
        let range = TimeRange { since: Some(ts_from_micros(covered.from)), until: None };
        let query = Query {
            after: range.key_before().map(|after| ItemKey::new(self.messages_key(), after)),
            until: Some(ts_from_micros(covered.to).to_string()),
            ..Query::partition(self.messages_key())
        };
        self.find_gone_rows(comparison, listing.as_ref(), query).await
    }

    /// Finds archived replies of a thread that are no longer in Slack.
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
            timeline: ListedTimeline::Thread(root.clone()),
            interval: comparison.scope,
            listed: listing.replies,
        };
        let query = Query::parent(key::thread_parent(self.calls.team(), root));
        self.find_gone_rows(comparison, Some(&listing), query).await
    }

    async fn find_gone_rows(
        &self,
        comparison: &Comparison,
        listing: Option<&CompleteListing>,
        mut query: Query,
    ) -> Result<(), HistoryError> {
        loop {
            let page = self.archive.query(&query).await?;
            // Another channel may have a thread with the same ts.
            let rows_of_channel = page.items.iter().filter(|row| row.key.item_id == self.messages_key());
            let mut gone = Vec::new();
            {
                let ComparisonProgress { found, roots, .. } = &mut *comparison.progress();
                for row in rows_of_channel {
                    roots.extend(archived_reply_root(row));
                    gone.extend(listing.and_then(|listing| listing.unlisted_ts(row)));
                }
                found.extra += gone.len() as u64;
                gone.iter().for_each(|ts| add_name(&mut found.extra_ts, ts.clone()));
            }
            if comparison.marks_deleted {
                mark_deleted(self.archive, self.calls.team(), self.channel, &gone).await?;
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

async fn mark_deleted(
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

/// Adds the ts of a message, and drops the oldest one if there are too many.
fn add_name(names: &mut BTreeSet<Ts>, ts: Ts) {
    names.insert(ts);
    if names.len() > MAX_NAMED {
        names.pop_first();
    }
}
