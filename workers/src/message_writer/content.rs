//! Writes a version of a message: it becomes the row's content, or a revision, or it was there already.
//!
//! The rules (DESIGN: revisions): the greatest version is the content; of every edit time that lost, the greatest
//! version is a revision. A version that loses feeds its revision itself. A version that is replaced is fed by the
//! edit that replaces it, before it does: so an edit reads the row first, and writes only if it is still what it read.
//! Everything else never needs to read. Each step may be repeated, and stopping between two of them loses nothing:
//! the event comes again and does the rest.

use metrics::counter;
use shared::archive::{self, Archive, ArchiveError, Item, WriteOutcome};
use shared::rules::message::{Content, revision_of, stored_version};
use shared::rules::version::ContentVersion;
use shared::telemetry::metrics::ARCHIVE_DUPLICATES;

/// How the row of a message stands after a version was written to it.
pub(super) enum Standing {
    /// Its content is at least this version.
    AtLeast {
        version: ContentVersion,
        /// The revision that was written before this content replaced another.
        replaced: Option<ContentVersion>,
    },
    /// Nothing is written to it any more.
    Erased,
}

/// Writes one version. `known` is what writing another version of the same message has shown already: an event that
/// brings both the new and the previous version looks at the row once.
pub(super) async fn write(
    archive: &dyn Archive,
    content: &Content,
    known: Option<Standing>,
) -> Result<Standing, ArchiveError> {
    match known {
        Some(Standing::Erased) => Ok(Standing::Erased),
        Some(Standing::AtLeast { version, replaced }) if version >= *content.version() => {
            let kept_already = replaced.as_ref().is_some_and(|kept| {
                kept.edit_time() == content.version().edit_time() && kept >= content.version()
            });
            if !kept_already {
                keep_if_older(archive, content, &version).await?;
            }
            Ok(Standing::AtLeast { version, replaced })
        }
        Some(Standing::AtLeast { .. }) | None if content.is_edit() => write_edit(archive, content).await,
        Some(Standing::AtLeast { .. }) | None => write_first(archive, content).await,
    }
}

/// A version nobody edited: whatever it replaces has the same edit time, so nothing has to be kept before.
async fn write_first(archive: &dyn Archive, content: &Content) -> Result<Standing, ArchiveError> {
    let outcome = archive.write(content.if_newer()).await?;
    settle(archive, content, outcome).await
}

/// What follows once [`Content::if_newer`] was written.
pub(super) async fn settle(
    archive: &dyn Archive,
    content: &Content,
    outcome: WriteOutcome,
) -> Result<Standing, ArchiveError> {
    archive::settle(archive, content.if_newer(), &outcome).await?;
    match outcome {
        WriteOutcome::Applied => Ok(Standing::AtLeast { version: content.version().clone(), replaced: None }),
        WriteOutcome::Rejected(stored) => lost(archive, content, &stored).await,
    }
}

async fn write_edit(archive: &dyn Archive, content: &Content) -> Result<Standing, ArchiveError> {
    loop {
        let stored = archive.get(content.key()).await?;
        let current = stored.as_ref().and_then(stored_version);
        if let Some(stored) = &stored
            && (stored.is_erased() || current.as_ref().is_some_and(|current| current >= content.version()))
        {
            archive::settle_absent(archive, content.if_newer(), stored).await?;
            return lost(archive, content, stored).await;
        }
        let mut replaced = None;
        if let (Some(stored), Some(current)) = (&stored, &current)
            && current.edit_time() < content.version().edit_time()
            && let Some(revision) = revision_of(stored)
        {
            archive::write(archive, &revision).await?;
            replaced = Some(current.clone());
        }
        match archive.write(&content.if_unchanged(current.as_ref())).await? {
            WriteOutcome::Applied => {
                return Ok(Standing::AtLeast { version: content.version().clone(), replaced });
            }
            // Somebody wrote in between; each round, somebody's version has grown, so this ends.
            WriteOutcome::Rejected(_) => {}
        }
    }
}

/// The row has this version or a greater one.
async fn lost(archive: &dyn Archive, content: &Content, stored: &Item) -> Result<Standing, ArchiveError> {
    if stored.is_erased() {
        return Ok(Standing::Erased);
    }
    let Some(version) = stored_version(stored) else {
        // A guard on the content only fails against content.
        return Err(ArchiveError::Unavailable("a row without content refused content".into()));
    };
    if version == *content.version() {
        counter!(ARCHIVE_DUPLICATES).increment(1);
    }
    keep_if_older(archive, content, &version).await?;
    Ok(Standing::AtLeast { version, replaced: None })
}

async fn keep_if_older(
    archive: &dyn Archive,
    content: &Content,
    winner: &ContentVersion,
) -> Result<(), ArchiveError> {
    if content.version().edit_time() < winner.edit_time() {
        archive::write(archive, &content.as_revision()).await?;
    }
    Ok(())
}
