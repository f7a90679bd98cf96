//! Copies the rows of a database from outside into a database of this program.
//!
//! Jobs are numbered anew: workers read the queue by its numbers, so that a job with a number from outside could
//! be before every worker's position, or leave no number for the next one.
//!
//! The database may come from another program, so its schema is not trusted: only the rows of the tables that
//! the migrations create are copied, into a database created by the migrations. The database is opened
//! read-only, and each table must exactly match the one of its schema version.

use std::fs::File;
use std::path::Path;

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, ErrorCode, params_from_iter};

use super::BackupError;
use crate::changes::renew_epoch;
use crate::connection::{
    create_empty_file, create_empty_in_memory, open_for_reading, open_for_writing, schema_objects, schema_of,
};
use ports::archive::Attributes;

/// Tables that are not copied: existence is confirmed again, and the rowids of recorded changes are different
/// here.
const LEFT_EMPTY: [&str; 2] = ["existence_check_cache", "changes"];

/// The tables of the queue, whose rows begin with the number of a job.
const NUMBERED: [&str; 3] = ["jobs", "leases", "sends"];

/// The column with the number of a job: the first one.
const SEQ: &str = "seq";

/// The result of copying a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// Tables, views, indexes and triggers that this program does not create and that were left out: their
    /// number and the name of the first one.
    pub left_out: Option<(usize, String)>,
}

/// A table of the migrations.
struct CopiedTable {
    name: String,
    columns: Vec<Column>,
}

/// A column: name, type, whether it is NOT NULL, position in the primary key, and whether it is generated.
type Column = (String, String, bool, i64, i64);

/// Copies the rows of a database, which must have this schema version, into the file `own`, which must be
/// empty, and migrates that to this version's schema. Only one row is in memory at once.
///
/// # Errors
/// [`BackupError::Database`] if the database is damaged or was not written by this program.
pub fn adopt(database: &Path, schema: usize, own: &Path) -> Result<Adopted, BackupError> {
    let foreign = open_for_reading(database).map_err(|error| BackupError::database(&error))?;
    let unusable = |error: rusqlite_migration::Error| BackupError::Database(error.to_string());
    let expected = create_empty_in_memory(schema).map_err(unusable)?;
    let tables = tables(&expected).map_err(|error| BackupError::database(&error))?;
    check(&foreign, schema, &expected, &tables)?;
    let copy = create_empty_file(own, schema).map_err(unusable)?;
    copy.execute_batch("BEGIN IMMEDIATE").map_err(BackupError::Copy)?;
    number_jobs(&foreign, &copy, &tables)?;
    for table in tables.iter().filter(|table| !LEFT_EMPTY.contains(&table.name.as_str())) {
        copy_rows(&foreign, &copy, table)?;
    }
    renew_epoch(&copy).map_err(BackupError::Copy)?;
    // The owners of these leases do not exist here, and attempts belong to jobs by their numbers.
    copy.execute_batch(
        "UPDATE leases SET visible_at_ms = 0;
         DELETE FROM items WHERE item_id >= 'meta#attempts#' AND item_id < 'meta#attempts$';
         COMMIT",
    )
    .map_err(BackupError::Copy)?;
    copy.close().map_err(|(_, error)| BackupError::Copy(error))?;
    migrate(own)?;
    let left_out = left_out(&foreign, &expected).map_err(|error| BackupError::database(&error))?;
    Ok(Adopted { left_out })
}

fn migrate(own: &Path) -> Result<(), BackupError> {
    let migrated = open_for_writing(own)?;
    migrated.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(BackupError::Copy)?;
    migrated.close().map_err(|(_, error)| BackupError::Copy(error))?;
    File::open(own).and_then(|file| file.sync_all()).map_err(BackupError::at(own))
}

/// Checks that the database has this schema version, that its tables are exactly those of this program, and
/// that they are sound: no page is used twice, so that the number of rows is limited by the file's size.
fn check(
    foreign: &Connection,
    schema: usize,
    expected: &Connection,
    tables: &[CopiedTable],
) -> Result<(), BackupError> {
    let failed = |error: rusqlite::Error| BackupError::database(&error);
    let found = schema_of(foreign).map_err(failed)?;
    if found != schema || tables.is_empty() {
        return Err(BackupError::Database(format!("its schema is {found}, but the manifest says {schema}")));
    }
    for table in tables {
        let name = &table.name;
        let is_ours = definitions(foreign, name).map_err(failed)?
            == definitions(expected, name).map_err(failed)?
            && columns(foreign, name).map_err(failed)? == table.columns;
        if !is_ours {
            return Err(BackupError::Database(format!("`{name}` is not the table of this schema")));
        }
        let mut verdict = String::new();
        let first = |row: &rusqlite::Row<'_>| {
            if verdict.is_empty() {
                verdict = row.get(0)?;
            }
            Ok(())
        };
        foreign.pragma(None, "quick_check", name, first).map_err(failed)?;
        if verdict != "ok" {
            return Err(BackupError::Database(format!("it is damaged: {verdict}")));
        }
    }
    Ok(())
}

