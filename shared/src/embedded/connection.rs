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

const MIGRATIONS: &[M<'_>] = &[
    M::up(include_str!("schema/01.sql")),
    M::up(include_str!("schema/02.sql")),
    M::up(include_str!("schema/03.sql")),
    M::up(include_str!("schema/04.sql")),
];

/// The schema of this version.
pub(super) const SCHEMA: usize = MIGRATIONS.len();

/// Which schema a database has.
pub(super) fn schema_of(connection: &Connection) -> rusqlite::Result<usize> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    usize::try_from(version).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, version))
}

/// An empty database with an earlier schema or this version's.
pub(super) fn empty_with(schema: usize) -> Result<Connection, rusqlite_migration::Error> {
    let mut empty = Connection::open_in_memory()?;
    Migrations::from_slice(MIGRATIONS).to_version(&mut empty, schema)?;
    Ok(empty)
}

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
    fn an_archive_of_the_first_version_is_migrated_when_it_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("annalist.db");
        let mut first = Connection::open(&file).unwrap();
        Migrations::from_slice(&MIGRATIONS[..1]).to_latest(&mut first).unwrap();
        let row = "INSERT INTO items (item_id, timestamp, attributes) VALUES (?1, ?2, ?3)";
        for (ts, attributes) in [
            ("1.000000", r#"{"channel_id":"C1","name":"old","folded":"1"}"#),
            ("2.000000", r#"{"channel_id":"C1","name":"new","archived":true,"folded":"2"}"#),
            ("3.000000", r#"{"channel_id":"C1"}"#),
        ] {
            first.execute(row, ("channel#T1#C1", ts, attributes)).unwrap();
        }
        first.execute(row, ("channelindex#T1", "0", r#"{"channels_map":{"C1":"new"}}"#)).unwrap();
        for (file, attributes) in [
            ("F1", r#"{"name":"a.txt","size_bytes":3,"file#F1":"9/stored/file:///a","deleted":true}"#),
            ("F2", r#"{"name":"b.txt","object":{"size":4},"file#F2":"1/failed/no answer"}"#),
            ("F3", r#"{"file#F3":"7/external"}"#),
            ("F4", r#"{"name":"d.txt"}"#),
        ] {
            first.execute(row, ("file#T1", file, attributes)).unwrap();
        }
        drop(first);

        let migrated = open_for_writing(&file).unwrap();
        let query = "SELECT channel_id, name, archived, event_ts FROM channels";
        let mut channels = migrated.prepare(query).unwrap();
        let rows = channels.query_map([], |row| <(String, String, bool, String)>::try_from(row)).unwrap();
        let rows: Vec<_> = rows.collect::<rusqlite::Result<_>>().unwrap();
        assert_eq!(rows, [("C1".into(), "new".into(), true, "2.000000".into())]);

        let query = "SELECT concat_ws(' ', file_id, name, size_bytes, state, uri, why, deleted) FROM files";
        let mut files = migrated.prepare(query).unwrap();
        let rows: rusqlite::Result<Vec<String>> = files.query_map([], |row| row.get(0)).unwrap().collect();
        assert_eq!(
            rows.unwrap(),
            [
                "F1 a.txt 3 held file:///a 1",
                "F2 b.txt 4 failed no answer",
                "F3 skipped external",
                "F4 d.txt pending"
            ]
        );
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("annalist.db");
        open_for_writing(&file).unwrap().pragma_update(None, "user_version", 1_000).unwrap();
        assert!(matches!(open_for_writing(&file), Err(OpenError::Newer(_))));
    }
}
