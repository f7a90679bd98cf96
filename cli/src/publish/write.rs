//! Writes the files of a site in batches: the paths are stored first, then the files are replaced whole, and
//! their hashes are stored last. A run that is killed leaves complete files, and knows each of them.
//!
//! A batch is on disk before its files get their names, and the names are on disk before the hashes are stored. Both
//! take one sync of the file system instead of one for each file, where the system can do that.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};
use slack::hex::to_hex;
use slack::ids::Ts;

use super::PublishError;
use super::state::{COPIES, PARTIAL_FOLDER, STATE_FOLDER, SiteState, SiteUnit, mark_replies};
use crate::export::copied::OpenedFile;

/// Bytes of a batch: few enough for the memory, and enough that its syncs cost little.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Files that are copied at once.
const BATCH_COPIES: usize = 500;

/// Bytes that are read at once of a file that may be large.
const PIECE_BYTES: usize = 64 * 1024;

/// Bytes of a hash that are kept.
const HASH_BYTES: usize = 16;

#[derive(Debug, Default)]
pub(super) struct SiteFile {
    /// The path below the site's folder.
    pub(super) path: String,
    pub(super) content: Vec<u8>,
    /// Whether the sitemap lists it.
    pub(super) is_listed: bool,
    /// The time of the newest message or edit on it.
    pub(super) changed: Option<String>,
    /// The root of the thread, if it is the first page of one.
    pub(super) root_ts: Option<Ts>,
    /// What it shows, if it is a page of a channel's messages.
    pub(super) part: Option<MonthPart>,
}

/// What a page of a channel's messages shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MonthPart {
    pub(super) first: Ts,
    pub(super) last: Ts,
    pub(super) messages: u32,
    /// The addresses of the pages before and after it.
    pub(super) older: Option<String>,
    pub(super) newer: Option<String>,
}

/// A unit whose files are all in the batch.
#[derive(Debug, Default)]
pub(super) struct DoneUnit {
    pub(super) unit: SiteUnit,
    pub(super) messages: u32,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
    pub(super) tags: Vec<(String, String)>,
    /// The paths that the unit has now.
    pub(super) paths: BTreeSet<String>,
    /// The roots whose threads have a page now and had none before, or the reverse.
    pub(super) roots: Vec<String>,
    /// The pages of threads and of days that were rendered, with the tags of each.
    pub(super) rendered: Vec<(String, Option<String>)>,
    /// The pages of the days that were not read.
    pub(super) kept: BTreeSet<String>,
}

/// What a run wrote.
#[derive(Debug, Default)]
pub(super) struct WriteCounts {
    /// The files that were rendered, changed or not.
    pub(super) rendered: u64,
    /// The syncs of files and of the file system, without those of the state.
    pub(super) syncs: u64,
    pub(super) written: BTreeSet<String>,
    pub(super) deleted: BTreeSet<String>,
}

/// A file that waits to be written.
struct BatchedFile {
    unit: SiteUnit,
    file: SiteFile,
    hash: String,
    is_changed: bool,
    /// Where its bytes are until it has its name.
    partial: PathBuf,
    /// The tag of a copy.
    copy_tag: Option<String>,
}

/// Writes the files of a batch while the next pages are rendered: creating a file takes as long as rendering a thread.
/// What waits is less than a batch.
struct PartialFiles {
    sender: Sender<(PathBuf, Vec<u8>)>,
    thread: JoinHandle<io::Result<()>>,
}

impl PartialFiles {
    fn new() -> Self {
        let (sender, files) = channel::<(PathBuf, Vec<u8>)>();
        let write = move || files.iter().try_for_each(|(path, content)| create(&path)?.write_all(&content));
        Self { sender, thread: thread::spawn(write) }
    }

    fn write(&self, path: PathBuf, content: Vec<u8>) {
        // If the thread has ended, its result says why.
        drop(self.sender.send((path, content)));
    }

    /// Waits until all files are written.
    fn finish(self) -> io::Result<()> {
        drop(self.sender);
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| Err(io::Error::other("the thread that writes the files has panicked")))
    }
}

