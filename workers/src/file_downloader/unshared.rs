//! Removes files that no message shares any more, by whichever process finds out.
//!
//! A message may begin to share a file at any moment. So a file is gone in one step: its row is deleted if nothing was written to
//! it since it was read. A message that shares a file which is held is written to the same row, and the message says where the bytes
//! are only if the row still says so then ([`row::still_held`]); else the file is downloaded anew, to a place of its own. The keys
//! of the bytes are written down before, so that another process can end what a killed one began.

use std::collections::BTreeSet;

use ports::archive::{Archive, ArchiveExt, Item, ItemKey};
use ports::files::{FileKey, Files};
use rules::file::row;
use slack::ids::{FileId, TeamId};

use super::erased::ForgetError;

/// Where bytes of a file may be that no message shares: where its row says, and where a message's download stores them
/// before the row says so.
pub(crate) fn places(team: &TeamId, file: &Item, id: &FileId) -> BTreeSet<FileKey> {
    let mut keys = row::keys(file, id);
    keys.extend(row::shares(file).map(|share| FileKey::shared(team, &share.channel, &share.ts, id)));
    keys
}

/// Removes a file by its row. Answers how many bytes it had; `None` if the row has changed: a message may share it now.
pub(crate) async fn remove(
    archive: &dyn Archive,
    files: &dyn Files,
    team: &TeamId,
    file: &Item,
) -> Result<Option<u64>, ForgetError> {
    let Ok(id) = FileId::parse(&file.key.timestamp) else { return Ok(Some(0)) };
    archive.write(&row::unshared(team, &id, &places(team, file, &id))).await?;
    let is_removed = archive.delete_unchanged(file).await?;
    let bytes = finish(archive, files, team, &id).await?;
    Ok(is_removed.then_some(bytes))
}

/// Deletes what is left of a file that was removed, unless its row names it: then it was not removed, or is there again.
/// Answers how many bytes that was.
pub(crate) async fn finish(
    archive: &dyn Archive,
    files: &dyn Files,
    team: &TeamId,
    id: &FileId,
) -> Result<u64, ForgetError> {
    let Some(left) = archive.get(&ItemKey::unshared_file(team, id)).await? else { return Ok(0) };
    let file = archive.get(&ItemKey::file(team, id)).await?;
    let named = file.map(|file| row::keys(&file, id)).unwrap_or_default();
    let mut bytes = 0;
    for key in row::unshared_keys(&left).filter(|key| !named.contains(key)) {
        bytes += files.open(&key).await?.map_or(0, |reader| reader.size_bytes());
        files.delete(&key).await?;
    }
    archive.delete_unchanged(&left).await?;
    Ok(bytes)
}
