//! The index of messages by their words.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ports::changes::ChangeCursor;
use reader::access::HiddenChannels;
use reader::search::document::Facet;
use rusqlite::{Connection, TransactionBehavior};
use slack::ids::TeamId;
use tokio::task::{JoinError, spawn_blocking};

use crate::expression::IndexQuery;
use crate::recent_names::RecentNames;
pub use crate::schema::IndexError;
use crate::schema::{self, is_broken};
use crate::selection;
pub use crate::selection::IndexHit;
use crate::write::{self, IndexedMessage};

/// Messages per batch. A batch takes about 50 ms, so that a follower stops quickly and locks the index only
/// briefly.
pub const BATCH_SIZE: usize = 1_000;

/// An open index. Clones share the connections.
#[derive(Debug, Clone)]
pub struct SearchIndex {
    path: PathBuf,
    reader: SharedConnection,
    /// Opened by the first write: most processes only read.
    writer: SharedConnection,
    /// How long a write waits for another process that writes.
    patience: Duration,
    file: FileIdentity,
    pub(crate) names: Arc<RecentNames>,
}

/// A connection that one thread uses at a time.
#[derive(Debug, Clone, Default)]
struct SharedConnection {
    connection: Arc<Mutex<Option<Connection>>>,
    /// Serializes access, so that a task that waits for the connection blocks no thread.
    access: Arc<tokio::sync::Mutex<()>>,
}

impl SearchIndex {
    /// Opens the index in this file, without waiting for a process that writes to it. Creates a missing index, and replaces one that is broken or of another
    /// version.
    ///
    /// # Panics
    /// If the runtime shuts down while the index is opened.
    pub async fn open(path: &Path) -> Result<Self, IndexError> {
        let path = path.to_owned();
        let opened = spawn_blocking(move || {
            let connection = schema::open(&path)?;
            let file = FileIdentity::of(&path);
            let reader = SharedConnection {
                connection: Arc::new(Mutex::new(Some(connection))),
                access: Arc::default(),
            };
            let (writer, names) = (SharedConnection::default(), Arc::default());
            Ok(Self { path, reader, writer, patience: schema::BUSY_TIMEOUT, file, names })
        });
        opened.await.expect("opening does not panic")
    }

    /// Returns the open index. Opens the file if no index is open, or if the file was replaced.
    pub async fn current(open: &mut Option<Self>, path: &Path) -> Result<Self, IndexError> {
        let index = match open.take() {
            Some(index) if index.is_current() => index,
            Some(index) if index.file.is_cut(path) => {
                tracing::warn!(index = %path.display(), "the search index was cut short and is made anew");
                schema::remove(path)?;
                Self::open(path).await?
            }
            Some(_) | None => Self::open(path).await?,
        };
        Ok(open.insert(index).clone())
    }

    /// Deletes the index in this file, if it exists. A process that has it open creates it again.
    ///
    /// # Errors
    /// [`IndexError`], even if the file is not a search index.
    pub fn delete(path: &Path) -> Result<(), IndexError> {
        schema::delete(path)
    }

    /// The same index, whose writes wait for another process for this time.
    #[must_use]
    pub(crate) fn with_patience(&self, patience: Duration) -> Self {
        Self { patience, ..self.clone() }
    }

    /// Removes the file, because it is damaged. [`Self::current`] makes it anew.
    pub(crate) fn discard(&self) -> Result<(), IndexError> {
        schema::remove(&self.path)
    }

    /// Whether the file is still the one that was opened. A user may delete it at any time to rebuild the
    /// index.
    fn is_current(&self) -> bool {
        FileIdentity::of(&self.path) == self.file && !self.file.is_cut(&self.path)
    }

    /// Returns the position in the archive's changes; `None` if the index is empty.
    pub async fn cursor(&self) -> Result<Option<ChangeCursor>, IndexError> {
        self.read(cursor).await
    }

    /// Returns a version that changes with every write to the index.
    pub(crate) async fn version(&self) -> Result<IndexVersion, IndexError> {
        // Each connection has its own version.
        self.run_writing(|connection| IndexVersion::read(connection)).await
    }

