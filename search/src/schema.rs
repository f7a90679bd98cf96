//! Creates the index file, and checks whether an existing one can be used.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

/// The version of the tables and of the conversion of texts to words. An index of another version is
/// replaced. Increment it whenever `reader::search` converts messages differently.
const VERSION: i32 = 3;

/// Identifies the file as an index of Annalist.
const APPLICATION_ID: i32 = 0x414e_4958;

/// How long to wait while another process writes a batch.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

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
    hash INTEGER NOT NULL
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
        /// The path of the index.
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

/// Opens the index in this file. Creates it if it is missing, broken or of another version.
pub(crate) fn open(path: &Path) -> Result<Connection, IndexError> {
    let file = create_private(path).map_err(|source| open_error(path, source))?;
    if !is_empty_or_ours(&file).map_err(|source| open_error(path, source))? {
        return Err(IndexError::Foreign { path: path.display().to_string() });
    }
    drop(file);
    match connect(path) {
        Ok(Some(connection)) => return Ok(connection),
        Ok(None) => {}
        Err(IndexError::Database { cause, .. }) if is_broken(&cause) => {}
        Err(error) => return Err(error),
    }
    remove(path)?;
    drop(create_private(path).map_err(|source| open_error(path, source))?);
    connect(path)?
        .ok_or_else(|| open_error(path, io::Error::other("another version of annalist is using it")))
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

/// Whether the file may be replaced. A user's own file may have the same name.
fn is_empty_or_ours(mut file: &File) -> io::Result<bool> {
    // The offset of the application id: https://www.sqlite.org/fileformat.html#application_id
    const APPLICATION_ID_AT: u64 = 68;
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut number = [0; 4];
    file.seek(SeekFrom::Start(APPLICATION_ID_AT))?;
    match file.read_exact(&mut number) {
        Ok(()) => Ok(number == APPLICATION_ID.to_be_bytes()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the error means that the file is corrupt, rather than temporarily unavailable.
pub(crate) fn is_broken(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Removes the file and SQLite's files next to it.
pub(crate) fn remove(path: &Path) -> Result<(), IndexError> {
    for suffix in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        match fs::remove_file(&file) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(open_error(path, source)),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Connects to the index; `None` if it has another version.
fn connect(path: &Path) -> Result<Option<Connection>, IndexError> {
    let database = |cause| IndexError::Database { path: path.display().to_string(), cause };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(database)?;
    let is_ours = prepare(&mut connection).map_err(database)?;
    Ok(is_ours.then_some(connection))
}

fn prepare(connection: &mut Connection) -> rusqlite::Result<bool> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    if pages == 0 {
        // Set before WAL mode is enabled, so that the file itself contains it from the start.
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A crash may lose the last batches, which are indexed again, but never the file.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let tables: i64 = transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables > 0 {
        let version: i32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        return Ok(version == VERSION);
    }
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(true)
}

/// Prepares an index for many messages at once.
pub(crate) fn expect_bulk(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -BULK_CACHE_KIB)
}

/// Creates a file that only its owner can read, because it contains words of private conversations.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn open_error(path: &Path, cause: io::Error) -> IndexError {
    IndexError::Open { path: path.display().to_string(), cause }
}
