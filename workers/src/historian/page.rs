//! Stores one page of history: its rows, then the replies of its roots, then the jobs of its files.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::{StreamExt, TryStreamExt, stream};
use ports::archive::{Archive, ArchiveError, ItemKey};
use ports::queue::job::in_bulk;
use ports::queue::{Outgoing, Queue};
use rules::author::NewestUpdates;
use rules::history::{self, HistoryMessage};
use rules::interval::Interval;
use serde_json::value::RawValue;
use slack::ids::{ChannelId, Ts};

use super::calls::HistoryCalls;
use super::error::HistoryError;
use super::reconcile::{Comparison, PageTimes, ThreadListing};
use super::threads;
use crate::store::{StoredAs, store_history, write_changed};

/// Threads read concurrently: enough that the rate limit is the bottleneck, and not Slack's response time.
const THREADS_AT_ONCE: usize = 2;

/// Maximum number of consecutive pages that report more messages and contain none.
pub(super) const MAX_EMPTY_PAGES: u32 = 100;

/// The counts of a reading in progress.
#[derive(Debug, Default)]
pub struct ReadCounts(Mutex<ReadSnapshot>);

/// The counts of a reading at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadSnapshot {
    /// Messages that Slack returned, including replies.
    pub messages: u64,
    /// Messages that were not in the archive.
    pub new: u64,
    /// Messages whose archived state changed.
    pub updated: u64,
    /// Threads that were requested.
    pub threads: u64,
    /// Messages that are too large for the archive, or malformed.
    pub skipped: u64,
    /// Messages with more reactions than Slack lists.
    pub reactions_cut: u64,
}

impl ReadCounts {
    /// The current counts.
    pub fn snapshot(&self) -> ReadSnapshot {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, ReadSnapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the history of one channel into the archive.
#[derive(Clone, Copy)]
pub struct ChannelReader<'a> {
    /// The archive that messages are stored in.
    pub archive: &'a dyn Archive,
    /// The queue for the jobs of files; without it, no file is fetched.
    pub queue: Option<&'a dyn Queue>,
    /// The calls to Slack.
    pub calls: &'a HistoryCalls,
    /// The channel, in the workspace of the calls.
    pub channel: &'a ChannelId,
    /// How long before a span roots are read because their threads may have replies in it, in microseconds.
    pub look_back_micros: i64,
    /// The counts of this reading.
    pub counts: &'a ReadCounts,
    /// The threads that are requested.
    pub threads: ThreadChoice<'a>,
}

/// Which threads of the read messages are requested. Each costs a call.
#[derive(Clone, Copy)]
pub enum ThreadChoice<'a> {
    /// Threads whose archived replies do not match Slack's reply count and latest reply. A thread with both a
    /// missed deletion and a missed reply may appear complete.
    Incomplete,
    /// Every thread: in a gap, a deletion may have been missed as well as a reply.
    Each,
    /// Every thread, and messages are compared with the archive before they are stored.
    Compared(&'a Comparison),
    /// As `Incomplete`, and messages are compared with the archive before they are stored. No fact records what was
    /// read: the comparison does.
    Proven(&'a Comparison),
}

impl<'a> ChannelReader<'a> {
    /// The comparison of this reading, if it compares.
    pub(super) fn comparison(&self) -> Option<&'a Comparison> {
        match self.threads {
            ThreadChoice::Compared(comparison) | ThreadChoice::Proven(comparison) => Some(comparison),
            ThreadChoice::Incomplete | ThreadChoice::Each => None,
        }
    }

    /// Parses message objects; malformed ones are skipped and counted.
    pub(super) fn messages(&self, page: &[Box<RawValue>]) -> Vec<HistoryMessage> {
        let read = |raw: &RawValue| match history::read(self.calls.team(), self.channel, raw) {
            Ok(message) => Some(message),
            Err(malformed) => {
                self.counts.lock().skipped += 1;
                let (team, channel) = (self.calls.team(), self.channel);
                tracing::warn!(%team, %channel, %malformed, "a message of Slack's history cannot be read");
                None
            }
        };
        page.iter().map(AsRef::as_ref).filter_map(read).collect()
    }

    /// Stores a page. Of the messages older than the span, it stores only roots of threads with replies in
    /// the span.
    pub(super) async fn store_page(
        &self,
        messages: Vec<HistoryMessage>,
        times: &PageTimes,
        span: Interval,
    ) -> Result<(), HistoryError> {
        if let Some(comparison) = self.comparison() {
            self.find_gone(comparison, &messages, times).await?;
        }
        let (inside, older): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| message.ts.micros() >= span.from);
        let reaches_span = |root: &HistoryMessage| {
            let latest = root.thread.as_ref().map(|thread| thread.latest_reply.as_ref().map(Ts::micros));
            latest.is_some_and(|latest| latest.is_none_or(|latest| latest >= span.from))
                || self.comparison().is_some_and(|comparison| comparison.has_replies_of(&root.ts))
        };
        let older: Vec<HistoryMessage> = older.into_iter().filter(reaches_span).collect();
        self.store(&inside).await?;
        self.note_broadcasts(&inside);
        let mut roots: Vec<&HistoryMessage> = Vec::new();
        for root in &inside {
            if self.must_read_thread(root).await? {
                roots.push(root);
            }
        }
        for root in &older {
            if self.must_read_thread(root).await? {
                self.store(std::slice::from_ref(root)).await?;
                roots.push(root);
            }
        }
        let reading: Vec<_> = roots.into_iter().map(|root| self.read_thread(root.ts.clone())).collect();
        stream::iter(reading).buffer_unordered(THREADS_AT_ONCE).try_collect::<()>().await?;
        self.queue_files(&inside).await
    }