/// Writes into the folder of a site; without a folder, only counts.
pub(super) struct SiteWriter {
    folder: Option<PathBuf>,
    files: Vec<BatchedFile>,
    done: Vec<DoneUnit>,
    bytes: usize,
    partial: Option<PartialFiles>,
    /// The paths of the copies of the batch, by their tags.
    staged: HashMap<String, String>,
    pub(super) counts: WriteCounts,
}

impl SiteWriter {
    pub(super) fn new(folder: Option<PathBuf>) -> Result<Self, PublishError> {
        if let Some(folder) = &folder {
            let partial = folder.join(STATE_FOLDER).join(PARTIAL_FOLDER);
            // Files of a run that was killed.
            match fs::remove_dir_all(&partial) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                Ok(()) | Err(_) => fs::create_dir_all(&partial)?,
            }
        }
        let counts = WriteCounts::default();
        let (files, done, staged) = (Vec::new(), Vec::new(), HashMap::new());
        Ok(Self { folder, files, done, bytes: 0, partial: None, staged, counts })
    }

    /// The folder of the site; `None` in a run that writes nothing.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Adds a file of a unit.
    pub(super) fn put(
        &mut self,
        state: &mut SiteState,
        unit: &SiteUnit,
        mut file: SiteFile,
    ) -> Result<(), PublishError> {
        self.counts.rendered += 1;
        let hash = hash_of(&file.content);
        let is_changed = known_hash(state.db(), &file.path)?.as_ref() != Some(&hash);
        let partial = self.partial_path(&self.files.len().to_string());
        // Nothing needs the content of an unchanged file.
        let content = std::mem::take(&mut file.content);
        self.bytes += file.path.len();
        if is_changed {
            self.bytes += content.len();
            if self.folder.is_some() {
                self.partial.get_or_insert_with(PartialFiles::new).write(partial.clone(), content);
            }
        }
        self.files.push(BatchedFile { unit: unit.clone(), file, hash, is_changed, partial, copy_tag: None });
        if self.bytes >= BATCH_BYTES { self.flush(state) } else { Ok(()) }
    }

    /// Copies the bytes of a file, which get their place with the batch.
    pub(super) async fn stage(
        &mut self,
        state: &mut SiteState,
        tag: &str,
        path: &str,
        opened: OpenedFile,
    ) -> Result<(), PublishError> {
        let partial = self.partial_path(&format!("copy-{}", self.staged.len()));
        let hash = match self.folder {
            Some(_) => {
                let mut copy = HashedFile { file: create(&partial)?, hash: Sha256::new() };
                opened.copy_to::<PublishError>(&mut copy).await?;
                shortened(copy.hash)
            }
            // Its hash is known once all of it is read.
            None => String::new(),
        };
        let is_changed = known_hash(state.db(), path)?.as_ref() != Some(&hash);
        self.staged.insert(tag.to_owned(), path.to_owned());
        self.files.push(BatchedFile {
            unit: SiteUnit { channel: String::new(), month: COPIES.to_owned() },
            file: SiteFile { path: path.to_owned(), ..SiteFile::default() },
            hash,
            is_changed,
            partial,
            copy_tag: Some(tag.to_owned()),
        });
        if self.staged.len() >= BATCH_COPIES { self.flush(state) } else { Ok(()) }
    }

    /// The path of a file of the batch until it has its name; empty in a run that writes nothing.
    fn partial_path(&self, name: &str) -> PathBuf {
        let folder = self.folder.as_ref();
        folder.map(|folder| folder.join(STATE_FOLDER).join(PARTIAL_FOLDER).join(name)).unwrap_or_default()
    }

    /// The path of a copy of the batch.
    pub(super) fn staged(&self, tag: &str) -> Option<&str> {
        self.staged.get(tag).map(String::as_str)
    }

    /// Adds the end of a unit, after its files.
    pub(super) fn finish(&mut self, state: &mut SiteState, done: DoneUnit) -> Result<(), PublishError> {
        self.done.push(done);
        if self.done.len() >= BATCH_UNITS { self.flush(state) } else { Ok(()) }
    }

    /// Writes what was added.
    pub(super) fn flush(&mut self, state: &mut SiteState) -> Result<(), PublishError> {
        let (files, done) = (std::mem::take(&mut self.files), std::mem::take(&mut self.done));
        self.bytes = 0;
        self.staged.clear();
        if files.is_empty() && done.is_empty() {
            return Ok(());
        }
        self.partial.take().map_or(Ok(()), PartialFiles::finish)?;
        let changed: Vec<&BatchedFile> = files.iter().filter(|file| file.is_changed).collect();
        if !changed.is_empty() {
            state.atomically(|db| changed.iter().try_for_each(|file| store(db, file, None)))?;
            if let Some(folder) = &self.folder {
                self.counts.syncs += give_names(folder, &changed)?;
            }
            self.counts.written.extend(changed.iter().map(|file| file.file.path.clone()));
        }
        let mut stale = Vec::new();
        for unit in &done {
            stale.extend(state.paths(&unit.unit)?.into_iter().filter(|path| !unit.paths.contains(path)));
        }
        self.remove(&stale)?;
        // A name that is lost with the power would be the page before, with the hash of this one.
        self.sync_names(!changed.is_empty() || !stale.is_empty())?;
        state.atomically(|db| {
            for file in &files {
                store(db, file, Some(&file.hash))?;
                if let Some(tag) = &file.copy_tag {
                    db.prepare_cached("INSERT OR REPLACE INTO tag (tag, value) VALUES (?1, ?2)")?
                        .execute([tag, &file.file.path])?;
                }
            }
            for unit in &done {
                finish_unit(db, unit)?;
            }
            stale.iter().try_for_each(|path| forget_page(db, path))
        })
    }

    /// Deletes files, then forgets them.
    pub(super) fn delete(&mut self, state: &mut SiteState, paths: &[String]) -> Result<(), PublishError> {
        self.remove(paths)?;
        self.sync_names(!paths.is_empty())?;
        state.atomically(|db| paths.iter().try_for_each(|path| forget_page(db, path)))
    }

    /// Syncs the names of files that were written and deleted.
    fn sync_names(&mut self, has_changed: bool) -> Result<(), PublishError> {
        if let Some(folder) = self.folder.as_ref().filter(|_| has_changed) {
            self.counts.syncs += u64::from(disk::sync_file_system(folder)?);
        }
        Ok(())
    }

    fn remove(&mut self, paths: &[String]) -> Result<(), PublishError> {
        for path in paths {
            if let Some(folder) = &self.folder {
                let file = folder.join(path);
                match fs::remove_file(&file) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                    Ok(()) | Err(_) => {}
                }
                // A folder that is not empty stays.
                let mut parent = file.parent();
                while let Some(empty) =
                    parent.filter(|parent| parent != folder && fs::remove_dir(parent).is_ok())
                {
                    parent = empty.parent();
                }
            }
            self.counts.written.remove(path);
            self.counts.deleted.insert(path.clone());
        }
        Ok(())
    }
}

