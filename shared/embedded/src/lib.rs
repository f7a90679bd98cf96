//! The ports in a data folder: queue, archive, changes, existence and claims on one SQLite file,
//! `annalist.db`, and [`files`] in a folder next to it.
//!
//! One [`writer`] thread per process owns the only connection that writes, and commits all waiting operations
//! in one durable transaction. Readers have their own connections. Several processes may use one folder
//! concurrently: [`process_lock`] lets them detect each other. [`condition`] checks the state of the folder
//! for a person.

mod archive;
pub mod backup;
mod changes;
mod claims;
mod compact;
pub mod condition;
mod connection;
mod database_files;
mod erasures;
mod existence;
mod files;
mod operation;
mod process_lock;
mod queue;
mod reader;
mod rows;
mod scan;
mod turns;
mod writer;

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ports::archive::erasure::ErasureScope;
use ports::archive::{Archive, ArchiveError, ItemKey};
use ports::changes::Changes;
use ports::claims::{Claims, ClaimsError};
use ports::clock::SharedClock;
use ports::existence::Existence;
use ports::files::Files;
use ports::queue::{Queue, QueueError};

use archive::EmbeddedArchive;
use changes::EmbeddedChanges;
use claims::EmbeddedClaims;
pub use compact::CompactError;
use existence::EmbeddedExistence;
use files::EmbeddedFiles;
use files::moving::MovingFiles;
use process_lock::{JoinError, ProcessLock};
use queue::EmbeddedQueue;
pub use queue::QueuedJob;
use reader::ReaderPool;
use rusqlite::ErrorCode;
pub use scan::ScannedRow;
use turns::LockTurns;
use writer::WriterThread;

/// The database's name within the data folder.
pub const DATABASE_FILE: &str = "annalist.db";

/// The folder within the data folder with the locks of the processes that use it.
const PROCESSES_FOLDER: &str = "processes";

/// The file, in the folder of the processes, that a process locks while it copies the folder.
const COPYING: &str = "copy";

/// The file, in the folder of the processes, that a process locks while it moves files to a bucket or back.
const MOVING: &str = "move";

pub const FILES_FOLDER: &str = "files";

/// This version of Annalist.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder contains no archive.
    #[error("{0} holds no archive: name the folder that `annalist up` uses with --data")]
    Missing(PathBuf),
    /// The folder cannot be created or read.
    #[error("cannot use the data folder {path}: {source}; {}", next_step(source.kind()))]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A newer version wrote it.
    #[error("{0} was written by a newer version of annalist: upgrade this one")]
    Newer(PathBuf),
    /// Its queue has job numbers that no worker reaches.
    #[error(
        "the queue in {0} has job numbers that cannot be continued: `annalist backup`, then `annalist restore` into a new folder numbers its jobs anew"
    )]
    JobNumbers(PathBuf),
    /// A process of another version uses it.
    #[error(
        "{folder} is in use by annalist {theirs}, and this is annalist {ours}: stop that one first, or use its version"
    )]
    OtherVersion {
        folder: PathBuf,
        /// The version that uses it.
        theirs: String,
        ours: String,
    },
    #[error("cannot open {path}: {source}; {}", next_step_of(source))]
    Database {
        /// The file.
        path: PathBuf,
        /// SQLite's reason.
        source: rusqlite::Error,
    },
}

pub fn is_data_folder(folder: &Path) -> bool {
    let has_folder = |name| folder.join(name).is_dir();
    folder.join(DATABASE_FILE).is_file() && (has_folder(PROCESSES_FOLDER) || has_folder(FILES_FOLDER))
}

/// What to do about a folder that cannot be used.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others have the same remedy")]
fn next_step(why: ErrorKind) -> &'static str {
    match why {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room on its disk",
        ErrorKind::ReadOnlyFilesystem => "even reading takes locks in it: use a copy that can be written to",
        ErrorKind::PermissionDenied => "run annalist as the user who owns it",
        _ => "name another folder with --data",
    }
}

/// What to do about a database that cannot be opened.
fn next_step_of(why: &rusqlite::Error) -> &'static str {
    match why.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => next_step(ErrorKind::StorageFull),
        Some(ErrorCode::ReadOnly) => next_step(ErrorKind::ReadOnlyFilesystem),
        Some(ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => next_step(ErrorKind::PermissionDenied),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "try again: another process holds it",
        Some(ErrorCode::SystemIoFailure) => "the log of the system says more about its disk",
        _ => "name another folder with --data, or restore a backup into a new one",
    }
}

