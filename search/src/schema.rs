//! Creates the index file, and checks whether an existing one can be used.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

/// The version of the tables and of the conversion of texts to words. An index of another version is
/// replaced. Increment it whenever `reader::search` converts messages differently.
const VERSION: i32 = 5;

/// Identifies the file as an index of Annalist.
const APPLICATION_ID: i32 = 0x414e_4958;

/// How long a follower waits while another process writes a batch.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a reader waits. It only does while another process repairs the log after a crash.
const READ_TIMEOUT: Duration = Duration::from_millis(200);

/// How often an index is opened while other processes create and remove it.
const MAX_ATTEMPTS: usize = 3;

/// The size of the header of a database: <https://www.sqlite.org/fileformat.html#the_database_header>
const HEADER_BYTES: u64 = 100;

/// The first bytes of a database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Cache for searches: the upper levels of the word lists of a million messages. The operating system caches
/// the rest.
const CACHE_KIB: i32 = 2 * 1024;

/// Cache for an index that receives many messages at once, whose words are spread over the lists.
const BULK_CACHE_KIB: i32 = 16 * 1024;

const TABLES: &str = "
CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    -- The position of the follower in the changes of the archive; NULL if the index is empty.
    cursor TEXT,
    -- An id is at most this number of seconds ahead of its message: see `put::free_id`.
    ahead_s INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO state (one) VALUES (1);

-- Channels of workspaces, by a numeric id.
CREATE TABLE places (
    id INTEGER PRIMARY KEY,
    team TEXT NOT NULL,
    channel TEXT NOT NULL,
    -- The number of its messages in the index.
    messages INTEGER NOT NULL DEFAULT 0,
    UNIQUE (team, channel)
) STRICT;

-- Messages. The ids are in the order of their seconds: see `put::first_id`.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    place INTEGER NOT NULL,
    -- Microseconds.
    ts INTEGER NOT NULL,
    -- The timestamp, if it has leading zeros.
    spelling TEXT,
    -- The root of its thread, if it is part of one.
    thread INTEGER,
    -- 1 for a message, 0 for the canvas of a channel, which no message shares.
    counted INTEGER NOT NULL,
    -- A hash of its words and facets. A message is only written again if the hash changes.
    hash INTEGER NOT NULL,
    -- The sum of the hashes of its entries in the word lists, with which they are checked: see `entries`.
    entries INTEGER NOT NULL
) STRICT;
-- The timestamp comes first, so that new messages change the same few pages.
CREATE INDEX messages_by_ts ON messages (ts, place);
CREATE INDEX messages_by_thread ON messages (thread) WHERE thread IS NOT NULL;

-- Messages of threads by id: replies, and messages with replies.
CREATE TABLE threads (
    id INTEGER PRIMARY KEY,
    has_replies INTEGER NOT NULL
) STRICT;

-- Words only contain letters and digits and are already folded, so this tokenizer only has to split them at spaces. The
-- prefix index answers a search for one or two characters, which start thousands of words.
CREATE VIRTUAL TABLE words USING fts5 (
    body, facets, content = '', contentless_delete = 1, tokenize = 'ascii', prefix = '2'
);
-- Bytes of words that are collected before a write: fewer and larger segments are merged less often.
INSERT INTO words (words, rank) VALUES ('hashsize', 16777216);
";

/// Why the index cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The file cannot be opened or created.
    #[error("cannot open the search index {path}: {cause}; --index names another folder")]
    Open {
        path: String,
        /// The cause. The message contains it, so it is not a source of this error, which would be printed
        /// twice.
        cause: io::Error,
    },
    /// The file is not a search index.
    #[error(
        "{path} is not a search index: delete it if nothing needs it, or name another folder with --index"
    )]
    Foreign {
        /// The path of the file.
        path: String,
    },
    /// The file cannot be read or written.
    #[error(
        "cannot use the search index {path}: {cause}; delete it if this error persists, and it is rebuilt"
    )]
    Database {
        /// The path of the file.
        path: String,
        /// The cause. It is not a source of this error, as above.
        cause: rusqlite::Error,
    },
}