    /// Writes messages and the new cursor in one transaction; of several states of a message, the last one
    /// wins. Returns `false` and writes nothing if the index's cursor is not `from`, because another process
    /// has advanced it, or if anything was written since `version` was read: the messages may then be older
    /// than what the index contains.
    pub(crate) async fn apply(
        &self,
        version: Option<IndexVersion>,
        from: Option<ChangeCursor>,
        mut messages: Vec<IndexedMessage>,
        next: Option<ChangeCursor>,
    ) -> Result<bool, IndexError> {
        self.run_writing(move |connection| {
            // Sorted by id: pages are visited in sequence, and FTS5 collects words until an id is not greater
            // than the previous one. The sort is stable, so the last state of a message comes last.
            messages.sort_by_key(|message| message.ts.micros());
            if messages.len() >= BATCH_SIZE {
                schema::expect_bulk(connection)?;
            }
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let is_current = match version {
                Some(version) => version == IndexVersion::read(&transaction)?,
                None => true,
            };
            if !is_current || cursor(&transaction)? != from {
                return Ok(false);
            }
            if from.is_none() && messages.len() > BATCH_SIZE {
                // [`Self::optimize`] merges them.
                schema::merge_while_writing(&transaction, false)?;
            }
            for message in &messages {
                write::index_message(&transaction, message)?;
            }
            let next = next.as_ref().map(ChangeCursor::as_str);
            transaction.execute("UPDATE state SET cursor = ?1", [next])?;
            transaction.commit()?;
            Ok(true)
        })
        .await
    }

    /// Clears the index for a rebuild. Returns `false` and clears nothing if the index's cursor is not
    /// `from`, because another process has cleared or advanced it.
    pub async fn clear(&self, from: Option<ChangeCursor>) -> Result<bool, IndexError> {
        self.run_writing(move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if cursor(&transaction)? != from {
                return Ok(false);
            }
            transaction.execute_batch(
                "INSERT INTO words (words) VALUES ('delete-all');
                 DELETE FROM messages; DELETE FROM threads; DELETE FROM places;
                 UPDATE state SET cursor = NULL, ahead_s = 0;",
            )?;
            transaction.commit()?;
            Ok(true)
        })
        .await
    }

    /// Merges the segments of the word lists, which makes a new index smaller and faster. Takes seconds for a
    /// million messages.
    pub async fn optimize(&self) -> Result<(), IndexError> {
        self.run_writing(|connection| {
            connection.execute("INSERT INTO words (words) VALUES ('optimize')", [])?;
            schema::merge_while_writing(connection, true)?;
            connection.pragma_update(None, "wal_checkpoint", "TRUNCATE")
        })
        .await
    }

    /// Whether a new index was not merged yet, because its first pass was interrupted.
    pub async fn is_unmerged(&self) -> Result<bool, IndexError> {
        self.read(|connection| {
            let automerge = "SELECT EXISTS (SELECT 1 FROM words_config WHERE k = 'automerge' AND v = 0)";
            connection.query_row(automerge, [], |row| row.get(0))
        })
        .await
    }

    /// Returns the number of messages.
    pub async fn count(&self) -> Result<u64, IndexError> {
        self.read(|connection| {
            let count: i64 =
                connection
                    .query_row("SELECT count(*) FROM messages WHERE counted = 1", [], |row| row.get(0))?;
            Ok(count.cast_unsigned())
        })
        .await
    }

    /// Returns messages with ids less than `before` that may match, newest first.
    pub(crate) async fn newest(
        &self,
        query: &IndexQuery,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<IndexHit>, IndexError> {
        let query = query.clone();
        self.read(move |connection| selection::newest(connection, &query, before, limit)).await
    }

    /// Returns the facets that any message of these workspaces has, outside of the hidden channels.
    pub(crate) async fn known_facets(
        &self,
        facets: BTreeSet<Facet>,
        teams: &[TeamId],
        hidden: &Arc<HiddenChannels>,
    ) -> Result<BTreeSet<Facet>, IndexError> {
        let mut known = BTreeSet::new();
        for facet in facets {
            let query = IndexQuery::of_facet(&facet, teams, Arc::clone(hidden));
            if !self.newest(&query, None, 1).await?.is_empty() {
                known.insert(facet);
            }
        }
        Ok(known)
    }

    /// Counts the messages that may match, up to `max`.
    pub(crate) async fn count_matches(&self, query: &IndexQuery, max: usize) -> Result<u64, IndexError> {
        let query = query.clone();
        self.read(move |connection| selection::count(connection, &query, max)).await
    }

    /// Returns the best of the newest messages that may match, best first.
    pub(crate) async fn best(&self, query: &IndexQuery, limit: usize) -> Result<Vec<IndexHit>, IndexError> {
        let query = query.clone();
        self.read(move |connection| selection::best(connection, &query, limit)).await
    }

    /// Runs work on the connection for reading, in a thread that may block on disk access.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, IndexError> {
        let open = schema::open_reader;
        let work = self.locked(&self.reader, open, |connection| work(connection)).await;
        self.checked(ports::blocking::read(work).await)
    }

    /// Runs work on the connection for writing.
    async fn run_writing<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, IndexError> {
        let patience = self.patience;
        let work = self.locked(&self.writer, schema::open_writer, move |connection| {
            connection.busy_timeout(patience)?;
            work(connection)
        });
        self.checked(spawn_blocking(work.await).await)
    }

    /// The work with its connection, which no other work has before it ends.
    async fn locked<T>(
        &self,
        on: &SharedConnection,
        open: fn(&Path) -> rusqlite::Result<Connection>,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> impl FnOnce() -> rusqlite::Result<T> + Send + 'static {
        let access = Arc::clone(&on.access).lock_owned().await;
        let (connection, path) = (Arc::clone(&on.connection), self.path.clone());
        move || {
            // Held until the work ends, even if the future is dropped before.
            let _access = access;
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let connection = match &mut *connection {
                Some(connection) => connection,
                closed @ None => closed.insert(open(&path)?),
            };
            work(connection)
        }
    }

    fn checked<T>(&self, result: Result<rusqlite::Result<T>, JoinError>) -> Result<T, IndexError> {
        let result = result.unwrap_or_else(|_| Err(rusqlite::Error::InvalidQuery));
        result.map_err(|cause| {
            if is_broken(&cause) {
                tracing::warn!(index = %self.path.display(), "the search index is broken and will be rebuilt");
                drop(schema::remove(&self.path));
            }
            IndexError::Database { path: self.path.display().to_string(), cause }
        })
    }
}

