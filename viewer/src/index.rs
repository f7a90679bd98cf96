//! The search index as pages use it: brought up to date as far as a moment allows, and skipped if it is unusable.

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

/// A page waits this long for the index to take in what is new.
const CATCH_UP: Duration = Duration::from_millis(50);

/// Counts of all channels look at every message of the index, so they are made again only so often, and a page does not wait long.
const COUNTS_AGE: Duration = Duration::from_secs(10);
const COUNTS_WAIT: Duration = Duration::from_millis(20);

/// Where the index is, and what feeds it.
pub struct IndexSource {
    /// Its file.
    pub file: PathBuf,
    /// What was written to the archive.
    pub changes: Arc<dyn Changes>,
    /// A page looks for what is new no sooner than this after the last look.
    pub every: Duration,
    /// Messages that the index takes in at once; days of channels on AWS.
    pub batch: usize,
}

/// The index, opened when it is first needed.
pub struct FreshIndex {
    source: IndexSource,
    archive: Arc<dyn Archive>,
    open: tokio::sync::Mutex<Option<SearchIndex>>,
    /// When something new was last looked for; held while it is.
    looked_at: tokio::sync::Mutex<Option<Instant>>,
    counts: Arc<Mutex<MessageCounts>>,
    is_failing: AtomicBool,
}

#[derive(Default)]
struct MessageCounts {
    at: Option<Instant>,
    by_place: Arc<BTreeMap<ChannelOfTeam, u64>>,
}

impl FreshIndex {
    /// An index that nothing is known of yet.
    #[must_use]
    pub fn new(source: IndexSource, archive: Arc<dyn Archive>) -> Self {
        Self {
            source,
            archive,
            open: tokio::sync::Mutex::default(),
            looked_at: tokio::sync::Mutex::default(),
            counts: Arc::default(),
            is_failing: AtomicBool::new(false),
        }
    }

    /// What was written to the archive.
    pub(crate) fn changes(&self) -> &dyn Changes {
        &*self.source.changes
    }

    /// How often it is worth to look at this archive for what is new.
    #[must_use]
    pub fn every(&self) -> Duration {
        self.source.every
    }

    /// The index, with what is new as far as a moment allows; `None` if it cannot be used.
    pub async fn get(&self) -> Option<SearchIndex> {
        let index = self.opened().await?;
        // While another request looks, this one goes without.
        if let Ok(mut looked_at) = self.looked_at.try_lock()
            && looked_at.is_none_or(|looked_at| looked_at.elapsed() >= self.source.every)
        {
            let started = Instant::now();
            let goes_on = |_| started.elapsed() < CATCH_UP;
            let (changes, archive) = (self.changes(), &*self.archive);
            match follower::catch_up(&index, changes, archive, self.source.batch, goes_on).await {
                Ok(is_caught_up) => {
                    self.is_failing.store(false, Ordering::Relaxed);
                    *looked_at = is_caught_up.then(Instant::now);
                }
                Err(error) => self.tell(&error),
            }
        }
        Some(index)
    }

    /// Remarks on how far it is behind.
    pub async fn behind(&self, index: &SearchIndex) -> Option<String> {
        let cursor = index.cursor().await.ok()?;
        match self.source.changes.behind(cursor.as_ref()).await.ok()? {
            Some(0) => None,
            Some(behind) => {
                Some(format!("The index is {} messages behind.", reader::numbers::grouped(behind)))
            }
            None => Some("The index may be behind: `annalist index` brings it up to date.".to_owned()),
        }
    }

    /// How many messages each channel has, as of some seconds ago.
    pub async fn counts(&self) -> Arc<BTreeMap<ChannelOfTeam, u64>> {
        let known = || self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = {
            let mut counts = known();
            let is_old = counts.at.is_none_or(|at| at.elapsed() >= COUNTS_AGE);
            if is_old {
                counts.at = Some(Instant::now());
            }
            is_old
        };
        if is_old && let Some(index) = self.opened().await {
            let counts = Arc::clone(&self.counts);
            let counting = tokio::spawn(async move {
                if let Ok(by_place) = index.message_counts().await {
                    counts.lock().unwrap_or_else(PoisonError::into_inner).by_place = Arc::new(by_place);
                }
            });
            // It goes on if it takes longer.
            drop(timeout(COUNTS_WAIT, counting).await);
        }
        Arc::clone(&known().by_place)
    }

    async fn opened(&self) -> Option<SearchIndex> {
        match SearchIndex::current(&mut *self.open.lock().await, &self.source.file).await {
            Ok(index) => Some(index),
            Err(error) => {
                self.tell(&error);
                None
            }
        }
    }

    /// Logs a failure once, until it is over.
    fn tell(&self, error: &dyn std::error::Error) {
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "pages do without the search index");
        }
    }
}
