//! The directory: what Slack knows of channels, people and emoji, brought into the archive.
//!
//! Not a worker: it has no queue. It runs when a process starts and every hour after that, for every workspace
//! with a token, and on request.
//! * [`sync`] is one workspace once: [`channels`], [`people`] and [`emoji`], read page by page by [`listing`].
//! * [`joins`] joins the public channels the app is not in, at Slack's pace; [`Joiner`] asks for one more.
//! * [`schedule`] does both for as long as the process lives.

pub(crate) mod channels;
mod emoji;
mod joiner;
pub mod joins;
mod listing;
mod people;
mod pictures;
pub mod report;
mod schedule;
mod sync;

use std::sync::Arc;

use ports::archive::Archive;
use ports::queue::Queue;
use rules::channel::index;
use slack_api::WebApi;

pub use joiner::{JoinRequests, Joiner};
pub use report::{SyncError, SyncReport};

pub(crate) use listing::Listing;

use crate::existence::KnownEntities;
use crate::marks::Marks;

/// Brings the directory of workspaces into the archive.
pub struct DirectorySync {
    api: Arc<WebApi>,
    archive: Arc<dyn Archive>,
    queue: Arc<dyn Queue>,
    shard_bytes: usize,
    marks: Marks,
    pictures: pictures::Pictures,
    known: Option<Arc<KnownEntities>>,
}

impl DirectorySync {
    /// A sync into this archive; pictures to be fetched go to the queue.
    pub fn new(api: Arc<WebApi>, archive: Arc<dyn Archive>, queue: Arc<dyn Queue>) -> Self {
        Self {
            api,
            archive,
            queue,
            shard_bytes: index::SHARD_BYTES,
            marks: Marks::default(),
            pictures: pictures::Pictures::default(),
            known: None,
        }
    }

    /// Whatever Slack lists exists: the existence check need not ask about it.
    #[must_use]
    pub fn telling(self, known: Arc<KnownEntities>) -> Self {
        Self { known: Some(known), ..self }
    }

    /// With shards of another size: tests have small ones.
    #[must_use]
    pub fn with_shards_of(self, shard_bytes: usize) -> Self {
        Self { shard_bytes, ..self }
    }
}