impl Drop for SiteWriter {
    fn drop(&mut self) {
        // A run that failed: the next one finds nobody else in the folder of partial files.
        self.partial.take().map(PartialFiles::finish);
    }
}

/// Units of a batch: each costs little to do again, and together they bound what a killed run does again.
const BATCH_UNITS: usize = 500;

fn known_hash(db: &Connection, path: &str) -> Result<Option<String>, PublishError> {
    let mut statement = db.prepare_cached("SELECT hash FROM page WHERE path = ?1")?;
    Ok(statement.query_row([path], |row| row.get(0)).optional()?.flatten())
}

/// Stores a file, with its hash once it is written.
fn store(
    db: &Connection,
    BatchedFile { unit, file, .. }: &BatchedFile,
    hash: Option<&str>,
) -> rusqlite::Result<()> {
    let part = file.part.as_ref();
    // Until it is written, the tags are not those of its content.
    db.prepare_cached(
        "INSERT INTO page (path, channel, month, hash, is_listed, changed, root_ts, first_ts, last_ts, messages, older, newer) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO UPDATE SET channel = ?2, month = ?3, \
        hash = ?4, is_listed = ?5, changed = ?6, root_ts = ?7, first_ts = ?8, last_ts = ?9, messages = ?10, older = ?11, \
        newer = ?12, tags = CASE WHEN ?4 IS NULL THEN NULL ELSE tags END",
    )?
    .execute(params![
        file.path,
        unit.channel,
        unit.month,
        hash,
        file.is_listed,
        file.changed,
        file.root_ts.as_ref().map(Ts::as_str),
        part.map(|part| part.first.as_str()),
        part.map(|part| part.last.as_str()),
        part.map(|part| part.messages),
        part.and_then(|part| part.older.as_ref()),
        part.and_then(|part| part.newer.as_ref()),
    ])
    .map(drop)
}

