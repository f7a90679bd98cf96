//! Writes a version of a message: it becomes the row's content, or a revision, or it was there already.
//!
//! The rules (DESIGN: revisions): the greatest version is the content; of every edit time that lost, the greatest
//! version is a revision. A version that loses feeds its revision itself. A version that is replaced is fed by the
//! edit that replaces it, before it does: so an edit reads the row first, and writes only if it is still what it read.
//! Everything else never needs to read. Each step may be repeated, and stopping between two of them loses nothing:
//! the event comes again and does the rest.

use metrics::counter;
use shared::archive::{self, Archive, ArchiveError, Attributes, Item, Update, WriteOutcome};
use shared::rules::message::{Content, revision_of, stored_version};
use shared::rules::version::ContentVersion;
use shared::telemetry::metrics::ARCHIVE_DUPLICATES;

/// How the row of a message stands after a version was written to it.
#[derive(Clone)]
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

/// What an edit has to do, given the row as it was read.
struct Replacement {
    /// What has to be kept before the content is replaced.
    revision: Option<Update>,
    replaced: Option<ContentVersion>,
    /// Writes the content if the row is still what was read.
    content: Update,
}

/// `None` where the row has this version or a greater one, or is erased.
fn plan(content: &Content, stored: Option<&Item>) -> Option<Replacement> {
    let current = stored.and_then(stored_version);
    if stored.is_some_and(Item::is_erased)
        || current.as_ref().is_some_and(|current| current >= content.version())
    {
        return None;
    }
    let update = content.if_unchanged(current.as_ref());
    // An unfurl of the same edit replaces it without a revision.
    let replaced = current.filter(|current| current.edit_time() < content.version().edit_time());
    let revision = replaced.as_ref().and(stored).and_then(revision_of);
    Some(Replacement { revision, replaced, content: update })
}

async fn write_edit(archive: &dyn Archive, content: &Content) -> Result<Standing, ArchiveError> {
    loop {
        let stored = archive.get(content.key()).await?;
        let Some(replacement) = plan(content, stored.as_ref()) else {
            let nothing = || Item { key: content.key().clone(), attributes: Attributes::new() };
            let stored = stored.unwrap_or_else(nothing);
            return settle(archive, content, WriteOutcome::Rejected(stored)).await;
        };
        if let Some(revision) = &replacement.revision {
            archive::write(archive, revision).await?;
        }
        match archive.write(&replacement.content).await? {
            WriteOutcome::Applied => return Ok(replacement.done(content)),
            // Somebody wrote in between; each round, somebody's version has grown, so this ends.
            WriteOutcome::Rejected(_) => {}
        }
    }
}

/// Writes many edits step by step together: one read, one write of revisions, one of contents. What does not go
/// through like this, because it lost or met another write, goes its own way.
pub(super) async fn write_edits(
    archive: &dyn Archive,
    contents: &[&Content],
) -> Vec<Result<Standing, ArchiveError>> {
    let keys: Vec<_> = contents.iter().map(|content| content.key()).collect();
    let stored = match archive.get_all(&keys).await {
        Ok(stored) => stored,
        Err(error) => return vec![Err(error); contents.len()],
    };
    let plans: Vec<Option<Replacement>> =
        contents.iter().zip(&stored).map(|(content, stored)| plan(content, stored.as_ref())).collect();
    let revisions: Vec<&Update> = plans.iter().flatten().filter_map(|plan| plan.revision.as_ref()).collect();
    let mut kept = archive.write_all(&revisions).await.into_iter();
    // A content may only follow a revision that is kept; without one it follows nothing.
    let ready: Vec<Result<Option<&Replacement>, ArchiveError>> = plans
        .iter()
        .map(|plan| match plan {
            Some(plan) if plan.revision.is_some() => kept.next().transpose().map(|_| Some(plan)),
            Some(plan) => Ok(Some(plan)),
            None => Ok(None),
        })
        .collect();
    let updates: Vec<&Update> = ready.iter().flatten().flatten().map(|plan| &plan.content).collect();
    let mut written = archive.write_all(&updates).await.into_iter();
    let mut standings = Vec::with_capacity(contents.len());
    for (content, ready) in contents.iter().zip(ready) {
        standings.push(match ready {
            Err(error) => Err(error),
            Ok(None) => write_edit(archive, content).await,
            Ok(Some(replacement)) => match written.next() {
                Some(Ok(WriteOutcome::Applied)) => Ok(replacement.done(content)),
                Some(Ok(WriteOutcome::Rejected(_))) | None => write_edit(archive, content).await,
                Some(Err(error)) => Err(error),
            },
        });
    }
    standings
}

impl Replacement {
    fn done(&self, content: &Content) -> Standing {
        Standing::AtLeast { version: content.version().clone(), replaced: self.replaced.clone() }
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
