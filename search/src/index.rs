//! The index: which messages there are, and which words each has.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ports::changes::ChangeCursor;
use reader::joined::ChannelOfTeam;
use rusqlite::{Connection, TransactionBehavior};
use slack::ids::Ts;

use crate::expression::IndexQuery;
use crate::follower::BATCH;
use crate::names::RecentNames;
pub use crate::schema::IndexError;
use crate::schema::{self, is_broken};
use crate::{put, selection};

/// What became of a message, for the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedMessage {
    /// Where it is.
    pub place: ChannelOfTeam,
    /// When it was written.
    pub ts: Ts,
    /// `None` for one that can no longer be found.
    pub words: Option<IndexedText>,
}

/// What a message can be found by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IndexedText {
    /// Its words, with blanks between them.
    pub body: String,
    /// Its facets, with blanks between them.
    pub facets: String,
    /// The root of its thread, in microseconds.
    pub thread: Option<i64>,
}

/// A message that the index has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexHit {
    /// Its id in the index: greater ones are of later seconds.
    pub id: i64,
    /// Where it is.
    pub place: ChannelOfTeam,
    /// When it was written.
    pub ts: Ts,
}

/// An open index. Clones share it.
#[derive(Debug, Clone)]
pub struct SearchIndex {
    path: PathBuf,
    connection: Arc<Mutex<Connection>>,
    /// Whose turn it is: who waits for the connection takes no thread meanwhile.
    turn: Arc<tokio::sync::Mutex<()>>,
    file: FileIdentity,
    pub(crate) names: Arc<RecentNames>,
}

impl SearchIndex {
    /// Opens the index in this file. A missing one is made; one that is broken or of another version is made again.
    ///
    /// # Errors
    /// [`IndexError`]
    ///
    /// # Panics
    /// If the runtime shuts down meanwhile.
    pub async fn open(path: &Path) -> Result<Self, IndexError> {
        let path = path.to_owned();
        let opened = tokio::task::spawn_blocking(move || {
            let connection = schema::open(&path)?;
            let file = FileIdentity::of(&path);
            let connection = Arc::new(Mutex::new(connection));
            Ok(Self { path, connection, turn: Arc::default(), file, names: Arc::default() })
        });
        opened.await.expect("opening does not panic")
    }

    /// The index that is open, or the one in this file if none is, or if the file is another one by now.
    ///
    /// # Errors
    /// [`IndexError`]
    pub async fn current(open: &mut Option<Self>, path: &Path) -> Result<Self, IndexError> {
        let index = match open.take().filter(Self::is_current) {
            Some(index) => index,
            None => Self::open(path).await?,
        };
        Ok(open.insert(index).clone())
    }

    /// Deletes the index in this file, if there is one, with every word in it. A process that has it open makes it again.
    ///
    /// # Errors
    /// [`IndexError`], also if the file is something else.
    pub fn delete(path: &Path) -> Result<(), IndexError> {
        schema::delete(path)
    }

    /// Whether the file is still the one that was opened: it may be deleted at any time, to be made again.
    fn is_current(&self) -> bool {
        FileIdentity::of(&self.path) == self.file
    }

    /// How far it has come; `None` if it is empty.
    ///
    /// # Errors
    /// [`IndexError`]
    pub async fn cursor(&self) -> Result<Option<ChangeCursor>, IndexError> {
        self.run(|connection| cursor(connection)).await
    }

    /// Another one as soon as anything is taken in.
    ///
    /// # Errors
    /// [`IndexError`]
    pub(crate) async fn version(&self) -> Result<IndexVersion, IndexError> {
        self.run(|connection| IndexVersion::of(connection)).await
    }

    /// Takes in messages, and with them how far the index has come: of several contents of one message the last. Answers
    /// `false`, and takes in nothing, if another process has come further since `from`.
    ///
    /// # Errors
    /// [`IndexError`]
    pub async fn apply(
        &self,
        from: Option<ChangeCursor>,
        messages: Vec<IndexedMessage>,
        next: Option<ChangeCursor>,
    ) -> Result<bool, IndexError> {
        self.apply_since(None, from, messages, next).await
    }

