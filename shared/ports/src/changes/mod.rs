//! The changes port: changes to messages, for followers such as the search index.
//!
//! A follower stores data derived from messages together with a [`ChangeCursor`], in one transaction. It
//! requests the next batch, applies it idempotently, and stores the cursor of the batch. Despite concurrent
//! writes, erasures and crashes, and even if it is killed, it converges to the contents of the archive.
//!
//! ```text
//! match changes.since(cursor.as_ref(), 1_000).await? {
//!     Items { items, next }  => each item replaces the one with its key, an erased one removes it; store next
//!     Spans { spans, next }  => read each span with ChangedSpan::query, apply the items as above; store next
//!     Rebuild                => drop everything that is stored, and start again without a cursor
//! }
//! ```
//!
//! A follower that only needs the days of channels that were written to calls [`Changes::spans_since`].
//!
//! The embedded backend knows each row that changed. On AWS, writers mark the day of a channel before they
//! write to it ([`ChangedSpan`]), and a follower reads the whole day again.

mod span;

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::archive::{ArchiveError, Item, ItemKey, rows};

pub use span::{ChangedSpan, hour_of};

/// The position of a follower: an opaque text that only the backend that made it can read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChangeCursor(String);

impl ChangeCursor {
    /// A cursor from the text of a backend, or from a stored text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text to store.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The changes since a cursor, or some of them.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangeBatch {
    /// The current versions of messages, each at most once in a batch, in no particular order. Erased
    /// messages are included, with only their keys and `erased`. If there are no items, the follower has
    /// caught up.
    Items {
        /// The rows.
        items: Vec<Item>,
        /// The cursor to store together with the data derived from them.
        next: ChangeCursor,
    },
    /// Parts of channels in which something may have changed. A follower reads each of them, even if it has
    /// read it before. If there are no spans, the follower has caught up; the next call starts another pass,
    /// which repeats the spans that were marked in the last hours.
    Spans {
        /// The parts.
        spans: Vec<ChangedSpan>,
        /// The cursor to store together with the data derived from them.
        next: ChangeCursor,
    },
    /// The cursor cannot be continued: it belongs to another archive, the archive was restored since, or the
    /// changes after it are no longer known. The follower drops its data and starts without a cursor.
    Rebuild,
}

/// Parts of channels in which something was written since a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanBatch {
    /// The parts.
    pub spans: BTreeSet<ChangedSpan>,
    /// The cursor to store together with the data derived from them.
    pub next: ChangeCursor,
    /// Whether there are no more changes: the follower may leave later writes for another time.
    pub is_all: bool,
}

/// Changes to messages: rows of the kind [`rows::MESSAGE`], and no others. Every method is idempotent, and followers
/// are independent of each other.
#[async_trait]
pub trait Changes: Send + Sync + 'static {
    /// Returns the changes since `cursor`, or all messages if it is `None`: at most `limit` items or spans,
    /// and fewer if the items are large or the spans are whole channels. A message that changes while a
    /// follower reads is returned again. If the follower has caught up, the batches contained everything that
    /// was durable before this call; with spans, everything that was durable when the pass started.
    async fn since(&self, cursor: Option<&ChangeCursor>, limit: usize) -> Result<ChangeBatch, ArchiveError>;

    /// Like [`Changes::since`], for a follower that only needs the changed parts of channels: it reads less.
    /// Returns `None` instead of [`ChangeBatch::Rebuild`].
    async fn spans_since(
        &self,
        cursor: Option<&ChangeCursor>,
        limit: usize,
    ) -> Result<Option<SpanBatch>, ArchiveError> {
        Ok(match self.since(cursor, limit).await? {
            ChangeBatch::Items { items, next } => Some(SpanBatch {
                spans: items.iter().filter_map(|item| ChangedSpan::for_row(&item.key)).collect(),
                next,
                is_all: items.is_empty(),
            }),
            ChangeBatch::Spans { spans, next } => {
                Some(SpanBatch { is_all: spans.is_empty(), spans: spans.into_iter().collect(), next })
            }
            ChangeBatch::Rebuild => None,
        })
    }

    /// The approximate number of messages that a follower with this cursor has not seen: exact if there are
    /// few, otherwise never too low. Takes a few milliseconds. `None` if the backend cannot determine it.
    async fn backlog_estimate(&self, cursor: Option<&ChangeCursor>) -> Result<Option<u64>, ArchiveError>;
}

/// Whether the changes port reports changes of this row.
pub fn is_followed(key: &ItemKey) -> bool {
    key.item_id.starts_with(rows::FOLLOWED)
}
