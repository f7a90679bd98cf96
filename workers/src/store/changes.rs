//! The changes of many events. A plain new message is one write that reads nothing.

use futures_util::future::join_all;
use ports::archive::{Archive, ArchiveError, ArchiveExt, Update, WriteOutcome};
use rules::Change;
use rules::message::{Content, KeptVersions};

use super::versions::{self, WrittenVersion};

/// Writes the changes of many events: what each begins with together, the rest side by side. One result per event, in their
/// order.
pub(crate) async fn write(archive: &dyn Archive, events: &[&[Change]]) -> Vec<Result<(), ArchiveError>> {
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

/// How many of an event's changes can be written before anything is read: all of a plain message.
fn beginning(changes: &[Change]) -> usize {
    // What a second content does depends on how the first one fared.
    match changes.iter().position(|change| matches!(change, Change::Content(_))) {
        Some(index) if first_change(&changes[index..]).is_some() => index,
        Some(index) => index + 1,
        None => changes.len(),
    }
}

/// The change of a message behind an event's beginning: content that most likely replaces another.
fn first_change(changes: &[Change]) -> Option<&Content> {
    let first_content = changes.iter().find_map(|change| match change {
        Change::Content(content) => Some(&**content),
        Change::Register(_) => None,
    });
    first_content.filter(|content| content.is_change())
}

/// A change as one update that reads nothing first.
fn update(change: &Change) -> &Update {
    match change {
        Change::Content(content) => content.if_absent(),
        Change::Register(update) => update,
    }
}

/// Does what is left of an event, given what became of its beginning and of the change behind that.
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
                before = Some((content, versions::settle(archive, content, outcome?).await?));
            }
            (Change::Content(content), None) => {
                let standing = match written.take() {
                    Some(standing) => standing?,
                    None => versions::write(archive, content, before.take()).await?,
                };
                before = Some((content, standing));
            }
        }
    }
    Ok(())
}
