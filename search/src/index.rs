//! The index: which messages there are, and which words each has.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ports::changes::ChangeCursor;
use reader::joined::ChannelPlace;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use slack::ids::Ts;

use crate::expression::IndexQuery;
pub use crate::schema::IndexError;
use crate::schema::{self, is_broken};
use crate::selection;

/// Messages of one second that have its ids. Those beyond them take ids of the next second that has some left, which only
/// changes their order among each other.
const IDS_PER_SECOND: i64 = 256;

/// What became of a message, for the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedMessage {
    /// Where it is.
    pub place: ChannelPlace,
    /// When it was written.
    pub ts: Ts,
    /// `None` for one that can no longer be found.
    pub words: Option<MessageWords>,
}

/// What a message can be found by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MessageWords {
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
    pub place: ChannelPlace,
    /// When it was written.
    pub ts: Ts,
}

/// An open index. Clones share it.
#[derive(Debug, Clone)]
pub struct SearchIndex {
    path: PathBuf,
    connection: Arc<Mutex<Connection>>,
    file: FileIdentity,
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
            Ok(Self { path, connection: Arc::new(Mutex::new(connection)), file })
        });
        opened.await.expect("opening does not panic")
    }

    /// Deletes the index in this file, if there is one, with every word in it. A process that has it open makes it again.
    ///
    /// # Errors
    /// [`IndexError`], also if the file is something else.
    pub fn delete(path: &Path) -> Result<(), IndexError> {
        schema::delete(path)
    }

    /// Whether the file is still the one that was opened: it may be deleted at any time, to be made again.
    #[must_use]
    pub fn is_current(&self) -> bool {
        FileIdentity::of(&self.path) == self.file
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How far it has come; `None` if it is empty.
    ///
    /// # Errors
    /// [`IndexError`]
    pub async fn cursor(&self) -> Result<Option<ChangeCursor>, IndexError> {
        self.run(|connection| cursor(connection)).await
    }

    /// Takes in messages, and with them how far the index has come. Answers `false`, and takes in nothing, if another process
    /// has come further since `from`.
    ///
    /// # Errors
    /// [`IndexError`]
    pub async fn apply(
        &self,
        from: Option<ChangeCursor>,
        messages: Vec<IndexedMessage>,
        next: Option<ChangeCursor>,
    ) -> Result<bool, IndexError> {
        self.run(move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if cursor(&transaction)? != from {
                return Ok(false);
            }
            for message in &messages {
                put(&transaction, message)?;
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
                 DELETE FROM messages; DELETE FROM places; UPDATE state SET cursor = NULL;",
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
        let connection = Arc::clone(&self.connection);
        let done = tokio::task::spawn_blocking(move || {
            work(&mut connection.lock().unwrap_or_else(PoisonError::into_inner))
        });
        let done = done.await.unwrap_or_else(|_| Err(rusqlite::Error::InvalidQuery));
        done.map_err(|source| {
            if is_broken(&source) {
                tracing::warn!(index = %self.path.display(), "the search index is broken and is made again");
                drop(schema::remove(&self.path));
            }
            IndexError::Database { path: self.path.display().to_string(), source }
        })
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

/// A timestamp as Slack spells it.
pub(crate) fn spelled(micros: i64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// The first of the ids that messages of this second have.
pub(crate) fn first_id(micros: i64) -> i64 {
    micros.div_euclid(1_000_000).saturating_mul(IDS_PER_SECOND)
}

fn put(transaction: &Transaction<'_>, message: &IndexedMessage) -> rusqlite::Result<()> {
    let place = place_of(transaction, &message.place, message.words.is_some())?;
    let Some(place) = place else { return Ok(()) };
    let ts = message.ts.micros();
    let spelling = Some(message.ts.as_str()).filter(|text| *text != spelled(ts));
    let known: Option<(i64, i64)> = transaction
        .prepare_cached("SELECT id, hash FROM messages WHERE place = ?1 AND ts = ?2 AND spelling IS ?3")?
        .query_row(params![place, ts, spelling], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some(words) = &message.words else {
        if let Some((id, _)) = known {
            transaction.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([id])?;
            transaction.prepare_cached("DELETE FROM messages WHERE id = ?1")?.execute([id])?;
        }
        return Ok(());
    };
    let hash = hash(words);
    if known.is_some_and(|(_, known)| known == hash) {
        return Ok(());
    }
    let id = match known {
        Some((id, _)) => id,
        None => free_id(transaction, ts)?,
    };
    let facets = format!("{} {}", words.facets, place_facet(place));
    transaction
        .prepare_cached("INSERT OR REPLACE INTO words (rowid, body, facets) VALUES (?1, ?2, ?3)")?
        .execute(params![id, words.body, facets])?;
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO messages (id, place, ts, spelling, thread, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![id, place, ts, spelling, words.thread, hash])?;
    Ok(())
}

/// What tells two contents of one message apart. It need not be the same in another version: that has an index of its own.
fn hash(words: &MessageWords) -> i64 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(words).cast_signed()
}

/// The facet of a place.
pub(crate) fn place_facet(place: i64) -> String {
    format!("p{place}")
}

fn place_of(
    transaction: &Transaction<'_>,
    ChannelPlace { team, channel }: &ChannelPlace,
    is_made: bool,
) -> rusqlite::Result<Option<i64>> {
    let key = [team.as_str(), channel.as_str()];
    let known = known_place(transaction, key)?;
    if known.is_some() || !is_made {
        return Ok(known);
    }
    transaction.prepare_cached("INSERT INTO places (team, channel) VALUES (?1, ?2)")?.execute(key)?;
    Ok(Some(transaction.last_insert_rowid()))
}

pub(crate) fn known_place(connection: &Connection, key: [&str; 2]) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM places WHERE team = ?1 AND channel = ?2")?
        .query_row(key, |row| row.get(0))
        .optional()
}

/// An id that no message has: the next one of its second, or of the first second after it that has one left.
fn free_id(transaction: &Transaction<'_>, ts: i64) -> rusqlite::Result<i64> {
    let mut first = first_id(ts);
    loop {
        let last = first + IDS_PER_SECOND - 1;
        let greatest: Option<i64> = transaction
            .prepare_cached("SELECT max(id) FROM messages WHERE id BETWEEN ?1 AND ?2")?
            .query_row([first, last], |row| row.get(0))?;
        match greatest {
            None => return Ok(first),
            Some(greatest) if greatest < last => return Ok(greatest + 1),
            Some(_) => first = last + 1,
        }
    }
}
