//! Stores the files that an export contains, as slackdump's exports do: only files that a stored message
//! shares, and only if their bytes match what Slack announced. The other files are downloaded from Slack.

use std::io::{self, Read};

use bytes::Bytes;
use ports::archive::{ArchiveError, ArchiveExt, Item, ItemKey, Update, WriteOutcome};
use ports::files::{FileKey, Published};
use rules::file::canvas;
use rules::file::object::OWN;
use rules::file::row::{self, MAX_SHARES, Share, StoredBytes};
use rules::file::{FileJob, FileObject, FileState};
use slack::ids::{FileId, TeamId, UserId};
use tokio::sync::mpsc;

use super::layout::EntryIndex;
use super::messages::{ExportedUploads, send};
use super::problem::{Problem, ProblemKind};
use super::source::{EntryTooLarge, ExportEntries};
use super::{FileTarget, Import, ImportError, ImportFiles, ImportNotice, on_thread};
use crate::failure::PortError;
use crate::file_downloader::bytes::{DigestedBytes, HEAD_BYTES, begins_a_page};
use crate::file_downloader::erased::forget_file;
use crate::store::write_changed;

/// Bytes read in one chunk.
const CHUNK_BYTES: usize = 256 * 1024;

impl From<PortError> for ImportError {
    fn from(error: PortError) -> Self {
        match error {
            PortError::Archive(error) => error.into(),
            PortError::Files(error) => error.into(),
            PortError::Queue(error) => error.into(),
        }
    }
}