/// The writes of other connections and of this one. <https://sqlite.org/pragma.html#pragma_data_version>
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexVersion {
    others: i64,
    own: u64,
}

impl IndexVersion {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let others = connection.query_row("PRAGMA data_version", [], |row| row.get(0))?;
        Ok(Self { others, own: connection.total_changes() })
    }
}

/// The identity of a file, independent of its name, and the greatest size that it was seen to have.
#[derive(Debug, Clone)]
struct FileIdentity {
    numbers: Option<(u64, u64)>,
    bytes: Arc<AtomicU64>,
}

impl PartialEq for FileIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.numbers == other.numbers
    }
}

impl FileIdentity {
    fn of(path: &Path) -> Self {
        let metadata = fs::metadata(path).ok();
        let bytes = metadata.as_ref().map(Metadata::len).unwrap_or_default();
        Self { numbers: metadata.map(|metadata| numbers(&metadata)), bytes: Arc::new(AtomicU64::new(bytes)) }
    }

    /// Whether it is the same file and became smaller, which SQLite never does to an index.
    fn is_cut(&self, path: &Path) -> bool {
        let now = Self::of(path);
        let bytes = now.bytes.load(Ordering::Relaxed);
        now == *self && bytes < self.bytes.fetch_max(bytes, Ordering::Relaxed)
    }
}

#[cfg(unix)]
fn numbers(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn numbers(_: &Metadata) -> (u64, u64) {
    // These systems do not allow to delete an open file.
    (0, 0)
}

fn cursor(connection: &Connection) -> rusqlite::Result<Option<ChangeCursor>> {
    let text: Option<String> = connection.query_row("SELECT cursor FROM state", [], |row| row.get(0))?;
    Ok(text.map(ChangeCursor::new))
}
