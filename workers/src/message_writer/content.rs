//! Writes a version of a message: it becomes the row's content, or a revision, or it was there already.
//!
//! The rules (DESIGN: revisions): the greatest version is the content; of every edit time that lost, the greatest
//! version is a revision. A version that loses feeds its revision itself. A version that is replaced is fed by the
//! edit that replaces it, before it does: so an edit reads the row first, and writes only if it is still what it read.
//! Everything else never needs to read. Each step may be repeated, and stopping between two of them loses nothing:
//! the event comes again and does the rest.

use metrics::counter;
use shared::archive::{self, Archive, ArchiveError, Item, Update, WriteOutcome};
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
enum Plan {
    /// The row has this version or a greater one, or is erased.
    Lost,
    /// Keep the revision, if there is one to keep, then write the content if the row is still what was read.
    Replace { revision: Option<Update>, replaced: Option<ContentVersion>, content: Update },
}

fn plan(content: &Content, stored: Option<&Item>) -> Plan {
    let current = stored.and_then(stored_version);
    if stored.is_some_and(Item::is_erased)
        || current.as_ref().is_some_and(|current| current >= content.version())
    {
        return Plan::Lost;
    }
    let update = content.if_unchanged(current.as_ref());
    // An unfurl of the same edit replaces it without a revision.
    let replaced = current.filter(|current| current.edit_time() < content.version().edit_time());
    let revision = replaced.as_ref().and(stored).and_then(revision_of);
    Plan::Replace { revision, replaced, content: update }
}

async fn write_edit(archive: &dyn Archive, content: &Content) -> Result<Standing, ArchiveError> {
    loop {
        let stored = archive.get(content.key()).await?;
        match (plan(content, stored.as_ref()), stored) {
            (Plan::Replace { revision, replaced, content: update }, _) => {
                if let Some(revision) = &revision {
                    archive::write(archive, revision).await?;
                }
                match archive.write(&update).await? {
                    WriteOutcome::Applied => {
                        return Ok(Standing::AtLeast { version: content.version().clone(), replaced });
                    }
                    // Somebody wrote in between; each round, somebody's version has grown, so this ends.
                    WriteOutcome::Rejected(_) => {}
                }
            }
            (Plan::Lost, Some(stored)) => {
                archive::settle_absent(archive, content.if_newer(), &stored).await?;
                return lost(archive, content, &stored).await;
            }
            (Plan::Lost, None) => {
                return Err(ArchiveError::Unavailable("an edit lost against nothing".into()));
            }
        }
    }
}

/// Writes many edits step by step together: one read, one write of revisions, one of contents. Whatever does not go
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
    let plans: Vec<Plan> =
        contents.iter().zip(&stored).map(|(content, stored)| plan(content, stored.as_ref())).collect();
    let revisions: Vec<&Update> = plans.iter().filter_map(Plan::revision).collect();
    let mut kept = archive.write_all(&revisions).await.into_iter();
    let kept: Vec<Result<(), ArchiveError>> =
        plans.iter().map(|plan| plan.revision().and_then(|_| kept.next()).transpose().map(drop)).collect();
    // A content may only follow a revision that is kept.
    let ready = |place: usize| kept[place].is_ok().then(|| plans[place].content()).flatten();
    let updates: Vec<&Update> = (0..plans.len()).filter_map(ready).collect();
    let mut written = archive.write_all(&updates).await.into_iter();
    let mut standings = Vec::with_capacity(contents.len());
    for (place, content) in contents.iter().enumerate() {
        let outcome = ready(place).and_then(|_| written.next());
        standings.push(match (&kept[place], outcome, &plans[place]) {
            (Err(error), _, _) => Err(error.clone()),
            (Ok(()), Some(Err(error)), _) => Err(error),
            (Ok(()), Some(Ok(WriteOutcome::Applied)), Plan::Replace { replaced, .. }) => {
                Ok(Standing::AtLeast { version: content.version().clone(), replaced: replaced.clone() })
            }
            (Ok(()), Some(Ok(_)) | None, _) => write_edit(archive, content).await,
        });
    }
    standings
}

impl Plan {
    fn revision(&self) -> Option<&Update> {
        match self {
            Self::Replace { revision, .. } => revision.as_ref(),
            Self::Lost => None,
        }
    }

    fn content(&self) -> Option<&Update> {
        match self {
            Self::Replace { content, .. } => Some(content),
            Self::Lost => None,
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
