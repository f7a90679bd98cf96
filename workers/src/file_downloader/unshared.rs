//! Removes files that no message shares any more. Any process may find and remove them.
//!
//! A message may start to share a file at any moment. So a file is removed in one step: its row is deleted
//! only if it has not changed since it was read. A message that shares a stored file is added to the same
//! row, and refers to the bytes only if the row still does ([`row::still_stored`]); otherwise the file is
//! downloaded again, under a new key. The keys of the bytes are stored first, so that another process can
//! complete a removal that a killed one began.

use std::collections::BTreeSet;

use ports::archive::{Archive, ArchiveExt, Item, ItemKey};
use ports::files::{FileKey, Files};
use rules::file::row;
use slack::ids::{FileId, TeamId};

use crate::failure::PortError;

/// The keys that may contain bytes of an unshared file: those of its row, and those where a message's
/// download stores bytes before the row lists them.
pub(crate) fn possible_keys(team: &TeamId, file: &Item, id: &FileId) -> BTreeSet<FileKey> {
    let mut keys = row::keys(file, id);
    keys.extend(row::shares(file).map(|share| FileKey::shared(team, &share.channel, &share.ts, id)));
    keys
}

/// Removes a file by its row. Returns its size in bytes; `None` if the row has changed, because a message may
/// share it now.
pub(crate) async fn remove(
    archive: &dyn Archive,
    files: &dyn Files,
    team: &TeamId,
    file: &Item,
) -> Result<Option<u64>, PortError> {
    let Ok(id) = FileId::parse(&file.key.timestamp) else { return Ok(Some(0)) };
    archive.write(&row::unshared(team, &id, &possible_keys(team, file, &id))).await?;
    let is_removed = archive.delete_unchanged(file).await?;
    let bytes = finish_removal(archive, files, team, &id).await?;
    Ok(is_removed.then_some(bytes))
}

/// Deletes the remaining bytes of a removed file, except those its row lists: then the file was not removed,
/// or was stored again; and the text of a removed canvas. Returns the number of deleted bytes.
pub(crate) async fn finish_removal(
    archive: &dyn Archive,
    files: &dyn Files,
    team: &TeamId,
    id: &FileId,
) -> Result<u64, PortError> {
    let keys = [ItemKey::unshared_file(team, id), ItemKey::canvas_text(team, id)];
    let mut rows = archive.get_all(&[&keys[0], &keys[1]]).await?.into_iter();
    let (left, text) = (rows.next().flatten(), rows.next().flatten());
    if left.is_none() && text.is_none() {
        return Ok(0);
    }
    let file = archive.get(&ItemKey::file(team, id)).await?;
    // A message that shares the canvas again has its text stored again, with another version of the row.
    if let Some(text) = text.filter(|_| file.is_none()) {
        archive.delete_unchanged(&text).await?;
    }
    let Some(left) = left else { return Ok(0) };
    let named = file.map(|file| row::keys(&file, id)).unwrap_or_default();
    let mut bytes = 0;
    for key in row::unshared_keys(&left).filter(|key| !named.contains(key)) {
        bytes += files.open(&key).await?.map_or(0, |reader| reader.size_bytes());
        files.delete(&key).await?;
    }
    archive.delete_unchanged(&left).await?;
    Ok(bytes)
}