    /// The same, unless anything was taken in after this version was asked for. Messages that were read of the archive since may be
    /// older than what is there by now.
    ///
    /// # Errors
    /// [`IndexError`]
    pub(crate) async fn apply_since(
        &self,
        version: Option<IndexVersion>,
        from: Option<ChangeCursor>,
        mut messages: Vec<IndexedMessage>,
        next: Option<ChangeCursor>,
    ) -> Result<bool, IndexError> {
        self.run(move |connection| {
            // In the order of their ids: pages are visited one after another, and FTS5 collects words until an id is not greater
            // than the one before. Those of one second keep their order, so that their ids do not depend on the batch.
            messages.sort_by_key(|message| put::first_id(message.ts.micros()));
            if messages.len() >= BATCH {
                schema::expect_bulk(connection)?;
            }
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let is_current = match version {
                Some(version) => version == IndexVersion::of(&transaction)?,
                None => true,
            };
            if !is_current || cursor(&transaction)? != from {
                return Ok(false);
            }
            for message in &messages {
                put::message(&transaction, message)?;
            }
            let next = next.as_ref().map(ChangeCursor::as_str);
            transaction.execute("UPDATE state SET cursor = ?1", [next])?;
            transaction.commit()?;
            Ok(true)
        })
        .await
    }

    /// Drops everything, to begin again. Answers `false`, and drops nothing, if another process has begun again or come further
    /// since `from`.
    ///
    /// # Errors
    /// [`IndexError`]
    pub async fn clear(&self, from: Option<ChangeCursor>) -> Result<bool, IndexError> {
        self.run(move |connection| {
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

    /// Merges the parts of the word lists, which makes a new index smaller and faster. It takes seconds for a million
    /// messages.
    ///
    /// # Errors
    /// [`IndexError`]
    pub async fn optimize(&self) -> Result<(), IndexError> {
        self.run(|connection| {
            connection.execute("INSERT INTO words (words) VALUES ('optimize')", [])?;
            connection.pragma_update(None, "wal_checkpoint", "TRUNCATE")
        })
        .await
    }

    /// How many messages it has.
    ///
    /// # Errors
    /// [`IndexError`]
    pub async fn count(&self) -> Result<u64, IndexError> {
        self.run(|connection| {
            let count: i64 = connection.query_row("SELECT count(*) FROM messages", [], |row| row.get(0))?;
            Ok(count.cast_unsigned())
        })
        .await
    }

    /// Messages that may fit, newest first, from those with lesser ids than `before` on.
    ///
    /// # Errors
    /// [`IndexError`]
    pub(crate) async fn newest(
        &self,
        query: &IndexQuery,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<IndexHit>, IndexError> {
        let query = query.clone();
        self.run(move |connection| selection::newest(connection, &query, before, limit)).await
    }

    /// The best of the newest messages that may fit, the best first.
    ///
    /// # Errors
    /// [`IndexError`]
    pub(crate) async fn best(&self, query: &IndexQuery, limit: usize) -> Result<Vec<IndexHit>, IndexError> {
        let query = query.clone();
        self.run(move |connection| selection::best(connection, &query, limit)).await
    }

    /// Runs work on the connection, in a thread that may wait for the disk.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, IndexError> {
        let _turn = self.turn.lock().await;
        let connection = Arc::clone(&self.connection);
        let done = tokio::task::spawn_blocking(move || {
            work(&mut connection.lock().unwrap_or_else(PoisonError::into_inner))
        });
        let done = done.await.unwrap_or_else(|_| Err(rusqlite::Error::InvalidQuery));
        done.map_err(|cause| {
            if is_broken(&cause) {
                tracing::warn!(index = %self.path.display(), "the search index is broken and is made again");
                drop(schema::remove(&self.path));
            }
            IndexError::Database { path: self.path.display().to_string(), cause }
        })
    }
}

/// What other connections have written, and what this one has. <https://sqlite.org/pragma.html#pragma_data_version>
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexVersion {
    others: i64,
    own: u64,
}

impl IndexVersion {
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let others = connection.query_row("PRAGMA data_version", [], |row| row.get(0))?;
        Ok(Self { others, own: connection.total_changes() })
    }
}

/// Which file it is, whatever its name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileIdentity(Option<(u64, u64)>);

impl FileIdentity {
    fn of(path: &Path) -> Self {
        Self(fs::metadata(path).ok().map(|metadata| numbers(&metadata)))
    }
}

#[cfg(unix)]
fn numbers(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn numbers(_: &Metadata) -> (u64, u64) {
    // An open file cannot be deleted there.
    (0, 0)
}

fn cursor(connection: &Connection) -> rusqlite::Result<Option<ChangeCursor>> {
    let text: Option<String> = connection.query_row("SELECT cursor FROM state", [], |row| row.get(0))?;
    Ok(text.map(ChangeCursor::new))
}