impl Import<'_> {
    /// Stores the files that messages share.
    pub(super) async fn uploads(
        &mut self,
        mut source: Box<dyn ExportEntries>,
        entries: impl Fn(&FileId) -> Option<EntryIndex>,
        wanted: ExportedUploads,
    ) -> Result<Box<dyn ExportEntries>, ImportError> {
        let wanted = wanted.into_iter();
        let wanted: Vec<_> = wanted.filter_map(|(id, shares)| Some((entries(&id.1)?, id, shares))).collect();
        if matches!(self.target.files, ImportFiles::Counted) {
            self.sum.files += wanted.len() as u64;
            return Ok(source);
        }
        let packed_bytes =
            |source: &dyn ExportEntries, entry: EntryIndex| source.entries()[entry].packed_bytes;
        // It is known which files are shared only once all messages are read.
        self.progress.total_bytes +=
            wanted.iter().map(|(entry, _, _)| packed_bytes(&*source, *entry)).sum::<u64>();
        for (entry, (team, file), shares) in wanted {
            source = self.upload(source, entry, &team, &file, &shares).await?;
            self.progress.read_bytes += packed_bytes(&*source, entry);
            (self.notices)(ImportNotice::Progress(self.progress));
        }
        Ok(source)
    }

    async fn upload(
        &mut self,
        source: Box<dyn ExportEntries>,
        entry: EntryIndex,
        team: &TeamId,
        file: &FileId,
        shares: &[Share],
    ) -> Result<Box<dyn ExportEntries>, ImportError> {
        let (archive, ImportFiles::Imported(target), Some(share)) =
            (&*self.target.archive, &self.target.files, shares.first())
        else {
            return Ok(source);
        };
        let keys = [ItemKey::file(team, file), ItemKey::message(team, &share.channel, &share.ts)];
        let mut rows = archive.get_all(&[&keys[0], &keys[1]]).await?.into_iter();
        let (row, message) = (rows.next().flatten(), rows.next().flatten());
        let object = message.as_ref().and_then(|message| object(message, file));
        let is_erased = row.as_ref().is_some_and(Item::is_erased);
        let Some(object) = object.filter(|_| !is_erased) else { return Ok(source) };
        let stored_key = row.as_ref().and_then(|row| row::matching_key(row, team, &object));
        let (source, key, held) = match stored_key {
            Some(key) => (source, key, None),
            None => {
                let key = FileKey::shared(team, &share.channel, &share.ts, file);
                let is_taken = row.as_ref().is_some_and(|row| row::has_key(row, file, &key));
                let version = || key.version(&object.fingerprint()[..8]);
                let key = if is_taken { version().unwrap_or(key) } else { key };
                // The row names the bytes before they are stored, so that an erasure finds them at any time.
                let own_source = object.source(team).unwrap_or_else(|| OWN.to_owned());
                archive.write(&canvas::expected(team, file, &key, &own_source)).await?;
                let (source, digest) = self.store_bytes(source, entry, target, &object, &key).await?;
                let Some(digest) = digest else {
                    self.send_download_job(target, team, share, message.as_ref(), object).await?;
                    return Ok(source);
                };
                // An export that names its own path instead of Slack's address means the file with this ID at
                // Slack's own address.
                let held = digest.into_held_bytes(&key, own_source);
                (source, key, Some(held))
            }
        };
        if !self.write_held(team, &object, shares, key, held, row).await? {
            self.send_download_job(target, team, share, message.as_ref(), object).await?;
            return Ok(source);
        }
        let archive = &*self.target.archive;
        // Its message may have been erased while the file was read.
        if archive.get_all(&[&keys[0], &keys[1]]).await?.iter().flatten().any(Item::is_erased) {
            forget_file(archive, &*target.files, team, share, &object, None).await?;
        } else {
            self.sum.files += 1;
        }
        Ok(source)
    }

    /// Requests a file from Slack.
    async fn send_download_job(
        &mut self,
        target: &FileTarget,
        team: &TeamId,
        share: &Share,
        message: Option<&Item>,
        object: FileObject,
    ) -> Result<(), ImportError> {
        let user = message.and_then(rules::message::author);
        let user = user.and_then(|user| UserId::parse(user).ok());
        let (team, share) = (team.clone(), share.clone());
        let job = FileJob { team, share, user, object, refresh: false, version: None };
        send(&*target.queue, vec![job.outgoing()]).await?;
        self.sum.files += 1;
        Ok(())
    }

    /// Writes a file's row, which was `row`, then the messages that share it. Returns `false` if the file is no longer stored.
    async fn write_held(
        &self,
        team: &TeamId,
        object: &FileObject,
        shares: &[Share],
        key: FileKey,
        held: Option<StoredBytes>,
        row: Option<Item>,
    ) -> Result<bool, ArchiveError> {
        let archive = &*self.target.archive;
        let is_deleted = row.as_ref().is_some_and(row::is_deleted);
        let still_held = row.filter(|_| held.is_none()).and_then(|row| row::still_stored(&row, &object.id));
        let seen = shares.iter().take(MAX_SHARES).map(|share| row::seen(team, object, Some(share)));
        let mut updates: Vec<Update> = seen.collect();
        updates.extend(held.map(|held| row::stored(team, &object.id, &held)));
        for update in &updates {
            write_changed(archive, std::slice::from_ref(update)).await?;
        }
        if let Some(still_held) = still_held
            && archive.write(&still_held).await? != WriteOutcome::Applied
        {
            return Ok(false);
        }
        let state = FileState::Stored(key);
        let messages = shares.iter().map(|share| row::on_message(team, share, &object.id, &state));
        let deleted = shares.iter().filter(|_| is_deleted);
        let marks = deleted.map(|share| row::deleted_on_message(team, share, &object.id));
        write_changed(archive, &messages.chain(marks).collect::<Vec<_>>()).await?;
        Ok(true)
    }

    /// Writes the bytes of an entry to the store of files, unless they differ from what Slack announced.
    async fn store_bytes(
        &mut self,
        source: Box<dyn ExportEntries>,
        entry: EntryIndex,
        target: &FileTarget,
        object: &FileObject,
        key: &FileKey,
    ) -> Result<(Box<dyn ExportEntries>, Option<DigestedBytes>), ImportError> {
        let path = source.entries()[entry].name.clone();
        let (sender, mut receiver) = mpsc::channel(4);
        let reading = on_thread(source, move |source| read(source, entry, &sender));
        let expects_page = object.may_be_html();
        let writing = async move {
            let mut writer = target.files.create(key).await?;
            let (mut digest, mut head) = (DigestedBytes::default(), Vec::with_capacity(HEAD_BYTES));
            while let Some(chunk) = receiver.recv().await {
                let chunk: Bytes = match chunk {
                    Ok(chunk) => chunk,
                    Err(error) => return Ok(Err(Some(error))),
                };
                if head.len() < HEAD_BYTES {
                    head.extend_from_slice(&chunk[..chunk.len().min(HEAD_BYTES - head.len())]);
                }
                digest.add(&chunk);
                writer.write(chunk).await?;
            }
            let is_page = !expects_page && begins_a_page(&head);
            if is_page || object.exact_size_bytes().is_some_and(|expected| expected != digest.size_bytes) {
                return Ok(Err(None));
            }
            match writer.publish().await? {
                Published::New => Ok(Ok(digest)),
                // An earlier import was interrupted, or other bytes are stored under this key.
                Published::AlreadyThere => {
                    let mut existing = DigestedBytes::default();
                    let Some(mut reader) = target.files.open(key).await? else { return Ok(Err(None)) };
                    while let Some(chunk) = reader.next().await? {
                        existing.add(&chunk);
                    }
                    Ok(Ok(existing))
                }
            }
        };
        let (read, written) = tokio::join!(reading, writing);
        let (source, ()) = read?;
        let written: Result<Result<DigestedBytes, Option<io::Error>>, ImportError> = written;
        match written? {
            Ok(digest) => Ok((source, Some(digest))),
            Err(broken) => {
                if let Some(error) = broken {
                    let is_large = EntryTooLarge::is_cause(&error);
                    let kind = if is_large { ProblemKind::TooLarge } else { ProblemKind::BrokenZip };
                    self.problem(&Problem::new(kind, path, error.to_string()));
                }
                Ok((source, None))
            }
        }
    }
}

/// Sends the bytes of an entry. It ends early if the receiver is dropped.
fn read(source: &mut dyn ExportEntries, entry: EntryIndex, sender: &mpsc::Sender<io::Result<Bytes>>) {
    let copied = source.open(entry).and_then(|mut bytes| {
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            (&mut bytes).take(CHUNK_BYTES as u64).read_to_end(&mut chunk)?;
            if chunk.is_empty() || sender.blocking_send(Ok(chunk.into())).is_err() {
                return Ok(());
            }
        }
    });
    if let Err(error) = copied {
        // If the receiver was dropped, it reports the error.
        drop(sender.blocking_send(Err(error)));
    }
}

fn object(message: &Item, file: &FileId) -> Option<FileObject> {
    rules::message::files(message).iter().filter_map(FileObject::read).find(|object| object.id == *file)
}
