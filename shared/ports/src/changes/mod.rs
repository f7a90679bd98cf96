//! The changes port: what was written to messages, for followers such as the search index.
//!
//! A follower keeps something made of the messages, and beside it a [`ChangeCursor`], in one transaction. It asks for the
//! next batch, applies it so that applying it twice does no harm, and stores the cursor that came with it. Whatever
//! happens in between, writes, erasures, crashes, a follower that is killed, it ends with what the archive holds.
//!
//! ```text
//! match changes.since(cursor.as_ref(), 1_000).await? {
//!     Items { items, next }  => each item replaces what is held of its key; an erased one removes it; store next
//!     Spans { spans, next }  => read each span with ChangedSpan::query, apply the items as above; store next
//!     Rebuild                => drop everything that is held, and begin again without a cursor
//! }
//! ```
//!
//! A follower that only has to know which days of which channels were written to asks for [`Changes::spans_since`].
//!
//! The embedded backend knows each row that changed. On AWS, writers mark the day of a channel before they write to it
//! ([`ChangedSpan`]), and a follower reads the day again.

mod span;

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::archive::{ArchiveError, Item, ItemKey};

pub use span::{ChangedSpan, hour_of};

/// How far a follower has come: a text that only the backend that made it reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChangeCursor(String);

impl ChangeCursor {
    /// A cursor as a backend spells it, or as it was stored.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text to store.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What has changed since a cursor, or some of it.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangeBatch {
    /// Messages as they are now, each at most once in a batch, in no particular order. Erased ones are among them, with
    /// nothing but their keys and `erased`. If there are no items, the follower has caught up.
    Items {
        /// The rows.
        items: Vec<Item>,
        /// To be stored with what was made of them.
        next: ChangeCursor,
    },
    /// Parts of channels in which something may have changed. A follower reads each of them, even if it has read it before.
    /// If there are no spans, the follower has caught up; the next call begins another pass, which names again what was marked
    /// in the last hours.
    Spans {
        /// The parts.
        spans: Vec<ChangedSpan>,
        /// To be stored with what was made of them.
        next: ChangeCursor,
    },
    /// The cursor cannot be continued: it is of another archive, of an archive that was restored since, or what followed it
    /// is no longer known. The follower drops what it holds and begins without a cursor.
    Rebuild,
}

/// Parts of channels in which something was written since a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanBatch {
    /// The parts.
    pub spans: BTreeSet<ChangedSpan>,
    /// To be stored with what was made of them.
    pub next: ChangeCursor,
    /// Whether there was nothing more: what is written from now on may be left for later.
    pub is_all: bool,
}

/// What was written to messages: rows of the kind `message#`, and no others. Every method may be repeated without harm, and
/// several followers know nothing of each other.
#[async_trait]
pub trait Changes: Send + Sync + 'static {
    /// What was written since `cursor`, everything that there is if it is `None`: at most `limit` items or spans, and fewer
    /// if the items are large or the spans are whole channels. A message that changes while a follower reads comes again. If the
    /// follower has caught up, everything was in a batch that was durable before this call; of spans, everything that was durable
    /// when the pass began.
    async fn since(&self, cursor: Option<&ChangeCursor>, limit: usize) -> Result<ChangeBatch, ArchiveError>;

    /// As [`Changes::since`], for a follower that only has to know where something was written, and reads less; `None` instead of
    /// [`ChangeBatch::Rebuild`].
    async fn spans_since(
        &self,
        cursor: Option<&ChangeCursor>,
        limit: usize,
    ) -> Result<Option<SpanBatch>, ArchiveError> {
        Ok(match self.since(cursor, limit).await? {
            ChangeBatch::Items { items, next } => Some(SpanBatch {
                spans: items.iter().filter_map(|item| ChangedSpan::of(&item.key)).collect(),
                next,
                is_all: items.is_empty(),
            }),
            ChangeBatch::Spans { spans, next } => {
                Some(SpanBatch { is_all: spans.is_empty(), spans: spans.into_iter().collect(), next })
            }
            ChangeBatch::Rebuild => None,
        })
    }

    /// About how many messages a follower with this cursor has not seen: exact if there are few, else no less than there are.
    /// It takes a few milliseconds. `None` if the backend cannot tell.
    async fn behind(&self, cursor: Option<&ChangeCursor>) -> Result<Option<u64>, ArchiveError>;
}

/// Whether changes of this row are followed.
pub fn is_followed(key: &ItemKey) -> bool {
    key.item_id.starts_with(FOLLOWED)
}

/// What the partitions of all rows begin with whose changes are followed.
pub const FOLLOWED: &str = "message#";
