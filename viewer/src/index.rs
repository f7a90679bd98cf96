//! The search index for pages. A page updates it for a short time, and works without it if it is unusable.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ports::archive::Archive;
use ports::changes::Changes;
use reader::joined::ChannelOfTeam;
use search::follower;
use search::index::SearchIndex;
use tokio::time::{Instant, timeout};

/// How long a page waits for the index to catch up.
const CATCH_UP_TIMEOUT: Duration = Duration::from_millis(50);

/// Counting the messages of all channels reads the whole index, so the counts are cached, and a page only
/// waits briefly.
const MAX_COUNTS_AGE: Duration = Duration::from_secs(10);
const COUNTS_TIMEOUT: Duration = Duration::from_millis(20);

/// The file of the index, and the source of its changes.
pub struct IndexSource {
    /// The file of the index.
    pub file: PathBuf,
    /// The changes of the archive.
    pub changes: Arc<dyn Changes>,
    /// The minimum interval between polls for changes.
    pub poll_interval: Duration,
    /// Messages per batch; on AWS, channel days per batch.
    pub batch_size: usize,
}

/// The index, opened on first use.
pub struct FreshIndex {
    source: IndexSource,
    archive: Arc<dyn Archive>,
    open: tokio::sync::Mutex<Option<SearchIndex>>,
    /// The time of the last poll. Locked while a poll runs.
    last_poll: tokio::sync::Mutex<Option<Instant>>,
    counts: Arc<Mutex<MessageCounts>>,
    is_failing: AtomicBool,
}

#[derive(Default)]
struct MessageCounts {
    at: Option<Instant>,
    by_location: Arc<BTreeMap<ChannelOfTeam, u64>>,
}

impl FreshIndex {
    /// Returns an index that is not opened yet.
    pub fn new(source: IndexSource, archive: Arc<dyn Archive>) -> Self {
        Self {
            source,
            archive,
            open: tokio::sync::Mutex::default(),
            last_poll: tokio::sync::Mutex::default(),
            counts: Arc::default(),
            is_failing: AtomicBool::new(false),
        }
    }

    /// The changes of the archive.
    pub(crate) fn changes(&self) -> &dyn Changes {
        &*self.source.changes
    }

    /// The minimum interval between polls for changes.
    pub fn poll_interval(&self) -> Duration {
        self.source.poll_interval
    }

    /// Returns the index, after catching up for a short time; `None` if it cannot be used.
    pub async fn get(&self) -> Option<SearchIndex> {
        let index = self.opened().await?;
        // If another request polls already, this one does not wait for it.
        if let Ok(mut last_poll) = self.last_poll.try_lock()
            && last_poll.is_none_or(|last_poll| last_poll.elapsed() >= self.source.poll_interval)
        {
            let started = Instant::now();
            let should_continue = |_| started.elapsed() < CATCH_UP_TIMEOUT;
            let (changes, archive) = (self.changes(), &*self.archive);
            match follower::catch_up(&index, changes, archive, self.source.batch_size, should_continue).await
            {
                Ok(is_caught_up) => {
                    self.is_failing.store(false, Ordering::Relaxed);
                    *last_poll = is_caught_up.then(Instant::now);
                }
                Err(error) => self.log_failure(&error),
            }
        }
        Some(index)
    }

    /// Returns a remark if the index is behind the archive.
    pub async fn lag_remark(&self, index: &SearchIndex) -> Option<String> {
        let cursor = index.cursor().await.ok()?;
        match self.source.changes.backlog_estimate(cursor.as_ref()).await.ok()? {
            Some(0) => None,
            Some(behind) => {
                let messages = reader::numbers::counted(behind, "message", "messages");
                Some(format!("The index is {messages} behind."))
            }
            None => Some("The index may be behind: `annalist index` brings it up to date.".to_owned()),
        }
    }

    /// Returns the number of messages of each channel, at most some seconds old.
    pub async fn counts(&self) -> Arc<BTreeMap<ChannelOfTeam, u64>> {
        let known = || self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = {
            let mut counts = known();
            let is_old = counts.at.is_none_or(|at| at.elapsed() >= MAX_COUNTS_AGE);
            if is_old {
                counts.at = Some(Instant::now());
            }
            is_old
        };
        if is_old && let Some(index) = self.opened().await {
            let counts = Arc::clone(&self.counts);
            let counting = tokio::spawn(async move {
                if let Ok(by_location) = index.message_counts().await {
                    counts.lock().unwrap_or_else(PoisonError::into_inner).by_location = Arc::new(by_location);
                }
            });
            // The task continues if it takes longer.
            drop(timeout(COUNTS_TIMEOUT, counting).await);
        }
        Arc::clone(&known().by_location)
    }

    async fn opened(&self) -> Option<SearchIndex> {
        match SearchIndex::current(&mut *self.open.lock().await, &self.source.file).await {
            Ok(index) => Some(index),
            Err(error) => {
                self.log_failure(&error);
                None
            }
        }
    }

    /// Logs a failure once until the index works again.
    fn log_failure(&self, error: &dyn std::error::Error) {
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "the search index is unavailable; pages are served without it");
        }
    }
}
