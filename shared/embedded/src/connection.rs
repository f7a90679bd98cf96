//! Opens the database: file permissions, pragmas, migrations.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use rusqlite_migration::{M, MigrationDefinitionError, Migrations};

use super::OpenError;

/// The numbers that jobs have. Numbers only grow, and at a million jobs a second they last 73,000 years: a
/// greater one was written by a person, or by a fault of the disk.
pub(super) const JOB_NUMBERS: RangeInclusive<i64> = 1..=i64::MAX / 4;

/// Another process may be migrating the database or checkpointing the log while this one opens the file.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval between two attempts to get the lock for a compaction, and their maximum number: half a
/// minute in total.
pub(super) const COMPACT_RETRY: Duration = Duration::from_millis(1);
const COMPACT_TRIES: i32 = 30_000;

/// The writer's page cache: enough for the upper levels of the indexes of millions of rows.
const WRITER_CACHE_KIB: i32 = 16 * 1024;

/// A message takes about 2 KiB: a page of 4 KiB would contain only one and waste the rest.
const PAGE_BYTES: i32 = 8192;

const MIGRATIONS: &[M<'_>] = &[
    M::up(include_str!("schema/01.sql")),
    M::up(include_str!("schema/02.sql")),
    M::up(include_str!("schema/03.sql")),
    M::up(include_str!("schema/04.sql")),
    M::up(include_str!("schema/05.sql")),
    M::up(include_str!("schema/06.sql")),
    M::up(include_str!("schema/07.sql")),
    M::up(include_str!("schema/08.sql")),
    M::up(include_str!("schema/09.sql")),
    M::up(include_str!("schema/10.sql")),
    M::up(include_str!("schema/11.sql")),
    M::up(include_str!("schema/12.sql")),
    M::up(include_str!("schema/13.sql")),
    M::up(include_str!("schema/14.sql")),
    M::up(include_str!("schema/15.sql")),
    M::up(include_str!("schema/16.sql")),
    M::up(include_str!("schema/17.sql")),
    M::up(include_str!("schema/18.sql")),
];

/// The schema of this version.
pub(super) const SCHEMA: usize = MIGRATIONS.len();

/// The schema version of a database.
pub(super) fn schema_of(connection: &Connection) -> rusqlite::Result<usize> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    usize::try_from(version).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, version))
}

/// Creates an empty database in memory, with this version's schema or an earlier one.
pub(super) fn create_empty_in_memory(schema: usize) -> Result<Connection, rusqlite_migration::Error> {
    let mut empty = Connection::open_in_memory()?;
    Migrations::from_slice(MIGRATIONS).to_version(&mut empty, schema)?;
    Ok(empty)
}

/// Creates a database with this version's schema or an earlier one, in an existing empty file. It is fast to
/// fill, because it is not durable until [`open_for_writing`] opens it.
pub(super) fn create_empty_file(file: &Path, schema: usize) -> Result<Connection, rusqlite_migration::Error> {
    let mut created = Connection::open(file)?;
    harden(&created)?;
    created.pragma_update(None, "page_size", PAGE_BYTES)?;
    created.pragma_update(None, "synchronous", "OFF")?;
    created.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    Migrations::from_slice(MIGRATIONS).to_version(&mut created, schema)?;
    Ok(created)
}

/// An object of a database schema.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SchemaObject {
    pub(super) kind: String,
    pub(super) table: String,
    pub(super) sql: Option<String>,
}

/// The objects of a schema by name, without the statistics of `ANALYZE`.
pub(super) fn schema_objects(connection: &Connection) -> rusqlite::Result<BTreeMap<String, SchemaObject>> {
    let mut statement = connection.prepare(
        "SELECT name, type, tbl_name, sql FROM sqlite_schema WHERE name NOT GLOB 'sqlite_stat[14]'",
    )?;
    let objects = statement.query_map([], |row| {
        Ok((row.get(0)?, SchemaObject { kind: row.get(1)?, table: row.get(2)?, sql: row.get(3)? }))
    })?;
    objects.collect()
}

