//! Removes data that was stored for a message or a person erased meanwhile.
//!
//! Bytes are stored before a row refers to them, and an erasure deletes the bytes that rows refer to. So a
//! worker that stored bytes and then finds the message erased deletes them. Each step may be repeated: the
//! job of an erased message does nothing else.

use std::collections::BTreeSet;

use ports::archive::{Archive, Item, ItemKey, Query, key};
use ports::files::{FileKey, Files};
use rules::file::FileObject;
use rules::file::image::{self, ImageJob, ImageOwner};
use rules::file::row::{self, MAX_SHARES, Share};
use slack::ids::TeamId;

use super::unshared;
use crate::failure::PortError;

/// Deletes the bytes stored for an erased message, and the file itself if no other message shares it. `key` is
/// the key of a version that was stored for the message under another name.
pub(crate) async fn forget_file(
    archive: &dyn Archive,
    files: &dyn Files,
    team: &TeamId,
    share: &Share,
    object: &FileObject,
    key: Option<FileKey>,
) -> Result<(), PortError> {
    let own = FileKey::shared(team, &share.channel, &share.ts, &object.id);
    let mut stored: BTreeSet<FileKey> = own.version(&object.fingerprint()[..8]).into_iter().collect();
    stored.insert(own);
    stored.extend(key);
    loop {
        let file = archive.get(&ItemKey::file(team, &object.id)).await?.filter(|file| !file.is_erased());
        let named = file.as_ref().map(|file| row::keys(file, &object.id)).unwrap_or_default();
        for key in stored.difference(&named) {
            files.delete(key).await?;
        }
        let Some(file) = file else { break };
        if is_shared(archive, team, &file, share).await?
            || unshared::remove(archive, files, team, &file).await?.is_some()
        {
            break;
        }
    }
    unshared::finish_removal(archive, files, team, &object.id).await?;
    Ok(())
}

/// Whether another message that is not erased shares the file. A missing message may still arrive, and a full
/// row may not list every message.
async fn is_shared(
    archive: &dyn Archive,
    team: &TeamId,
    file: &Item,
    erased: &Share,
) -> Result<bool, PortError> {
    let shares: Vec<Share> = row::shares(file).collect();
    if shares.len() >= MAX_SHARES {
        return Ok(true);
    }
    let others = shares.iter().filter(|share| *share != erased);
    let others: Vec<ItemKey> =
        others.map(|share| ItemKey::message(team, &share.channel, &share.ts)).collect();
    let others = archive.get_all(&others.iter().collect::<Vec<_>>()).await?;
    Ok(others.iter().any(|message| message.as_ref().is_none_or(|message| !message.is_erased())))
}

/// Deletes the picture of an erased person, unless another person has it too.
pub(super) async fn forget_picture(
    archive: &dyn Archive,
    files: &dyn Files,
    job: &ImageJob,
    picture: &FileKey,
) -> Result<(), PortError> {
    let ImageOwner::User(_) = job.owner else { return Ok(()) };
    let mut people = Query::partition(key::users(&job.team));
    loop {
        let page = archive.query(&people).await?;
        let has_picture = |person: &Item| !person.is_erased() && image::keys(person).contains(picture);
        if page.items.iter().any(|person| person.key != job.key() && has_picture(person)) {
            return Ok(());
        }
        match page.next {
            Some(next) => people.after = Some(next),
            None => break,
        }
    }
    Ok(files.delete(picture).await.map(drop)?)
}
