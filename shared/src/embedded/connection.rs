//! Opening the file: permissions, pragmas, migrations.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use rusqlite_migration::{M, MigrationDefinitionError, Migrations};

use super::OpenError;

/// Another process may be migrating or folding the log while this one opens the file.
const OPEN_PATIENCE: Duration = Duration::from_secs(10);

/// What the writer keeps of the file in memory: enough for the upper levels of the indexes of millions of rows.
const WRITER_CACHE_KIB: i32 = 16 * 1024;

const MIGRATIONS: &[M<'_>] = &[M::up(include_str!("schema/01.sql"))];

/// Makes a folder that only its owner may enter: it holds a workspace's messages.
pub(super) fn create_private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// The connection that writes, migrated to this version's schema.
pub(super) fn open_for_writing(file: &Path) -> Result<Connection, OpenError> {
    let database_error = |source| OpenError::Database { path: file.to_owned(), source };
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open(file)?;
        connection.busy_timeout(OPEN_PATIENCE)?;
        // A message takes about 2 KiB: pages of 4 KiB would hold one and waste the rest.
        connection.pragma_update(None, "page_size", 8192)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // A 200 means fsynced: FULL syncs the log at every commit.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    };
    let mut connection = open().map_err(database_error)?;
    match Migrations::from_slice(MIGRATIONS).to_latest(&mut connection) {
        Ok(()) => {}
        Err(rusqlite_migration::Error::MigrationDefinition(
            MigrationDefinitionError::DatabaseTooFarAhead,
        )) => {
            return Err(OpenError::Newer(file.to_owned()));
        }
        Err(rusqlite_migration::Error::RusqliteError { err, .. }) => return Err(database_error(err)),
        Err(_) => return Err(database_error(rusqlite::Error::InvalidQuery)),
    }
    // From here on the writer retries by itself, every millisecond: SQLite's own waiting backs off to 100 ms and
    // starves beside a busy process.
    connection.busy_timeout(Duration::ZERO).map_err(database_error)?;
    Ok(connection)
}

/// A connection that only folds the log.
pub(super) fn open_for_checkpoints(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// A connection that cannot write.
pub(super) fn open_for_reading(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(OPEN_PATIENCE)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_migrations_are_valid() {
        Migrations::from_slice(MIGRATIONS).validate().unwrap();
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("annalist.db");
        open_for_writing(&file).unwrap().pragma_update(None, "user_version", 1_000).unwrap();
        assert!(matches!(open_for_writing(&file), Err(OpenError::Newer(_))));
    }
}