/// The URI of the folder with the files of a data folder; each file is stored there under its key.
///
/// # Errors
/// The system's, if it does not know the working directory.
pub fn files_uri(data: &Path) -> std::io::Result<String> {
    // Absolute: a URI has to work from every working directory.
    Ok(files::uri::file_uri(&std::path::absolute(data)?.join(FILES_FOLDER)))
}

/// An open data folder. Cloning shares it; it closes with the last clone and port.
#[derive(Clone)]
pub struct Database {
    writer: Arc<WriterThread>,
    readers: Arc<ReaderPool>,
    queue: Arc<EmbeddedQueue>,
    archive: Arc<EmbeddedArchive>,
    claims: Arc<EmbeddedClaims>,
    files: Arc<EmbeddedFiles>,
    data: Arc<Path>,
    owner: i64,
}

impl Database {
    /// Opens a data folder and creates it if it does not exist yet.
    ///
    /// # Errors
    /// [`OpenError`] says what to do next.
    pub fn open(data: &Path, clock: SharedClock) -> Result<Self, OpenError> {
        Self::open_as(VERSION, data, clock)
    }

    /// As [`Database::open`], for a process of another version of Annalist.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_as(version: &str, data: &Path, clock: SharedClock) -> Result<Self, OpenError> {
        Self::open_with(|| join(data, version), data, clock)
    }

    fn open_with(
        join: impl FnOnce() -> Result<ProcessLock, OpenError>,
        data: &Path,
        clock: SharedClock,
    ) -> Result<Self, OpenError> {
        let folder_error = |source| OpenError::Folder { path: data.to_owned(), source };
        connection::restrict_umask();
        disk::create_private_folder(data).map_err(folder_error)?;
        if let Ok(folder) = condition::folder(data)
            && folder.is_accessible_to_others()
        {
            let (data, mode) = (data.display(), format!("{:04o}", folder.mode));
            tracing::warn!(%data, mode, "other users of this machine can read the data folder: chmod 700 it");
        }
        // Before the migration: every process that uses the folder must have this version.
        let process_lock = join()?;
        let file = data.join(DATABASE_FILE);
        let processes = data.join(PROCESSES_FOLDER);
        let turns = LockTurns::open(&processes).map_err(folder_error)?;
        let writing = {
            let _opening_lock = process_lock::lock_opening(&processes).map_err(folder_error)?;
            let _waiting = turns.announce_wait();
            connection::open_for_writing(&file)?
        };
        let owner = process_lock.id();
        let files = EmbeddedFiles::new(data, owner).map_err(folder_error)?;
        files
            .remove_leftovers(|process| process_lock::is_alive(&processes, process))
            .map_err(folder_error)?;
        let writer = Arc::new(
            WriterThread::start(writing, file.clone(), process_lock, turns, Arc::clone(&clock))
                .map_err(folder_error)?,
        );
        let readers = Arc::new(ReaderPool::new(file));
        let queue = Arc::new(EmbeddedQueue::new(Arc::clone(&writer), Arc::clone(&readers), clock, owner));
        let archive = Arc::new(EmbeddedArchive::new(Arc::clone(&writer), Arc::clone(&readers)));
        let claims = Arc::new(EmbeddedClaims::new(Arc::clone(&writer), owner));
        Ok(Self { writer, readers, queue, archive, claims, files: Arc::new(files), data: data.into(), owner })
    }

    /// Opens a data folder that must already contain an archive: for readers, who would otherwise see an
    /// empty one.
    ///
    /// # Errors
    /// [`OpenError::Missing`] if the archive is missing, otherwise as [`Database::open`].
    pub fn open_existing(data: &Path, clock: SharedClock) -> Result<Self, OpenError> {
        if data.join(DATABASE_FILE).is_file() {
            let join_to_read = || {
                ProcessLock::join_to_read(&data.join(PROCESSES_FOLDER), VERSION)
                    .map_err(|error| not_joined(error, data, VERSION))
            };
            Self::open_with(join_to_read, data, clock)
        } else {
            Err(OpenError::Missing(data.into()))
        }
    }

    /// The queue in this folder.
    pub fn queue(&self) -> Arc<dyn Queue> {
        Arc::clone(&self.queue) as Arc<dyn Queue>
    }

    /// The archive in this folder.
    pub fn archive(&self) -> Arc<dyn Archive> {
        Arc::clone(&self.archive) as Arc<dyn Archive>
    }

    /// The changes of messages in this folder.
    pub fn changes(&self) -> Arc<dyn Changes> {
        Arc::new(EmbeddedChanges::new(Arc::clone(&self.writer), Arc::clone(&self.readers)))
    }

    /// The claims in this folder.
    pub fn claims(&self) -> Arc<dyn Claims> {
        Arc::clone(&self.claims) as Arc<dyn Claims>
    }

    /// The files in this folder.
    pub fn files(&self) -> Arc<dyn Files> {
        Arc::clone(&self.files) as Arc<dyn Files>
    }

    /// The files in this bucket, and those that are still in this folder.
    pub fn files_in(&self, bucket: Arc<dyn Files>) -> Arc<dyn Files> {
        Arc::new(MovingFiles { folder: self.files(), bucket })
    }

    /// The cache of the existence check in this folder.
    pub fn existence(&self) -> Arc<dyn Existence> {
        Arc::new(EmbeddedExistence::new(Arc::clone(&self.writer), Arc::clone(&self.readers)))
    }

    /// Returns the rows after a key, in the order of keys, also those that cannot be read as items. An empty page is
    /// the end.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn scan(&self, after: Option<ItemKey>, limit: usize) -> Result<Vec<ScannedRow>, String> {
        self.readers.read(move |connection| scan::page(connection, after.as_ref(), limit)).await
    }

    /// The id of this archive; a folder that was restored from it has the same one.
    pub async fn archive_id(&self) -> Result<String, ArchiveError> {
        EmbeddedChanges::new(Arc::clone(&self.writer), Arc::clone(&self.readers)).archive_id().await
    }

    /// Keeps other processes from copying this folder until the file is dropped; `None` if one does.
    pub fn lock_copying(&self) -> std::io::Result<Option<File>> {
        process_lock::try_lock(&self.data.join(PROCESSES_FOLDER), COPYING)
    }

    /// Keeps other processes from moving the files of this folder until the file is dropped; `None` if one does.
    pub fn lock_moving(&self) -> std::io::Result<Option<File>> {
        process_lock::try_lock(&self.data.join(PROCESSES_FOLDER), MOVING)
    }

    /// Returns a page of the jobs after `after` on all queues, including dead letters, in the order in which
    /// they were sent. An empty page is the end.
    pub async fn queued_jobs(&self, after: i64) -> Result<Vec<QueuedJob>, QueueError> {
        let read = self.readers.read(move |connection| queue::read_queued(connection, after));
        read.await.map_err(QueueError::Unavailable)
    }

    /// Removes jobs permanently, in any state. Returns how many still existed.
    pub async fn remove_jobs(&self, jobs: Vec<i64>) -> Result<u64, QueueError> {
        let removed = self.writer.run(move |transaction| queue::remove_queued(transaction, &jobs)).await;
        removed.map_err(|error| QueueError::Unavailable(error.0))
    }

    /// Removes the claims about erased data, except those that a process currently holds.
    pub async fn remove_claims(&self, scope: ErasureScope) -> Result<(), ClaimsError> {
        claims::remove_claims(&self.writer, scope).await
    }

    /// Rewrites the database, so that its file and its log contain no removed data. This needs the disk space
    /// of the database once more, and other processes cannot write meanwhile.
    pub async fn compact(&self) -> Result<(), CompactError> {
        let (file, processes) = (self.data.join(DATABASE_FILE), self.data.join(PROCESSES_FOLDER));
        let compacted = tokio::task::spawn_blocking(move || {
            let turns = LockTurns::open(&processes).ok();
            let _waiting = turns.as_ref().and_then(LockTurns::announce_wait);
            compact::compact(&file)
        })
        .await;
        compacted.unwrap_or_else(|stopped| Err(CompactError::Stopped(stopped.to_string())))
    }

    /// From now on this process writes with low priority: other processes that write to the folder come
    /// first.
    pub fn work_in_background(&self) {
        self.writer.work_in_background();
    }

    /// Waits until all operations passed to the writer are durable, then checkpoints the log. Later writes
    /// fail.
    pub async fn close(&self) {
        self.writer.close().await;
        self.readers.close();
    }
}

/// Announces a process of this version to the others that use a data folder.
fn join(data: &Path, version: &str) -> Result<ProcessLock, OpenError> {
    ProcessLock::join(&data.join(PROCESSES_FOLDER), version).map_err(|error| not_joined(error, data, version))
}

fn not_joined(error: JoinError, data: &Path, version: &str) -> OpenError {
    match error {
        JoinError::Io(source) => OpenError::Folder { path: data.to_owned(), source },
        JoinError::OtherVersion(theirs) => {
            OpenError::OtherVersion { folder: data.to_owned(), theirs, ours: version.to_owned() }
        }
    }
}

#[cfg(test)]
#[path = "private_tests.rs"]
mod tests;
