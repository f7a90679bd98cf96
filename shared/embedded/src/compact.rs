//! Writes the database anew, so that nothing is left in its file of what was removed.

use std::path::Path;

use rusqlite::Connection;

use super::changes::renew_epoch;
use super::connection::open_for_compacting;

/// Why a database was not written anew.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// SQLite's reason.
    #[error("cannot compact the database: {0}; it is as it was, so run the same command again")]
    Database(#[from] rusqlite::Error),
    /// The log still holds what was written before.
    #[error(
        "the log of the database is in use and may still hold what was erased: run the same command again"
    )]
    LogInUse,
    /// The thread that did it is gone.
    #[error("cannot compact the database: {0}")]
    Stopped(String),
}

/// Writes a database anew and empties its log. It takes the room of the database once more, in its folder and for as long as
/// it runs, and other processes cannot write meanwhile.
pub(super) fn compact(file: &Path) -> Result<(), CompactError> {
    let connection = open_for_compacting(file)?;
    // Rows may have other numbers afterwards. Twice, so that a process that is killed in between leaves no follower with a
    // position that it had before.
    renew_epoch(&connection)?;
    connection.execute_batch("VACUUM")?;
    renew_epoch(&connection)?;
    empty_log(&connection)
}

fn empty_log(connection: &Connection) -> Result<(), CompactError> {
    let is_busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if is_busy { Err(CompactError::LogInUse) } else { Ok(()) }
}
