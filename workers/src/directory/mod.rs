//! directory: syncs channels, people, user groups and emoji from Slack to the archive, one workspace per job.
//!
//! * [`worker`] sends a job for each workspace that is due, and syncs it; [`due`] stores when it is due next.
//! * [`sync`] syncs one workspace once: [`channels`], [`people`], [`emoji`], [`user_groups`] and
//!   [`organisations`]; lists are read page by page by [`listing`]; [`pins`], channel by channel.
//! * [`members`] lists the members of channels.
//! * [`asked`]: lists that a command asks for, and that are not stored.
//! * [`daily`] reads what no event reports about a channel, such as its bookmarks, once a day.
//! * [`joins`] joins the public channels the app is not in, at Slack's pace; [`Joiner`] requests more.

pub mod asked;
pub(crate) mod channels;
mod daily;
mod due;
mod emoji;
mod joiner;
pub mod joins;
mod listing;
mod members;
mod organisations;
mod people;
mod pictures;
mod pins;
pub mod report;
mod sync;
mod user_groups;
mod worker;

use std::sync::Arc;

use ports::archive::Archive;
use ports::queue::Queue;
use rules::channel::index;
use slack_api::WebApi;

pub use daily::{StoredBookmarks, store_bookmarks};
pub use joiner::{JoinRequests, Joiner};
pub use members::MembersToList;
pub use report::{SyncError, SyncReport};
pub use worker::{AT_ONCE, DirectoryWorker};

use crate::admission::KnownEntities;
use crate::admission::marks::Marks;

/// Syncs the directory of workspaces to the archive.
pub struct DirectorySync {
    api: Arc<WebApi>,
    archive: Arc<dyn Archive>,
    queue: Arc<dyn Queue>,
    shard_bytes: usize,
    marks: Marks,
    pictures: pictures::Pictures,
    known: Option<Arc<KnownEntities>>,
    members: MembersToList,
}

impl DirectorySync {
    /// A sync to this archive; jobs for pictures go to the queue.
    pub fn new(api: Arc<WebApi>, archive: Arc<dyn Archive>, queue: Arc<dyn Queue>) -> Self {
        Self {
            api,
            archive,
            queue,
            shard_bytes: index::SHARD_BYTES,
            marks: Marks::default(),
            pictures: pictures::Pictures::default(),
            known: None,
            members: MembersToList::All,
        }
    }

    /// Records every entity that Slack lists in `known`, so that the existence check need not ask for it.
    #[must_use]
    pub fn with_known_entities(self, known: Arc<KnownEntities>) -> Self {
        Self { known: Some(known), ..self }
    }

    /// Sets the channels whose members are listed.
    #[must_use]
    pub fn with_listed_members(self, members: MembersToList) -> Self {
        Self { members, ..self }
    }

    /// Sets the shard size; tests use small shards.
    #[must_use]
    pub fn with_shard_bytes(self, shard_bytes: usize) -> Self {
        Self { shard_bytes, ..self }
    }
}
