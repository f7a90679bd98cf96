//! What the archive knows of a file before it is requested.

use ports::archive::{Item, Update};
use ports::files::FileKey;
use rules::file::canvas::{self, CanvasVersion};
use rules::file::row::{self, MAX_SHARES, Share};
use rules::file::{FileJob, FileObject, FileState};

/// The state of a file in the archive, before any request.
pub(super) struct KnownFile {
    /// The recorded state.
    pub(super) state: Option<FileState>,
    /// The key under which the version of the job's object is stored, if it is.
    pub(super) held_as: Option<FileKey>,
    pub(super) row: Option<Item>,
    /// The key for its bytes, if it is fetched.
    pub(super) key: FileKey,
    /// The messages that shared it before.
    pub(super) shares: Vec<Share>,
}

impl KnownFile {
    /// The key under which the version of this object is stored, if it is.
    pub(super) fn held_as(&self, job: &FileJob, object: &FileObject) -> Option<FileKey> {
        row::matching_key(self.row.as_ref()?, &job.team, object)
    }

    /// Whether another version of a canvas fits.
    pub(super) fn has_room(&self, object: &FileObject) -> bool {
        self.row.as_ref().is_none_or(|row| canvas::has_room(row, object))
    }

    /// The job's message, unless the file's row has too many already.
    pub(super) fn room_for_share<'j>(&self, job: &'j FileJob) -> Option<&'j Share> {
        let has_room = self.shares.len() < MAX_SHARES || self.shares.contains(&job.share);
        has_room.then_some(&job.share)
    }

    /// The last attempt to store a later edit of a canvas, if it failed.
    pub(super) fn missed_attempt(&self) -> Option<&str> {
        canvas::missed_attempt(self.row.as_ref()?)
    }

    /// The newest stored version of a canvas.
    pub(super) fn newest_version(&self) -> Option<CanvasVersion> {
        canvas::newest(self.row.as_ref()?)
    }

    /// The source of bytes under this file's key, if an earlier attempt was about to store them.
    pub(super) fn expected_source(&self) -> Option<&str> {
        canvas::expected_source(self.row.as_ref()?, &self.key)
    }

    /// An update that is rejected if the file is no longer stored as it was when this row was read.
    pub(super) fn still_held(&self, job: &FileJob) -> Option<Update> {
        row::still_stored(self.row.as_ref()?, &job.object.id)
    }

    /// The messages on which the job marks the file as deleted in Slack: all if the job brings the tombstone,
    /// and its own if the file's row has one.
    pub(super) fn marked_deleted(&self, job: &FileJob) -> Vec<Share> {
        let is_known = || self.row.as_ref().is_some_and(row::is_deleted);
        let others = job.object.is_tombstone().then_some(&self.shares).into_iter().flatten();
        if job.object.is_tombstone() || is_known() {
            std::iter::once(&job.share).chain(others.filter(|share| **share != job.share)).cloned().collect()
        } else {
            Vec::new()
        }
    }

    /// Whether several versions are stored: each message names its own.
    pub(super) fn has_versions(&self) -> bool {
        self.row.as_ref().is_some_and(row::has_versions)
    }
}
