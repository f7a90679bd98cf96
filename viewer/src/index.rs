//! The search index for pages. A page updates it for a short time, and works without it if it is unusable.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ports::archive::Archive;
use ports::changes::{ChangeCursor, Changes};
use reader::access::Sight;
use reader::joined::ChannelOfTeam;
use search::counts::ChannelActivity;
use search::follower;
use search::index::SearchIndex;
use tokio::time::{Instant, timeout};

/// The activity at each location.
pub(crate) type ChannelActivities = BTreeMap<ChannelOfTeam, ChannelActivity>;

/// How long a page lets the index catch up, and the time after which it does not wait for a batch.
const CATCH_UP: Duration = Duration::from_millis(50);
const CATCH_UP_TIMEOUT: Duration = Duration::from_millis(200);

/// Counting the messages of all channels reads the whole index, so the counts are cached, and a page only
/// waits briefly.
const MAX_COUNTS_AGE: Duration = Duration::from_secs(10);
const COUNTS_TIMEOUT: Duration = Duration::from_millis(100);

/// The file of the index, and the source of its changes.
pub struct IndexSource {
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
    counted: CountedChannels,
}

/// The number of messages of each channel.
#[derive(Debug, Clone, Default)]
pub struct CountedChannels {
    pub by_location: Arc<BTreeMap<ChannelOfTeam, u64>>,
    /// Whether the index was behind when it was counted.
    pub is_behind: bool,
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

    /// The position up to which the index has the changes.
    pub(crate) async fn cursor(&self) -> Option<ChangeCursor> {
        self.opened().await?.cursor().await.ok().flatten()
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
            let (changes, archive, limit) = (self.changes(), &*self.archive, self.source.batch_size);
            match follower::catch_up_within(&index, changes, archive, limit, CATCH_UP, CATCH_UP_TIMEOUT).await
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

    /// Returns a remark if the index is behind the archive. The number of messages is only for a reader who sees
    /// all of them.
    pub async fn lag_remark(&self, index: &SearchIndex, sight: &Sight) -> Option<String> {
        let cursor = index.cursor().await.ok()?;
        match self.source.changes.backlog_estimate(cursor.as_ref()).await.ok()? {
            Some(0) => None,
            Some(_) if *sight != Sight::Everything => Some("The index is some messages behind.".to_owned()),
            Some(behind) => {
                let messages = reader::numbers::counted(behind, "message", "messages");
                Some(format!("The index is {messages} behind."))
            }
            None => Some("The index may be behind: `annalist index` brings it up to date.".to_owned()),
        }
    }

    /// Returns the number of messages of each channel, at most some seconds old.
    pub async fn counts(&self) -> CountedChannels {
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
            let (counts, changes) = (Arc::clone(&self.counts), Arc::clone(&self.source.changes));
            let counting = tokio::spawn(async move {
                let behind = async {
                    let cursor = index.cursor().await.unwrap_or_default();
                    changes.backlog_estimate(cursor.as_ref()).await.unwrap_or_default()
                };
                let (behind, by_location) = tokio::join!(behind, index.message_counts());
                let Ok(by_location) = by_location else { return };
                let is_behind = behind.is_some_and(|messages| messages > 0);
                let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                counts.counted = CountedChannels { by_location: Arc::new(by_location), is_behind };
                if is_behind {
                    // The next page counts again.
                    counts.at = None;
                }
            });
            // The task continues if it takes longer.
            drop(timeout(COUNTS_TIMEOUT, counting).await);
        }
        known().counted.clone()
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