/// The first object in which a database differs from the schema of the migrations.
pub(super) fn first_altered_object(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let expected = create_empty_in_memory(SCHEMA).map_err(|_| rusqlite::Error::InvalidQuery)?;
    let (found, expected) = (schema_objects(connection)?, schema_objects(&expected)?);
    let differs = |name: &&String| found.get(*name) != expected.get(*name);
    Ok(found.keys().chain(expected.keys()).find(differs).cloned())
}

/// Hardens a connection against the schema in the file: a user who can write to the file cannot make this
/// process do more than read and write rows. No trigger runs, no view calls a function with side effects, and
/// only migrations write to the schema.
fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.pragma_update(None, "cell_size_check", true)
}

/// Keeps SQLite from preparing a statement again for each bound value to check it against the statistics in
/// the file, which costs more than most reads.
fn prepare_once(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// From now on, only the owner can access the files that this process creates, even in a folder that others
/// may enter.
pub(super) fn restrict_umask() {
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// Opens the connection for writing, and migrates the database to this version's schema.
pub(super) fn open_for_writing(file: &Path) -> Result<Connection, OpenError> {
    let database_error = |source| OpenError::Database { path: file.to_owned(), source };
    // SQLite gives its log files the same permissions.
    match disk::create_private_file(file) {
        Err(source) if source.kind() != ErrorKind::AlreadyExists => {
            return Err(OpenError::Folder { path: file.to_owned(), source });
        }
        // It exists already.
        Ok(_) | Err(_) => {}
    }
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open(file)?;
        connection.busy_timeout(OPEN_TIMEOUT)?;
        harden(&connection)?;
        prepare_once(&connection)?;
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // Ingest answers 200 only after an fsync: FULL syncs the log at every commit.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
        // Overwrite deleted content, which may be content that must not be kept.
        connection.pragma_update(None, "secure_delete", "ON")?;
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
    // Answers 200 only for jobs that workers will see.
    let numbers = "SELECT min(number), max(number) FROM (
        SELECT min(seq) AS number FROM jobs UNION ALL SELECT max(seq) FROM jobs
        UNION ALL SELECT min(seq) FROM sends UNION ALL SELECT max(seq) FROM sends)";
    let (first, last): (Option<i64>, Option<i64>) =
        connection.query_row(numbers, [], |row| Ok((row.get(0)?, row.get(1)?))).map_err(database_error)?;
    if [first, last].into_iter().flatten().any(|number| !JOB_NUMBERS.contains(&number)) {
        return Err(OpenError::JobNumbers(file.to_owned()));
    }
    // From here on the writer retries every millisecond: SQLite's own busy handler backs off to 100 ms and
    // starves next to a busy process.
    connection.busy_timeout(Duration::ZERO).map_err(database_error)?;
    Ok(connection)
}

/// Opens a connection that rewrites the whole file. It waits for other processes like the writer: SQLite's
/// own busy handler starves next to a busy process.
pub(super) fn open_for_compacting(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(OPEN_TIMEOUT)?;
    harden(&connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.busy_handler(Some(|tries| {
        sleep(COMPACT_RETRY);
        tries < COMPACT_TRIES
    }))?;
    Ok(connection)
}

#[expect(
    clippy::disallowed_methods,
    reason = "SQLite's lock has no notification; this thread does nothing else"
)]
pub(super) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// Opens a read-only connection.
pub(super) fn open_for_reading(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(OPEN_TIMEOUT)?;
    harden(&connection)?;
    prepare_once(&connection)?;
    Ok(connection)
}

#[cfg(test)]
#[path = "figures_tests.rs"]
mod figures_tests;