impl IndexError {
    /// Whether the file is damaged. It is removed then, and the next [`crate::index::SearchIndex::current`] makes
    /// it anew.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Database { cause, .. } if is_broken(cause))
    }

    /// Whether another process writes, and did not end within the time that this one waited.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Database { cause, .. } if cause.sqlite_error_code() == Some(ErrorCode::DatabaseBusy))
    }
}

/// An index before it is opened.
enum FoundIndex {
    Usable(Connection),
    Missing,
    /// It has no tables yet.
    Empty,
    /// It is broken, or of another version.
    Unusable,
}

/// Opens the index in this file for reading, which never waits for a process that writes. Creates it if it is
/// missing, broken or of another version.
pub(crate) fn open(path: &Path) -> Result<Connection, IndexError> {
    if let Ok(FoundIndex::Usable(connection)) = find(path) {
        return Ok(connection);
    }
    // Of several processes, one creates it. Without this, one removes what another has just begun.
    let _creating = lock_folder(path).map_err(|source| open_error(path, source))?;
    let mut failed = None;
    // A user may delete it at any time.
    for _ in 0..MAX_ATTEMPTS {
        match find(path) {
            Ok(FoundIndex::Usable(connection)) => return Ok(connection),
            // A log without its index would become the content of a new one.
            Ok(FoundIndex::Missing | FoundIndex::Unusable) => remove(path)?,
            Ok(FoundIndex::Empty) => {}
            // It was deleted after this function had seen it.
            Err(IndexError::Database { cause, .. })
                if cause.sqlite_error_code() == Some(ErrorCode::CannotOpen) => {}
            Err(error) => return Err(error),
        }
        // It contains words of private conversations.
        let mut options = disk::private_file_options();
        options.read(true).append(true).create(true);
        disk::open_as_owner_of_folder(&options, path).map_err(|source| open_error(path, source))?;
        failed = create_tables(path).err();
    }
    match find(path)? {
        FoundIndex::Usable(connection) => Ok(connection),
        FoundIndex::Missing | FoundIndex::Empty | FoundIndex::Unusable => Err(failed.unwrap_or_else(|| {
            open_error(path, io::Error::other("another version of annalist is using it"))
        })),
    }
}

/// Locks the folder of a file until the returned handle is dropped.
fn lock_folder(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new(".")))?;
    folder.lock()?;
    Ok(folder)
}

/// Opens the index for reading, if it can be used. Changes nothing.
fn find(path: &Path) -> Result<FoundIndex, IndexError> {
    match File::open(path) {
        Ok(file) => {
            if !is_empty_or_ours(&file).map_err(|source| open_error(path, source))? {
                return Err(IndexError::Foreign { path: path.display().to_string() });
            }
            if file.metadata().is_ok_and(|metadata| metadata.len() < HEADER_BYTES) {
                // A new file has no log yet.
                let has_log = beside(path, "-wal").exists();
                return Ok(if has_log { FoundIndex::Unusable } else { FoundIndex::Empty });
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FoundIndex::Missing),
        Err(error) => return Err(open_error(path, error)),
    }
    match connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, READ_TIMEOUT)
        .and_then(|connection| Ok((state(&connection)?, connection)))
    {
        Ok((SchemaState::Current, connection)) => Ok(FoundIndex::Usable(connection)),
        Ok((SchemaState::Missing, _)) => Ok(FoundIndex::Empty),
        Ok((SchemaState::Other, _)) => Ok(FoundIndex::Unusable),
        Err(cause) if is_broken(&cause) => Ok(FoundIndex::Unusable),
        Err(cause) => Err(database_error(path, cause)),
    }
}

/// Returns the path of one of SQLite's files next to the index.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut file = path.as_os_str().to_owned();
    file.push(suffix);
    file.into()
}