    async fn must_read_thread(&self, root: &HistoryMessage) -> Result<bool, ArchiveError> {
        match self.threads {
            ThreadChoice::Compared(comparison) => {
                Ok(root.thread.is_some() || comparison.has_replies_of(&root.ts))
            }
            ThreadChoice::Each => Ok(root.thread.is_some()),
            ThreadChoice::Incomplete => {
                let (archive, team) = (self.archive, self.calls.team());
                Ok(!threads::is_complete(archive, team, self.channel, root).await?)
            }
            ThreadChoice::Proven(comparison) if root.thread.is_none() => {
                Ok(comparison.has_replies_of(&root.ts))
            }
            ThreadChoice::Proven(_) => {
                let (archive, team) = (self.archive, self.calls.team());
                Ok(!threads::is_complete(archive, team, self.channel, root).await?)
            }
        }
    }

    /// Stores every reply of a thread. A thread that Slack no longer knows is skipped.
    async fn read_thread(&self, root: Ts) -> Result<(), HistoryError> {
        self.counts.lock().threads += 1;
        let (mut newest, mut after, mut cursor): (Option<Ts>, Option<Ts>, Option<String>) =
            (None, None, None);
        let mut empty_pages = 0;
        let mut listing = ThreadListing::default();
        loop {
            let answer = self.calls.replies(self.channel, &root, after.as_ref(), cursor.as_deref()).await;
            let page = match answer.map_err(HistoryError::from) {
                Ok(page) => page,
                Err(error) => match error.refusal() {
                    Some("thread_not_found" | "message_not_found") => return Ok(()),
                    // A cursor is valid for some minutes: continue after the newest reply.
                    Some("invalid_cursor") if cursor.is_some() => {
                        (after, cursor) = (newest.clone(), None);
                        continue;
                    }
                    Some(_) | None => return Err(error),
                },
            };
            let mut replies = self.messages(&page.messages);
            if self.comparison().is_some() {
                listing.add(&root, page.messages.len(), &replies);
            }
            // Every page starts with the root, which is stored as history shows it.
            replies.retain(|reply| reply.ts != root);
            self.store(&replies).await?;
            self.queue_files(&replies).await?;
            let newest_on_page = replies.iter().map(|reply| reply.ts.clone()).max();
            empty_pages = if newest_on_page > newest { 0 } else { empty_pages + 1 };
            newest = newest.max(newest_on_page);
            if empty_pages > MAX_EMPTY_PAGES {
                return Err(HistoryError::Stuck);
            }
            match page.cursor {
                Some(next) => cursor = Some(next),
                None if page.has_more && newest > after => (after, cursor) = (newest.clone(), None),
                None => break,
            }
        }
        match self.comparison() {
            Some(comparison) => self.find_gone_replies(comparison, &root, listing).await,
            None => Ok(()),
        }
    }

    async fn store(&self, messages: &[HistoryMessage]) -> Result<(), HistoryError> {
        // Before the messages: a thread whose replies are stored is not read again after a crash.
        self.store_authors(messages).await?;
        let mut differs = match self.comparison() {
            Some(comparison) => self.compare(comparison, messages).await?.into_iter(),
            None => Vec::new().into_iter(),
        };
        for (message, stored) in messages.iter().zip(store_history(self.archive, messages).await) {
            let is_different = differs.next() == Some(true);
            if let Some(comparison) = self.comparison().filter(|_| is_different && stored.is_ok()) {
                comparison.count_filled();
            }
            let mut counts = self.counts.lock();
            counts.messages += 1;
            counts.reactions_cut += u64::from(message.reactions_cut);
            match stored {
                Ok(StoredAs::New) => counts.new += 1,
                Ok(StoredAs::Updated) => counts.updated += 1,
                Ok(StoredAs::Unchanged | StoredAs::Expired) => {}
                Err(error @ ArchiveError::TooLarge { .. }) => {
                    counts.skipped += 1;
                    drop(counts);
                    let (team, channel, ts) = (self.calls.team(), self.channel, &message.ts);
                    tracing::warn!(%team, %channel, %ts, %error, "a message of Slack's history is too large");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Stores what messages say about their authors.
    async fn store_authors(&self, messages: &[HistoryMessage]) -> Result<(), HistoryError> {
        let mut newest = NewestUpdates::default();
        let updates = messages.iter().flat_map(|message| message.author_updates(self.calls.team()));
        updates.for_each(|update| newest.add(update));
        write_changed(self.archive, &newest.into_updates()).await?;
        Ok(())
    }

    /// Sends jobs for files without a known outcome, even if their messages were already archived: an earlier
    /// run may have crashed between the two steps.
    async fn queue_files(&self, messages: &[HistoryMessage]) -> Result<(), HistoryError> {
        let Some(queue) = self.queue else { return Ok(()) };
        let messages: Vec<&HistoryMessage> = messages.iter().filter(|message| message.has_files()).collect();
        let keys: Vec<&ItemKey> = messages.iter().map(|message| message.change.key()).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let rows = self.archive.get_all(&keys).await?;
        let jobs: Vec<Outgoing> = messages
            .iter()
            .zip(&rows)
            .flat_map(|(message, row)| message.files_to_fetch(row.as_ref()).sends)
            .collect();
        if jobs.is_empty() {
            return Ok(());
        }
        let jobs = jobs.into_iter().map(in_bulk).collect();
        Ok(queue.send(jobs).await.into_iter().collect::<Result<(), _>>()?)
    }
}
