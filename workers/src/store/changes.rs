//! Writes the changes of many events. A plain new message takes one write without a read.

use futures_util::future::join_all;
use ports::archive::rows::USER_GROUP;
use ports::archive::{Archive, ArchiveError, ArchiveExt, Update, WriteOutcome};
use rules::Change;
use rules::message::{Content, KeptVersions};

use super::versions::{self, WrittenVersion};

/// Writes the changes of many events. Returns one result per event, in their order.
pub(crate) async fn write(archive: &dyn Archive, events: &[&[Change]]) -> Vec<Result<(), ArchiveError>> {
    let listings: Vec<&Update> = events.iter().filter_map(|changes| group_listing(changes)).collect();
    let mut listed = archive.write_all(&listings).await.into_iter();
    let failures: Vec<Option<ArchiveError>> = events
        .iter()
        .map(|changes| group_listing(changes).and_then(|_| listed.next()).and_then(Result::err))
        .collect();
    let rest = events.iter().zip(&failures).map(|(changes, failure)| match failure {
        Some(_) => &[],
        None => &changes[usize::from(group_listing(changes).is_some())..],
    });
    let written = write_listed(archive, &rest.collect::<Vec<_>>()).await;
    failures.into_iter().zip(written).map(|(failure, written)| failure.map_or(written, Err)).collect()
}

/// The update with which an event about a user group begins. It is written before the others: the eraser finds the
/// rows of a person as a member by the groups, also between two deliveries of the event.
fn group_listing(changes: &[Change]) -> Option<&Update> {
    changes.first().map(update).filter(|update| update.key.item_id.starts_with(USER_GROUP.prefix()))
}

/// Writes the beginnings of all events together, the rest concurrently.
async fn write_listed(archive: &dyn Archive, events: &[&[Change]]) -> Vec<Result<(), ArchiveError>> {
    let beginnings: Vec<&Update> =
        events.iter().flat_map(|changes| changes.iter().take(beginning(changes)).map(update)).collect();
    let changed: Vec<&Content> = events.iter().filter_map(|changes| first_change(changes)).collect();
    let mut begun = archive.write_all(&beginnings).await.into_iter();
    let mut written = versions::write_changes(archive, &changed).await.into_iter();
    let finishing = events.iter().map(|changes| {
        let begun = begun.by_ref().take(beginning(changes)).collect();
        let written = first_change(changes).and_then(|_| written.next());
        finish(archive, changes, begun, written)
    });
    join_all(finishing).await
}

/// The number of an event's changes that can be written without a read: all changes of a plain message.
fn beginning(changes: &[Change]) -> usize {
    // The effect of a second content depends on the result of the first one.
    match changes.iter().position(|change| matches!(change, Change::Content(_))) {
        Some(index) if first_change(&changes[index..]).is_some() => index,
        Some(index) => index + 1,
        None => changes.len(),
    }
}

/// The message change after an event's beginning: content that probably replaces other content.
fn first_change(changes: &[Change]) -> Option<&Content> {
    let first_content = changes.iter().find_map(|change| match change {
        Change::Content(content) => Some(&**content),
        Change::Register(_) => None,
    });
    first_content.filter(|content| content.is_change())
}

/// A change as one update without a read.
fn update(change: &Change) -> &Update {
    match change {
        Change::Content(content) => content.if_absent(),
        Change::Register(update) => update,
    }
}

/// Writes the rest of an event, given the results of its beginning and of the change after it.
async fn finish(
    archive: &dyn Archive,
    changes: &[Change],
    begun: Vec<Result<WriteOutcome, ArchiveError>>,
    mut written: Option<Result<KeptVersions, ArchiveError>>,
) -> Result<(), ArchiveError> {
    let mut begun = begun.into_iter();
    let mut before: Option<WrittenVersion<'_>> = None;
    for change in changes {
        match (change, begun.next()) {
            (Change::Register(_), Some(outcome)) => drop(outcome?),
            (Change::Register(update), None) => drop(archive.write(update).await?),
            (Change::Content(content), Some(outcome)) => {
                before = Some((content, versions::finish_insert(archive, content, outcome?).await?));
            }
            (Change::Content(content), None) => {
                let kept_versions = match written.take() {
                    Some(kept_versions) => kept_versions?,
                    None => versions::write(archive, content, before.take()).await?,
                };
                before = Some((content, kept_versions));
            }
        }
    }
    Ok(())
}