/// Opens the index for writing. It must exist.
pub(crate) fn open_writer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, BUSY_TIMEOUT)?;
    // A crash may lose the last batches, which are indexed again, but never the file.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(connection)
}

/// Opens another connection for reading.
pub(crate) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, READ_TIMEOUT)
}

/// Removes the index in this file, if there is one.
pub(crate) fn delete(path: &Path) -> Result<(), IndexError> {
    match File::open(path) {
        Ok(file) if is_empty_or_ours(&file).map_err(|source| open_error(path, source))? => remove(path),
        Ok(_) => Err(IndexError::Foreign { path: path.display().to_string() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(open_error(path, error)),
    }
}

/// Whether the file may be replaced. A user's own file may have the same name. A file that ends within the header
/// of a database is an index that was cut.
fn is_empty_or_ours(file: &File) -> io::Result<bool> {
    // The offset of the application id: https://www.sqlite.org/fileformat.html#application_id
    const APPLICATION_ID_AT: usize = 68;
    let mut header = Vec::new();
    file.take(HEADER_BYTES).read_to_end(&mut header)?;
    if header.len() < HEADER_BYTES as usize {
        let length = header.len().min(MAGIC.len());
        return Ok(header[..length] == MAGIC[..length]);
    }
    Ok(header[APPLICATION_ID_AT..].starts_with(&APPLICATION_ID.to_be_bytes()))
}

/// Whether the error means that the file is corrupt, rather than temporarily unavailable.
pub(crate) fn is_broken(error: &rusqlite::Error) -> bool {
    // A page beyond the end of the file: https://www.sqlite.org/rescode.html#ioerr_short_read
    const SHORT_READ: i32 = 522;
    let is_cut = error.sqlite_error().is_some_and(|error| error.extended_code == SHORT_READ);
    is_cut || matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Removes the file and SQLite's files next to it.
pub(crate) fn remove(path: &Path) -> Result<(), IndexError> {
    for suffix in ["", "-wal", "-shm"] {
        match fs::remove_file(beside(path, suffix)) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(open_error(path, source)),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn connect(path: &Path, flags: OpenFlags, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(busy_timeout)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(connection)
}

/// The tables of a file.
enum SchemaState {
    /// There are no tables yet.
    Missing,
    /// Those of this version.
    Current,
    /// Those of another version.
    Other,
}

fn state(connection: &Connection) -> rusqlite::Result<SchemaState> {
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let version: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    Ok(match (tables, version) {
        (0, _) => SchemaState::Missing,
        (_, VERSION) => SchemaState::Current,
        (_, _) => SchemaState::Other,
    })
}

/// Creates the tables, unless another process does.
fn create_tables(path: &Path) -> Result<(), IndexError> {
    let create = || {
        let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, BUSY_TIMEOUT)?;
        let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
        if pages == 0 {
            // Set before WAL mode is enabled, so that the file itself contains it from the start.
            connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        }
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if matches!(state(&transaction)?, SchemaState::Missing) {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        transaction.commit()
    };
    create().map_err(|cause| database_error(path, cause))
}

/// Prepares an index for many messages at once.
pub(crate) fn expect_bulk(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -BULK_CACHE_KIB)
}

/// Sets whether segments of the word lists are merged with each write. Merging all of them once, at the end, is
/// faster for a new index: <https://www.sqlite.org/fts5.html#the_automerge_configuration_option>
pub(crate) fn merge_while_writing(connection: &Connection, is_merging: bool) -> rusqlite::Result<()> {
    // 4 is SQLite's default.
    let segments = if is_merging { 4 } else { 0 };
    connection.execute("INSERT INTO words (words, rank) VALUES ('automerge', ?1)", [segments]).map(drop)
}

fn database_error(path: &Path, cause: rusqlite::Error) -> IndexError {
    IndexError::Database { path: path.display().to_string(), cause }
}

fn open_error(path: &Path, cause: io::Error) -> IndexError {
    IndexError::Open { path: path.display().to_string(), cause }
}