fn forget_page(db: &Connection, path: &str) -> rusqlite::Result<()> {
    // It is still in the bucket to which the site is uploaded.
    db.prepare_cached(
        "INSERT OR REPLACE INTO meta (name, value) SELECT 'upload:gone:' || path, '' FROM page \
        WHERE path = ?1 AND uploaded IS NOT NULL",
    )?
    .execute([path])?;
    db.prepare_cached("DELETE FROM page WHERE path = ?1")?.execute([path]).map(drop)
}

/// Stores what a unit shows, and marks what its new and former threads change elsewhere.
fn finish_unit(db: &Connection, done: &DoneUnit) -> rusqlite::Result<()> {
    let DoneUnit { unit, messages, before, after, tags, paths: _, roots, rendered, kept } = done;
    let SiteUnit { channel, month } = unit;
    db.prepare_cached(
        "UPDATE unit SET is_dirty = 0, messages = ?3, before = ?4, after = ?5 WHERE channel = ?1 AND month = ?2",
    )?
    .execute(params![channel, month, messages, before, after])?;
    // Most tags of a unit stay. A tag that is used has its value.
    let mut unused: BTreeSet<String> = db
        .prepare_cached("SELECT tag FROM uses WHERE channel = ?1 AND month = ?2")?
        .query_map([channel, month], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for (tag, value) in tags.iter().filter(|(tag, _)| !unused.remove(tag)) {
        db.prepare_cached("INSERT INTO uses (channel, month, tag) VALUES (?1, ?2, ?3)")?
            .execute([channel, month, tag])?;
        db.prepare_cached("INSERT OR IGNORE INTO tag (tag, value) VALUES (?1, ?2)")?.execute([tag, value])?;
    }
    for tag in &unused {
        db.prepare_cached("DELETE FROM uses WHERE channel = ?1 AND month = ?2 AND tag = ?3")?
            .execute([channel, month, tag])?;
    }
    for (path, tags) in rendered {
        db.prepare_cached("UPDATE page SET tags = ?2 WHERE path = ?1")?.execute(params![path, tags])?;
    }
    roots
        .iter()
        .filter_map(|root| Ts::parse(root).ok())
        .try_for_each(|root| mark_replies(db, channel, &root, kept))
}

/// Gives files their names once they are on disk. Returns the number of syncs.
fn give_names(folder: &Path, files: &[&BatchedFile]) -> io::Result<u64> {
    let mut syncs = 1;
    if !disk::sync_file_system(&folder.join(STATE_FOLDER))? {
        files.iter().try_for_each(|file| File::open(&file.partial)?.sync_all())?;
        syncs = files.len() as u64;
    }
    for BatchedFile { file, partial, .. } in files {
        let path = folder.join(&file.path);
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            fs::create_dir_all(folder)?;
        }
        fs::rename(partial, path)?;
    }
    Ok(syncs)
}

/// Creates a file. A web server reads it, so every user may.
fn create(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    Ok(file)
}

/// A file that is hashed as it is written.
struct HashedFile {
    file: File,
    hash: Sha256,
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn shortened(hash: Sha256) -> String {
    to_hex(&hash.finalize()[..HASH_BYTES])
}

/// The hash of a file that may be too large for the memory.
pub(super) fn hash_of_file(path: &Path) -> io::Result<String> {
    let (mut file, mut hash, mut piece) = (File::open(path)?, Sha256::new(), vec![0; PIECE_BYTES]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(shortened(hash)),
            read => hash.update(&piece[..read]),
        }
    }
}

/// The hash of a file's content.
pub(super) fn hash_of(content: &[u8]) -> String {
    shortened(Sha256::new_with_prefix(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_ends_the_batch_with_its_error() {
        let folder = tempfile::tempdir().unwrap();
        let files = PartialFiles::new();
        files.write(folder.path().join("missing/0"), b"words".to_vec());
        files.write(folder.path().join("1"), b"words".to_vec());
        assert_eq!(files.finish().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