fn tables(expected: &Connection) -> rusqlite::Result<Vec<CopiedTable>> {
    let mut statement = expected.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let names: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    names.into_iter().map(|name| Ok(CopiedTable { columns: columns(expected, &name)?, name })).collect()
}

/// The schema's definitions of a name in any case: SQLite's names are case-insensitive.
fn definitions(connection: &Connection, name: &str) -> rusqlite::Result<Vec<[Option<String>; 4]>> {
    let mut statement = connection
        .prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE")?;
    let definitions =
        statement.query_map([name], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
    definitions.collect()
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Column>> {
    let mut columns = Vec::new();
    // Not the table-valued function: a table with its name could replace it, but not a statement.
    connection.pragma(None, "table_xinfo", table, |row| {
        columns.push((row.get(1)?, row.get(2)?, row.get(3)?, row.get(5)?, row.get(6)?));
        Ok(())
    })?;
    Ok(columns)
}

/// Numbers the jobs from 1, in their order.
fn number_jobs(foreign: &Connection, copy: &Connection, tables: &[CopiedTable]) -> Result<(), BackupError> {
    let failed = |error: rusqlite::Error| BackupError::database(&error);
    copy.execute_batch("CREATE TEMP TABLE numbers (seq INTEGER PRIMARY KEY, number INTEGER NOT NULL)")
        .map_err(BackupError::Copy)?;
    // A send without a job is only known by its deduplication id, and a lease without a job is nothing.
    let numbered =
        ["jobs", "sends"].into_iter().filter(|name| tables.iter().any(|table| table.name == *name));
    let numbered: Vec<String> =
        numbered.map(|name| format!("SELECT seq FROM main.{name} NOT INDEXED")).collect();
    if numbered.is_empty() {
        return Ok(());
    }
    let mut select =
        foreign.prepare(&format!("{} ORDER BY seq", numbered.join(" UNION "))).map_err(failed)?;
    let mut insert = copy.prepare("INSERT INTO temp.numbers VALUES (?1, ?2)").map_err(BackupError::Copy)?;
    let mut rows = select.query([]).map_err(failed)?;
    let mut number = 0_i64;
    while let Some(row) = rows.next().map_err(failed)? {
        number += 1;
        insert.execute([row.get::<_, i64>(0).map_err(failed)?, number]).map_err(BackupError::Copy)?;
    }
    Ok(())
}

fn copy_rows(foreign: &Connection, copy: &Connection, table: &CopiedTable) -> Result<(), BackupError> {
    let failed = |error: rusqlite::Error| BackupError::database(&error);
    let name = &table.name;
    let columns: Vec<&str> = table.columns.iter().map(|column| column.0.as_str()).collect();
    let parameter = |(index, column): (usize, &&str)| match *column {
        SEQ if NUMBERED.contains(&name.as_str()) => "number".to_owned(),
        _ => format!("?{}", index + 1),
    };
    let parameters = columns.iter().enumerate().map(parameter).collect::<Vec<_>>().join(", ");
    let columns = columns.join(", ");
    // An index from outside may omit rows.
    let select = format!("SELECT {columns} FROM main.{name} NOT INDEXED");
    let insert = match NUMBERED.contains(&name.as_str()) {
        true => format!(
            "INSERT INTO main.{name} ({columns}) SELECT {parameters} FROM temp.numbers WHERE seq = ?1"
        ),
        false => format!("INSERT INTO main.{name} ({columns}) VALUES ({parameters})"),
    };
    let attributes = table.columns.iter().position(|column| name == "items" && column.0 == "attributes");
    let mut select = foreign.prepare(&select).map_err(failed)?;
    let mut insert = copy.prepare(&insert).map_err(BackupError::Copy)?;
    let mut rows = select.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        if let Some(attributes) = attributes {
            let json = row.get_ref(attributes).and_then(|json| Ok(json.as_str()?)).map_err(failed)?;
            // One unreadable row would block its whole channel.
            serde_json::from_str::<Attributes>(json)
                .map_err(|error| BackupError::Database(format!("a row is not an item: {error}")))?;
        }
        let values: Result<Vec<ToSqlOutput<'_>>, _> =
            (0..table.columns.len()).map(|index| row.get_ref(index).map(ToSqlOutput::Borrowed)).collect();
        insert.execute(params_from_iter(values.map_err(failed)?)).map_err(not_copied)?;
    }
    Ok(())
}

/// The error of a failed insert: a row that our schema rejects is an error of the backup, a full disk is not.
fn not_copied(error: rusqlite::Error) -> BackupError {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch) => BackupError::database(&error),
        Some(_) | None => BackupError::Copy(error),
    }
}

fn left_out(foreign: &Connection, expected: &Connection) -> rusqlite::Result<Option<(usize, String)>> {
    let (mut found, expected) = (schema_objects(foreign)?, schema_objects(expected)?);
    found.retain(|name, object| expected.get(name) != Some(object));
    let count = found.len();
    Ok(found.into_keys().next().map(|first| (count, first)))
}

#[cfg(test)]
#[path = "adopt_tests.rs"]
mod tests;