#[cfg(test)]
#[path = "questions_tests.rs"]
mod questions_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_migrations_are_valid() {
        Migrations::from_slice(MIGRATIONS).validate().unwrap();
    }

    #[test]
    fn opening_an_archive_of_the_first_version_migrates_it() {
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
            (
                "F1",
                r#"{"team_id":"T1","name":"a.txt","size_bytes":3,"file#F1":"9/stored/file:///old/slack/files/slack/T1/C1/1.0/F1","deleted":true}"#,
            ),
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

        let query = "SELECT concat_ws(' ', file_id, name, size_bytes, state, key, why, deleted) FROM files";
        let mut files = migrated.prepare(query).unwrap();
        let rows: rusqlite::Result<Vec<String>> = files.query_map([], |row| row.get(0)).unwrap().collect();
        assert_eq!(
            rows.unwrap(),
            [
                "F1 a.txt 3 held slack/T1/C1/1.0/F1 1",
                "F2 b.txt 4 failed no answer",
                "F3 skipped external",
                "F4 d.txt pending"
            ]
        );
    }

    #[test]
    fn the_messages_view_shows_files_like_the_json_output() {
        use ports::archive::{Item, ItemKey};
        use rules::project;

        let folder = tempfile::tempdir().unwrap();
        let database = open_for_writing(&folder.path().join("annalist.db")).unwrap();
        let rows = [
            r#"{"files":[{"id":"F9"},{"id":"F1"},{"no":"id"},7,"text",null,{"id":"F1"}],"file#F1":"9/stored/slack/T1/C1/1.000000/F1",
                "file#F5":"9/stored/file:///old/files/slack/T1/C1/1.000000/F5","file#F9":"9/stored/slack/T1/C1/1.000000/F9",
                "file#F2":"1/failed/no answer","file#F0":"1/failed/no answer","file#F6":"1/failed/another","file#F3":"7/external"}"#,
            r#"{"files":[{"id":"F1"}]}"#,
            r#"{"files":"none","file#F1":"0/pending"}"#,
            r#"{"text":"hello"}"#,
        ];
        for (number, row) in rows.iter().enumerate() {
            let key = ItemKey::new("message#T1#C1", format!("{number}.000000"));
            let mut attributes: ports::archive::Attributes = serde_json::from_str(row).unwrap();
            for (name, text) in [("team_id", "T1"), ("channel_id", "C1"), ("content_version", "1")] {
                attributes.insert(name.into(), text.into());
            }
            let json = serde_json::to_string(&attributes).unwrap();
            let insert = "INSERT INTO items (item_id, timestamp, attributes) VALUES (?1, ?2, ?3)";
            database.execute(insert, (&key.item_id, &key.timestamp, json)).unwrap();
            let shown = project::message(&Item { key: key.clone(), attributes }).unwrap().into_json();
            let query = "SELECT json_object('files_s3', json(files_s3), 'files_verdict', json(files_verdict),
                'files_fetch_failed', files_fetch_failed = 1, 'files_fetch_error', files_fetch_error) FROM messages WHERE ts = ?1";
            let found: String = database.query_row(query, [&key.timestamp], |row| row.get(0)).unwrap();
            let found: serde_json::Value = serde_json::from_str(&found).unwrap();
            for name in ["files_s3", "files_verdict", "files_fetch_error"] {
                assert_eq!(found[name], shown.get(name).cloned().unwrap_or_default(), "{name} of {row}");
            }
            let failed = shown.get("files_fetch_failed").is_some();
            assert_eq!(found["files_fetch_failed"], if failed { 1.into() } else { serde_json::Value::Null });
        }
    }

    #[test]
    fn a_statement_is_prepared_once_for_all_values() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("annalist.db");
        let written = open_for_writing(&file).unwrap();
        for connection in [open_for_reading(&file).unwrap(), written] {
            let query = "SELECT attributes FROM items WHERE item_id = ?1 AND timestamp > ?2 ORDER BY timestamp LIMIT ?3";
            let mut statement = connection.prepare(query).unwrap();
            for (item_id, limit) in [("message#T1#C1", 1), ("user#T1", 2), ("meta#T1", 3)] {
                assert!(!statement.exists((item_id, "1.000000", limit)).unwrap());
            }
            assert_eq!(statement.get_status(rusqlite::StatementStatus::RePrepare), 0);
        }
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("annalist.db");
        open_for_writing(&file).unwrap().pragma_update(None, "user_version", 1_000).unwrap();
        assert!(matches!(open_for_writing(&file), Err(OpenError::Newer(_))));
    }
}
