//! Writes a version of a message: as the row's content or as a revision, unless it is already stored.
//!
//! The rules plan the writes, given the message as it was read ([`plan`]): first the revisions, then the row
//! if it is unchanged since the read; if it has changed, everything is planned again. A new message needs no
//! plan: it is written if there is no content yet. Each step may be repeated, and stopping between two steps
//! loses nothing: the event is delivered again and the rest is written.

use metrics::counter;
use ports::archive::{Archive, ArchiveError, ArchiveExt, Item, Update, WriteOutcome};
use ports::metrics::ARCHIVE_DUPLICATES;
use rules::message::{Content, KeptVersions, VersionPlan, plan, stored_version};

/// A written version, and the stored versions of its message since.
pub(super) type WrittenVersion<'c> = (&'c Content, KeptVersions);

/// Writes one version. `before` is another version of the same event that was already written: most events
/// contain the new and the previous version of one message, which is then read only once.
pub(super) async fn write(
    archive: &dyn Archive,
    content: &Content,
    before: Option<WrittenVersion<'_>>,
) -> Result<KeptVersions, ArchiveError> {
    match before.filter(|(before, _)| before.key() == content.key()) {
        Some((before, kept_versions)) if kept_versions.covers(content) => {
            let attributes = before.if_absent().set_if_absent.clone();
            let stored = Item { key: content.key().clone(), attributes };
            write_left_out(archive, content, &stored).await?;
            Ok(kept_versions)
        }
        Some(_) => {
            let stored = archive.get(content.key()).await?;
            write_planned(archive, content, stored).await
        }
        None => {
            let outcome = archive.write(content.if_absent()).await?;
            finish_insert(archive, content, outcome).await
        }
    }
}

/// Continues after [`Content::if_absent`] was written.
pub(super) async fn finish_insert(
    archive: &dyn Archive,
    content: &Content,
    outcome: WriteOutcome,
) -> Result<KeptVersions, ArchiveError> {
    match outcome {
        WriteOutcome::Applied => Ok(KeptVersions::default()),
        WriteOutcome::Rejected(stored) => write_planned(archive, content, Some(stored)).await,
    }
}

/// Writes one version, given its message as it was read.
pub(super) async fn write_planned(
    archive: &dyn Archive,
    content: &Content,
    mut stored: Option<Item>,
) -> Result<KeptVersions, ArchiveError> {
    loop {
        let VersionPlan { keep, row, kept_versions } = plan(content, stored.as_ref());
        for revision in &keep {
            archive.write(revision).await?;
        }
        let Some(row) = row else {
            if let Some(stored) = &stored {
                if stored_version(stored).as_ref() == Some(content.version()) {
                    counter!(ARCHIVE_DUPLICATES).increment(1);
                }
                write_left_out(archive, content, stored).await?;
            }
            return Ok(kept_versions);
        };
        match archive.write(&row).await? {
            WriteOutcome::Applied => return Ok(kept_versions),
            // Another process wrote in between. In each round some version has grown, so the loop ends.
            WriteOutcome::Rejected(now) => stored = Some(now),
        }
    }
}

/// Writes the parts of a stored message that no version removes.
async fn write_left_out(archive: &dyn Archive, content: &Content, stored: &Item) -> Result<(), ArchiveError> {
    match content.if_absent().left_out(stored) {
        Some(left_out) => archive.write(&left_out).await.map(drop),
        None => Ok(()),
    }
}

/// Writes many changes together, step by step: one read, one write of revisions, one write of rows. A change
/// that conflicts with another write is then written separately.
pub(super) async fn write_changes(
    archive: &dyn Archive,
    contents: &[&Content],
) -> Vec<Result<KeptVersions, ArchiveError>> {
    let keys: Vec<_> = contents.iter().map(|content| content.key()).collect();
    let stored = match archive.get_all(&keys).await {
        Ok(stored) => stored,
        Err(error) => return vec![Err(error); contents.len()],
    };
    let plans: Vec<VersionPlan> =
        contents.iter().zip(&stored).map(|(content, stored)| plan(content, stored.as_ref())).collect();
    let writes: Vec<_> = plans.iter().map(|plan| (&plan.keep[..], plan.row.as_ref())).collect();
    let written = write_rows_after_revisions(archive, &writes).await;
    let mut results = Vec::with_capacity(contents.len());
    for (((content, plan), written), stored) in contents.iter().zip(plans).zip(written).zip(stored) {
        results.push(match written {
            Err(error) => Err(error),
            // The row stays unchanged, except for the parts that no version removes.
            Ok(None) => write_planned(archive, content, stored).await,
            Ok(Some(WriteOutcome::Applied)) => Ok(plan.kept_versions),
            Ok(Some(WriteOutcome::Rejected(now))) => write_planned(archive, content, Some(now)).await,
        });
    }
    results
}

/// Writes what must be stored before the rows of many messages, such as their revisions, then the row of each of which
/// it is. `None`: no row.
pub(super) async fn write_rows_after_revisions(
    archive: &dyn Archive,
    writes: &[(&[Update], Option<&Update>)],
) -> Vec<Result<Option<WriteOutcome>, ArchiveError>> {
    let revisions: Vec<&Update> = writes.iter().flat_map(|(revisions, _)| *revisions).collect();
    let mut kept = archive.write_all(&revisions).await.into_iter();
    let mut ready: Vec<Result<(), ArchiveError>> = Vec::with_capacity(writes.len());
    for (revisions, _) in writes {
        let outcomes: Vec<_> = kept.by_ref().take(revisions.len()).collect();
        ready.push(outcomes.into_iter().try_for_each(|outcome| outcome.map(drop)));
    }
    let rows = writes.iter().zip(&ready).filter(|(_, ready)| ready.is_ok());
    let rows: Vec<&Update> = rows.filter_map(|((_, row), _)| *row).collect();
    let mut written = archive.write_all(&rows).await.into_iter();
    let lost = || Err(ArchiveError::Unavailable("a write was not answered".into()));
    let outcomes = writes.iter().zip(ready).map(|((_, row), ready)| {
        ready?;
        row.map(|_| written.next().unwrap_or_else(lost)).transpose()
    });
    outcomes.collect()
}
