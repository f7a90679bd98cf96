//! Records which part of a channel is written in which hour.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use ports::archive::{Archive, ArchiveError, ArchiveExt, Item, ItemKey, Page, Query, Update, WriteOutcome};
use ports::changes::{ChangedSpan, hour_of};
use ports::clock::SharedClock;

/// Maximum number of remembered marks. Beyond it all are forgotten and written again.
const MAX_REMEMBERED: usize = 100_000;

/// An archive that marks every part of a channel that is written through it, transparently to the workers.
/// A mark that another process has written in the same hour is only read. It is there before the message row, so a crash between the two loses no change. If the hour has
/// passed once the row is written, the part is marked again: a process may be suspended for longer than
/// followers read back.
pub(crate) struct MarkingArchive {
    inner: Arc<dyn Archive>,
    clock: SharedClock,
    written: Mutex<WrittenMarks>,
    /// Locked while marks are written, so that two batches do not write the same marks.
    writing: tokio::sync::Mutex<()>,
}

/// The marks of one hour that this process has written or read.
#[derive(Default)]
struct WrittenMarks {
    hour: String,
    spans: HashSet<ChangedSpan>,
}

impl MarkingArchive {
    /// An archive whose marks use the time of `clock`.
    pub(crate) fn new(inner: Arc<dyn Archive>, clock: SharedClock) -> Self {
        Self { inner, clock, written: Mutex::default(), writing: tokio::sync::Mutex::default() }
    }

    /// Marks the parts of which this process does not know yet that they are marked in this hour.
    async fn mark(&self, spans: &BTreeSet<ChangedSpan>) -> Result<(), ArchiveError> {
        let hour = hour_of(self.clock.now());
        if self.missing(&hour, spans).is_empty() {
            return Ok(());
        }
        let _writing = self.writing.lock().await;
        let missing = self.missing(&hour, spans);
        let marks: Vec<Update> = missing.iter().map(|span| Update::mark(span.mark_key(&hour))).collect();
        self.inner.write_marks(&marks).await?;
        self.written(&hour, |known| {
            if known.len() >= MAX_REMEMBERED {
                known.clear();
            }
            known.extend(missing);
        });
        Ok(())
    }

    /// The parts of which this process does not know that they are marked in this hour.
    fn missing(&self, hour: &str, spans: &BTreeSet<ChangedSpan>) -> Vec<ChangedSpan> {
        self.written(hour, |known| spans.iter().filter(|span| !known.contains(span)).cloned().collect())
    }

    /// Passes the marks of this hour to `use_marks`; marks of other hours are forgotten.
    fn written<T>(&self, hour: &str, use_marks: impl FnOnce(&mut HashSet<ChangedSpan>) -> T) -> T {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.hour != hour {
            *written = WrittenMarks { hour: hour.to_owned(), spans: HashSet::new() };
        }
        use_marks(&mut written.spans)
    }
}

#[async_trait]
impl Archive for MarkingArchive {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>> {
        let spans = updates.iter().filter_map(|update| ChangedSpan::for_row(&update.key)).collect();
        if let Err(error) = self.mark(&spans).await {
            return vec![Err(error); updates.len()];
        }
        let outcomes = self.inner.apply_once(updates).await;
        match self.mark(&spans).await {
            Ok(()) => outcomes,
            Err(error) => vec![Err(error); updates.len()],
        }
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        self.inner.get(key).await
    }

    async fn get_all(&self, keys: &[&ItemKey]) -> Result<Vec<Option<Item>>, ArchiveError> {
        self.inner.get_all(keys).await
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        self.inner.query(query).await
    }

    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError> {
        self.inner.delete_unchanged(expected).await
    }

    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        let spans = ChangedSpan::for_row(key).into_iter().collect();
        self.mark(&spans).await?;
        let was_new = self.inner.erase(key).await?;
        self.mark(&spans).await?;
        Ok(was_new)
    }

    async fn expire(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        let spans = ChangedSpan::for_row(key).into_iter().collect();
        self.mark(&spans).await?;
        let was_new = self.inner.expire(key).await?;
        self.mark(&spans).await?;
        Ok(was_new)
    }

    async fn ready(&self) -> Result<(), ArchiveError> {
        self.inner.ready().await
    }
}
